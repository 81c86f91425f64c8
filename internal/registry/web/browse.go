package web

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/registry/catalog"
)

// Bounds on a list, the same as the API's.
const (
	pageSize  = 30
	maxSearch = 256 // bytes
	maxWords  = 16
)

// registryItem is a registry in the list of registries.
type registryItem struct{ Name, URL string }

// list is a page of a registry's servers.
type list struct {
	Registry string
	Action   string // URL of the search
	Words    string
	Fault    string // what is wrong with the query
	Servers  []card
	More     string // URL of the next page; "" on the last
	Start    string // URL of the first page; "" on the first
	Up       string // URL of the list of registries, if there are several
}

// browser shows the pages of the catalog.
type browser struct {
	opt   *Options
	at    location
	pages *renderer
}

// readable are the registries that a visitor may read.
func (b *browser) readable(v visitor) []catalog.Registry {
	all := b.opt.Registries()
	if v.id == nil {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(r catalog.Registry) bool { return !b.opt.MayRead(v.id, r.Name()) })
}

// find returns a registry that the visitor may read, or nil: one that the visitor may
// not read looks like one that does not exist.
func (b *browser) find(v visitor, name string) catalog.Registry {
	for _, r := range b.readable(v) {
		if r.Name() == name {
			return r
		}
	}
	return nil
}

// home shows the registries, or the servers of the only one.
func (b *browser) home(w http.ResponseWriter, r *http.Request, v visitor) {
	readable := b.readable(v)
	switch len(readable) {
	case 0:
		b.pages.failFor(w, r, v, http.StatusForbidden, "Nothing to see", problem{
			Message: "You may not read any registry here. Whoever runs this server decides on that (the section authz of its configuration).",
		})
	case 1:
		b.list(w, r, v, readable[0])
	default:
		items := make([]registryItem, len(readable))
		for i, reg := range readable {
			items[i] = registryItem{clean(reg.Name(), maxLabel), b.at.catalog(reg)}
		}
		b.pages.show(w, r, http.StatusOK, "registries", v, "Registries", items)
	}
}

// catalog shows the servers of a registry.
func (b *browser) catalog(w http.ResponseWriter, r *http.Request, v visitor) {
	reg := b.find(v, r.PathValue("registry"))
	if reg == nil {
		b.pages.missing(w, r, v, "There is no such registry, or you may not read it.", b.at.prefix+"/")
		return
	}
	b.list(w, r, v, reg)
}

func (b *browser) list(w http.ResponseWriter, r *http.Request, v visitor, reg catalog.Registry) {
	query := r.URL.Query()
	search := strings.TrimSpace(query.Get("q"))
	l := list{Registry: clean(reg.Name(), maxLabel), Action: b.at.catalog(reg), Words: clean(search, maxSearch)}
	if len(b.readable(v)) > 1 {
		l.Up = b.at.prefix + "/"
	}
	q := catalog.Query{Version: "latest", Limit: pageSize, Cursor: query.Get("cursor"), Words: strings.Fields(search)}
	if q.Cursor != "" {
		l.Start = b.at.list(reg, search, "")
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
			b.pages.unavailable(w, r, err)
			return
		}
		for _, server := range page.Servers {
			l.Servers = append(l.Servers, newCard(server, b.at.server(reg, server.Name)))
		}
		if page.Next != "" {
			l.More = b.at.list(reg, search, page.Next)
		}
	}
	b.pages.show(w, r, status, "catalog", v, l.Registry, l)
}
