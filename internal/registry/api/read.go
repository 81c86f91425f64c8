package api

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/registry/catalog"
)

// Bounds on the parameters of a list (registry API v0.1).
const (
	defaultLimit = 30
	maxLimit     = 100
	maxSearch    = 256 // bytes
	maxWords     = 16
)

type route struct {
	method, path string
	action       Action
	handler      http.HandlerFunc
}

// routes are all that need a caller's authorization; the one place that lists
// them.
func (h *handler) routes() []route {
	const base, server = "/registry/{registry}/v0.1", "/registry/{registry}/v0.1/servers/{server}"
	return []route{
		{"GET", base + "/servers", ActionRead, h.list},
		{"GET", server + "/versions", ActionRead, h.versions},
		{"GET", server + "/versions/{version}", ActionRead, h.version},
		{"POST", base + "/publish", ActionWrite, h.publish},
		{"PUT", server + "/versions/{version}", ActionWrite, h.edit},
		{"DELETE", server + "/versions/{version}", ActionWrite, h.remove},
		{"PATCH", server + "/versions/{version}/status", ActionWrite, h.versionStatus},
		{"PATCH", server + "/status", ActionWrite, h.serverStatus},
	}
}

func (h *handler) list(w http.ResponseWriter, r *http.Request) {
	reg, err := h.registry(r)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	q, err := parseQuery(r.URL)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	state, ok := h.changed(w, r, reg)
	if !ok {
		return
	}
	page, err := state.List(r.Context(), q)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	h.found(w, r, serverList{Servers: respondAll(page.Servers), Metadata: listMetadata{NextCursor: page.Next, Count: len(page.Servers)}})
}

func (h *handler) versions(w http.ResponseWriter, r *http.Request) {
	state, deleted, ok := h.reading(w, r)
	if !ok {
		return
	}
	servers, err := state.Versions(r.Context(), r.PathValue("server"), deleted)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	h.found(w, r, serverList{Servers: respondAll(servers), Metadata: listMetadata{Count: len(servers)}})
}

func (h *handler) version(w http.ResponseWriter, r *http.Request) {
	state, deleted, ok := h.reading(w, r)
	if !ok {
		return
	}
	s, err := state.Get(r.Context(), r.PathValue("server"), r.PathValue("version"), deleted)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	h.found(w, r, respond(s))
}

// reading returns the state that the versions of a server are read from, and
// whether deleted ones are included; false when it has responded.
func (h *handler) reading(w http.ResponseWriter, r *http.Request) (state catalog.Reader, deleted, ok bool) {
	reg, err := h.registry(r)
	var query url.Values
	if err == nil {
		query, err = parameters(r.URL, "include_deleted")
	}
	if err == nil {
		deleted, _, err = boolean(query, "include_deleted")
	}
	if err != nil {
		h.refuse(w, r, err)
		return nil, false, false
	}
	state, ok = h.changed(w, r, reg)
	return state, deleted, ok
}

// parameters are the query's; a known one that is repeated is rejected, because
// readers disagree on which counts.
func parameters(u *url.URL, known ...string) (url.Values, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, &badRequest{"the query is not percent-encoded properly"}
	}
	for _, name := range known {
		if len(query[name]) > 1 {
			return nil, &badRequest{name + " is there more than once"}
		}
	}
	return query, nil
}

func parseQuery(u *url.URL) (catalog.Query, error) {
	query, err := parameters(u, "cursor", "limit", "search", "updated_since", "version", "include_deleted")
	if err != nil {
		return catalog.Query{}, err
	}
	q := catalog.Query{Cursor: query.Get("cursor"), Limit: defaultLimit, Version: query.Get("version")}
	if text := query.Get("limit"); text != "" {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > maxLimit {
			return q, &badRequest{fmt.Sprintf("limit must be a number from 1 to %d", maxLimit)}
		}
	}
	if search := query.Get("search"); search != "" {
		q.Words = strings.Fields(search)
		if len(search) > maxSearch || len(q.Words) > maxWords {
			return q, &badRequest{fmt.Sprintf("search must be at most %d bytes and %d words", maxSearch, maxWords)}
		}
	}
	if len(q.Version) > registry.MaxVersion {
		return q, &badRequest{fmt.Sprintf("version must be at most %d bytes", registry.MaxVersion)}
	}
	deleted, said, err := boolean(query, "include_deleted")
	if err != nil {
		return q, err
	}
	q.IncludeDeleted = deleted
	if text := query.Get("updated_since"); text != "" {
		if q.UpdatedSince, err = time.Parse(time.RFC3339, text); err != nil {
			return q, &badRequest{"updated_since must be a time as RFC 3339 writes it, such as 2026-01-02T15:04:05Z"}
		}
		// The year 1 is a time as well: its list, too, ends at its horizon, or a
		// client that continues from it would miss changes.
		if q.UpdatedSince.IsZero() {
			q.UpdatedSince = q.UpdatedSince.Add(time.Nanosecond)
		}
		// A client that follows changes must receive deletions (registry API v0.1).
		if said && !deleted {
			return q, &badRequest{"updated_since lists what was deleted too; leave include_deleted=false out"}
		}
		q.IncludeDeleted = true
	}
	return q, nil
}

func boolean(query url.Values, name string) (value, said bool, err error) {
	switch query.Get(name) {
	case "":
		return false, false, nil
	case "true":
		return true, true, nil
	case "false":
		return false, true, nil
	}
	return false, true, &badRequest{name + " must be true or false"}
}
