package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/toolhaven/toolhaven/internal/auditlog"
	"github.com/toolhaven/toolhaven/internal/registry/catalog"
	"github.com/toolhaven/toolhaven/internal/registry/serverjson"
	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// officialMeta is the key of the registry's own data about a version (registry API
// v0.1); no other members may be in it.
const officialMeta = "io.modelcontextprotocol.registry/official"

type serverResponse struct {
	Server json.RawMessage             `json:"server"`
	Meta   map[string]officialMetadata `json:"_meta"`
}

type officialMetadata struct {
	Status          string `json:"status"`
	StatusMessage   string `json:"statusMessage,omitempty"`
	StatusChangedAt string `json:"statusChangedAt"`
	PublishedAt     string `json:"publishedAt"`
	UpdatedAt       string `json:"updatedAt"`
	IsLatest        bool   `json:"isLatest"`
}

type serverList struct {
	Servers  []serverResponse `json:"servers"`
	Metadata listMetadata     `json:"metadata"`
}

type listMetadata struct {
	NextCursor string `json:"nextCursor,omitempty"`
	Count      int    `json:"count"`
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func respond(s catalog.Server) serverResponse {
	return serverResponse{Server: s.Document, Meta: map[string]officialMetadata{officialMeta: {
		Status: s.Status, StatusMessage: s.StatusMessage, StatusChangedAt: timestamp(s.StatusChangedAt),
		PublishedAt: timestamp(s.PublishedAt), UpdatedAt: timestamp(s.UpdatedAt), IsLatest: s.IsLatest,
	}}}
}

func respondAll(servers []catalog.Server) []serverResponse {
	out := make([]serverResponse, len(servers))
	for i, s := range servers {
		out[i] = respond(s)
	}
	return out
}

// answer writes v as JSON. Documents go out as they were published: nothing in
// them is escaped anew.
func answer(w http.ResponseWriter, status int, v any) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		fail(w, http.StatusInternalServerError, "the answer cannot be written")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // the caller went away
}

type failure struct {
	Error string `json:"error"`
	// Faults are those of a document that was sent.
	Faults []serverjson.Fault `json:"faults,omitempty"`
}

func fail(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	h.Del("ETag")
	h.Set("Cache-Control", "no-store")
	answer(w, status, failure{Error: text})
}

// badRequest is an error that is the caller's.
type badRequest struct{ text string }

func (e *badRequest) Error() string { return e.text }

// refuse answers with the status that an error calls for. Faults of the
// request are in the response; faults of the server are logged.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var faults *serverjson.Faults
	var bad *badRequest
	var condition *unmet
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &bad):
		fail(w, http.StatusBadRequest, bad.text)
	case errors.As(err, &condition):
		fail(w, http.StatusPreconditionFailed, condition.text)
	case errors.As(err, &large):
		fail(w, http.StatusRequestEntityTooLarge, "the body is too large")
	case errors.As(err, &faults):
		w.Header().Set("Cache-Control", "no-store")
		answer(w, http.StatusUnprocessableEntity, failure{Error: "the document is not a valid server.json", Faults: faults.List})
	case errors.Is(err, catalog.ErrCursor):
		fail(w, http.StatusBadRequest, catalog.ErrCursor.Error())
	case errors.Is(err, errNoRegistry):
		fail(w, http.StatusNotFound, errNoRegistry.Error())
	case errors.Is(err, store.ErrNotFound):
		fail(w, http.StatusNotFound, "there is no such server or version")
	case errors.Is(err, store.ErrExists):
		fail(w, http.StatusConflict, "the version exists; a version is published once, so publish another or edit this one")
	case errors.Is(err, catalog.ErrShadowed):
		fail(w, http.StatusConflict, err.Error())
	case errors.Is(err, catalog.ErrReadOnly):
		fail(w, http.StatusNotImplemented, catalog.ErrReadOnly.Error())
	case errors.Is(r.Context().Err(), context.Canceled):
		// The client has gone; the status is for the log (nginx's 499).
		w.WriteHeader(499)
	case errors.Is(err, auditlog.ErrNotStored):
		w.Header().Set("Retry-After", "60")
		fail(w, http.StatusServiceUnavailable, "the record of this write cannot be stored (audit.file), so nothing was changed")
	case errors.Is(err, store.ErrFull):
		h.Log.Error("the disk of the database is full", "path", r.URL.Path, "error", err)
		w.Header().Set("Retry-After", "60")
		fail(w, http.StatusServiceUnavailable, "the disk of the registry's database is full, so nothing was changed")
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		h.Log.Error("the database does not answer", "path", r.URL.Path, "error", err)
		w.Header().Set("Retry-After", "5")
		fail(w, http.StatusServiceUnavailable, "the registry's database does not answer; try again in a moment")
	default:
		h.Log.Error("a request failed", "method", r.Method, "path", r.URL.Path, "error", err)
		fail(w, http.StatusInternalServerError, "the registry failed; see its log")
	}
}
