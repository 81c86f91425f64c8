package api

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/toolhaven/toolhaven/internal/registry/catalog"
	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// Conditional requests (RFC 9110 section 13). All our entity tags are weak: the
// documents of an answer are fetched after the state that its tag names, and may
// be newer. So If-None-Match, which compares weakly, recognizes a response by its tag,
// and If-Match, which compares strongly (section 13.1.1), holds for no tag but
// for "*" alone.

// entityTag names the answer to a request from the state with that tag: the
// state, and the question.
func entityTag(r *http.Request, state string) string {
	sum := sha256.Sum256([]byte(r.URL.Path + "?" + r.URL.RawQuery))
	return fmt.Sprintf(`W/"%s-%s"`, state, base64.RawURLEncoding.EncodeToString(sum[:9]))
}

// changed returns the state to answer from, and notes its entity tag. When the
// caller has that answer already, it answers 304 (RFC 9110 section 13.1.2) and
// returns false, as it does after a failure.
func (h *handler) changed(w http.ResponseWriter, r *http.Request, reg catalog.Registry) (catalog.Reader, bool) {
	state, err := reg.Now(r.Context())
	var tag string
	if err == nil {
		tag, err = state.Tag(r.Context())
	}
	if err != nil {
		h.refuse(w, r, err)
		return nil, false
	}
	etag := entityTag(r, tag)
	header := w.Header()
	header.Set("ETag", etag)
	header.Set("Cache-Control", "private, no-cache")
	header.Set("Vary", "Authorization")
	// A client that has the tag has had this response, so there is one. If-Match comes
	// first (section 13.2.2), and so has to wait for the answer.
	if len(r.Header.Values("If-Match")) == 0 && names(r.Header.Values("If-None-Match"), etag) {
		w.WriteHeader(http.StatusNotModified)
		return nil, false
	}
	return state, true
}

// found answers with what is there, unless a condition of the request is against
// it. Conditions count only where the answer would be a success (section 13.2.1).
func (h *handler) found(w http.ResponseWriter, r *http.Request, v any) {
	match, noneMatch := r.Header.Values("If-Match"), r.Header.Values("If-None-Match")
	switch {
	case len(match) > 0 && !anything(match):
		h.refuse(w, r, errNoMatch)
	case anything(noneMatch), names(noneMatch, w.Header().Get("ETag")):
		w.WriteHeader(http.StatusNotModified)
	default:
		answer(w, http.StatusOK, v)
	}
}

// unmet is an error for a condition of the request that does not hold.
type unmet struct{ text string }

func (e *unmet) Error() string { return e.text }

var (
	errNoMatch = &unmet{`If-Match does not hold: the tags of this registry are weak, and it compares strongly (RFC 9110 section 13.1.1); only "*" matches`}
	errMatch   = &unmet{"If-None-Match does not hold: it is there"}
	// What a publication makes is not there.
	errNothing = &unmet{"If-Match does not hold: a version is published once, where it is not there"}
)

// mayChange evaluates the conditions of a request to change a version of a
// server, or all of them. What is not there fails by itself.
func mayChange(r *http.Request, reg catalog.Registry) error {
	match, noneMatch := r.Header.Values("If-Match"), r.Header.Values("If-None-Match")
	if len(match) == 0 && len(noneMatch) == 0 {
		return nil
	}
	ctx := r.Context()
	state, err := reg.Now(ctx)
	if err != nil {
		return err
	}
	tag, err := state.Tag(ctx)
	if err != nil {
		return err
	}
	servers, err := state.Versions(ctx, r.PathValue("server"), true)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	version, there := r.PathValue("version"), false
	for _, s := range servers {
		there = there || version == "" || s.Version.Version == version
	}
	switch {
	case !there:
		return nil
	case len(match) > 0 && !anything(match):
		return errNoMatch
	case anything(noneMatch), names(noneMatch, entityTag(r, tag)):
		return errMatch
	}
	return nil
}

// anything reports whether a field is "*".
func anything(values []string) bool {
	return len(values) == 1 && strings.TrimSpace(values[0]) == "*"
}

// names reports whether a field has the weak tag in its list, by weak comparison
// (section 8.8.3.2).
func names(values []string, etag string) bool {
	for _, line := range values {
		for candidate := range strings.SplitSeq(line, ",") {
			candidate = strings.TrimSpace(candidate)
			if candidate == etag || "W/"+candidate == etag {
				return true
			}
		}
	}
	return false
}
