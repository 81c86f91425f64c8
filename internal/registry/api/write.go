package api

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"unicode"
	"unicode/utf8"

	"github.com/toolhaven/toolhaven/internal/auditlog"
	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/registry/catalog"
	"github.com/toolhaven/toolhaven/internal/registry/serverjson"
	"github.com/toolhaven/toolhaven/internal/registry/store"
)

const (
	maxBody          = 8 << 20 // bytes
	maxStatusMessage = 500     // characters (registry API v0.1)
)

// writing runs a change and records it, whether it was made or not.
func (h *handler) writing(w http.ResponseWriter, r *http.Request, change func(catalog.Registry, []byte) (any, error)) {
	result, err := func() (any, error) {
		reg, err := h.registry(r)
		if err != nil {
			return nil, err
		}
		if r.PathValue("server") != "" {
			if err := mayChange(r, reg); err != nil {
				return nil, err
			}
		}
		var body []byte
		if r.Method != http.MethodDelete {
			if body, err = readBody(w, r); err != nil {
				return nil, err
			}
		}
		if err := h.Audit.Begin(); err != nil {
			return nil, err
		}
		return change(reg, body)
	}()
	if err != nil {
		if !errors.Is(err, auditlog.ErrNotStored) {
			h.audit(r, "failed", err)
		}
		h.refuse(w, r, err)
		return
	}
	h.audit(r, "done", nil)
	w.Header().Set("Cache-Control", "no-store")
	answer(w, http.StatusOK, result)
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return nil, &badRequest{"the body must be JSON, and Content-Type say application/json"}
	}
	if r.ContentLength > maxBody { // no need to wait for it
		return nil, &http.MaxBytesError{Limit: maxBody}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, err
	case err != nil:
		return nil, &badRequest{"the body did not arrive whole"}
	}
	return body, nil
}

func (h *handler) publish(w http.ResponseWriter, r *http.Request) {
	h.writing(w, r, func(reg catalog.Registry, body []byte) (any, error) {
		doc, err := serverjson.Validate(body)
		if err != nil {
			return nil, err
		}
		// The path does not have the server; the record must.
		r.SetPathValue("server", doc.Name)
		r.SetPathValue("version", doc.Version)
		if len(r.Header.Values("If-Match")) > 0 {
			return nil, errNothing
		}
		s, err := reg.Publish(r.Context(), doc)
		if errors.Is(err, store.ErrExists) && anything(r.Header.Values("If-None-Match")) {
			err = errMatch // as the request's condition demands
		}
		return respond(s), err
	})
}

func (h *handler) edit(w http.ResponseWriter, r *http.Request) {
	h.writing(w, r, func(reg catalog.Registry, body []byte) (any, error) {
		doc, err := serverjson.Validate(body)
		if err != nil {
			return nil, err
		}
		if doc.Name != r.PathValue("server") || doc.Version != r.PathValue("version") {
			return nil, &badRequest{"name and version of the document must be those of the path; neither can be changed"}
		}
		s, err := reg.Edit(r.Context(), doc)
		return respond(s), err
	})
}

func (h *handler) remove(w http.ResponseWriter, r *http.Request) {
	h.writing(w, r, func(reg catalog.Registry, _ []byte) (any, error) {
		return setStatus(r, reg, r.PathValue("version"), registry.Deleted, "")
	})
}

func (h *handler) versionStatus(w http.ResponseWriter, r *http.Request) {
	h.writing(w, r, func(reg catalog.Registry, body []byte) (any, error) {
		status, message, err := parseStatus(body)
		if err != nil {
			return nil, err
		}
		return setStatus(r, reg, r.PathValue("version"), status, message)
	})
}

func setStatus(r *http.Request, reg catalog.Registry, version, status, message string) (any, error) {
	servers, err := reg.SetStatus(r.Context(), r.PathValue("server"), version, status, message)
	if err != nil {
		return nil, err
	}
	return respond(servers[0]), nil
}

func (h *handler) serverStatus(w http.ResponseWriter, r *http.Request) {
	h.writing(w, r, func(reg catalog.Registry, body []byte) (any, error) {
		status, message, err := parseStatus(body)
		if err != nil {
			return nil, err
		}
		servers, err := reg.SetStatus(r.Context(), r.PathValue("server"), "", status, message)
		if err != nil {
			return nil, err
		}
		return struct {
			UpdatedCount int              `json:"updatedCount"`
			Servers      []serverResponse `json:"servers"`
		}{len(servers), respondAll(servers)}, nil
	})
}

// parseStatus reads {status, statusMessage}.
func parseStatus(body []byte) (status, message string, err error) {
	// Read as strictly as a document: readers disagree on which of two members of
	// a name counts, and half a character would be stored as another one.
	members, err := serverjson.Members(body)
	if err != nil {
		return "", "", &badRequest{`the body must be an object such as {"status":"deprecated","statusMessage":"why"}: ` + err.Error()}
	}
	for name, raw := range members {
		var into *string
		switch name {
		case "status":
			into = &status
		case "statusMessage":
			into = &message
		default:
			return "", "", &badRequest{"the body may hold status and statusMessage only"}
		}
		if string(raw) == "null" || json.Unmarshal(raw, into) != nil {
			return "", "", &badRequest{name + " must be a text"}
		}
	}
	switch status {
	case registry.Active, registry.Deprecated, registry.Deleted:
	default:
		return "", "", &badRequest{"status must be active, deprecated or deleted"}
	}
	if utf8.RuneCountInString(message) > maxStatusMessage {
		return "", "", &badRequest{"statusMessage must be at most 500 characters"}
	}
	for _, c := range message {
		if unicode.IsControl(c) && c != '\n' && c != '\t' {
			return "", "", &badRequest{"statusMessage has a control character"}
		}
	}
	return status, message, nil
}
