package web

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/toolhaven/toolhaven/internal/registry/catalog"
)

// Bounds on a list, the same as the API's.
const (
	pageSize  = 30
	maxSearch = 256 // bytes
	maxWords  = 16
)

// registryItem is a registry on the list of them.
type registryItem struct{ Name, URL string }

// list is a page of a registry's servers.
type list struct {
	Registry string
	Action   string // where the search goes
	Words    string
	Fault    string // what is wrong with the question
	Servers  []card
	More     string // URL of the next page; ""
	Start    string // URL of the first page, on the others
	Up       string // URL of the list of registries, if there are several
}

// home shows the registries, or the servers of the only one.
func (s *Site) home(w http.ResponseWriter, r *http.Request, v visitor) {
	readable := s.readable(v)
	switch len(readable) {
	case 0:
		s.failFor(w, r, v, http.StatusForbidden, "Nothing to see", problem{
			Message: "You may not read any registry here. Whoever runs this server decides on that (the section authz of its configuration).",
		})
	case 1:
		s.list(w, r, v, readable[0])
	default:
		items := make([]registryItem, len(readable))
		for i, reg := range readable {
			items[i] = registryItem{clean(reg.Name(), maxLabel), s.catalogURL(reg)}
		}
		s.show(w, r, http.StatusOK, "registries", v, "Registries", items)
	}
}

// catalog shows the servers of a registry.
func (s *Site) catalog(w http.ResponseWriter, r *http.Request, v visitor) {
	reg := s.find(v, r.PathValue("registry"))
	if reg == nil {
		s.missing(w, r, v, "There is no such registry, or you may not read it.", s.prefix+"/")
		return
	}
	s.list(w, r, v, reg)
}

func (s *Site) missing(w http.ResponseWriter, r *http.Request, v visitor, message, link string) {
	s.failFor(w, r, v, http.StatusNotFound, "Not found", problem{message, link, "See what there is"})
}

func (s *Site) catalogURL(reg catalog.Registry) string {
	return s.prefix + "/catalog/" + url.PathEscape(reg.Name())
}

func (s *Site) list(w http.ResponseWriter, r *http.Request, v visitor, reg catalog.Registry) {
	asked := r.URL.Query()
	search := strings.TrimSpace(asked.Get("q"))
	l := list{Registry: clean(reg.Name(), maxLabel), Action: s.catalogURL(reg), Words: clean(search, maxSearch)}
	if len(s.readable(v)) > 1 {
		l.Up = s.prefix + "/"
	}
	q := catalog.Query{Version: "latest", Limit: pageSize, Cursor: asked.Get("cursor"), Words: strings.Fields(search)}
	if q.Cursor != "" {
		l.Start = s.listURL(reg, search, "")
	}
	status := http.StatusOK
	if len(search) > maxSearch || len(q.Words) > maxWords {
		status, l.Fault = http.StatusBadRequest, "That is too much to search for: a few words are enough."
	} else {
		page, err := reg.List(r.Context(), q)
		switch {
		case errors.Is(err, catalog.ErrCursor):
			status, l.Fault = http.StatusBadRequest, "This address is not that of a page of the list."
		case err != nil:
			s.unavailable(w, r, err)
			return
		}
		for _, server := range page.Servers {
			l.Servers = append(l.Servers, newCard(server, s.serverURL(reg, server.Name)))
		}
		if page.Next != "" {
			l.More = s.listURL(reg, search, page.Next)
		}
	}
	s.show(w, r, status, "catalog", v, l.Registry, l)
}

func (s *Site) listURL(reg catalog.Registry, search, cursor string) string {
	q := url.Values{}
	if search != "" {
		q.Set("q", search)
	}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	if len(q) == 0 {
		return s.catalogURL(reg)
	}
	return s.catalogURL(reg) + "?" + q.Encode()
}

// serverURL: of a server's name, each part is a segment.
func (s *Site) serverURL(reg catalog.Registry, name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return s.prefix + "/server/" + url.PathEscape(reg.Name()) + "/" + strings.Join(parts, "/")
}
