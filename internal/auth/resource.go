package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
)

// wellKnown is where protected resource metadata is (RFC 9728 section 3).
const wellKnown = WellKnownPrefix + "oauth-protected-resource"

// WellKnownPrefix begins the paths of metadata about an origin (RFC 8615), which is public.
const WellKnownPrefix = "/.well-known/"

// Resource is a protected resource: it makes the metadata document, its locations and
// every challenge, so that they agree.
type Resource struct {
	realm     string
	metadata  []byte
	url       *url.URL
	hintScope string
}

// ResourceConfig describes a protected resource.
type ResourceConfig struct {
	// URL identifies the resource; clients compare it byte for byte (RFC 9728
	// section 3.3).
	URL string
	// Realm goes into challenges (RFC 6750 section 3).
	Realm string
	// AuthorizationServers are issuer URLs, in order; may be empty.
	AuthorizationServers []string
	// Scopes are advertised; may be empty.
	Scopes []string
	// Documentation is the URL of documentation for users.
	Documentation string
	// ChallengeScope is the scope in the challenge of a 401; may be "".
	ChallengeScope string
}

// NewResource checks the configuration and prepares the document.
func NewResource(c ResourceConfig) (*Resource, error) {
	var errs []error
	u, err := url.Parse(c.URL)
	switch {
	case c.URL == "":
		errs = append(errs, errors.New("resourceUrl: is required: the URL under which clients reach this resource"))
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		errs = append(errs, fmt.Errorf("resourceUrl: %q is not an absolute http(s) URL", c.URL))
	case strings.ContainsAny(c.URL, "#?") || u.User != nil:
		errs = append(errs, fmt.Errorf("resourceUrl: %q must not have user information, a query or a fragment", u.Redacted()))
	case strings.Contains(u.Host, "%"):
		errs = append(errs, fmt.Errorf("resourceUrl: %q has an IPv6 zone, which is valid on one machine only", c.URL))
	case !plainPath(u):
		errs = append(errs, fmt.Errorf("resourceUrl: %q must not have dot segments, empty segments, backslashes or encoded slashes in its path; no request with such a path is served", c.URL))
	}
	if strings.ContainsFunc(c.Realm, func(r rune) bool { return r < ' ' || r > '~' }) {
		errs = append(errs, fmt.Errorf("realm: %q has characters that a header cannot carry", c.Realm))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	doc := map[string]any{
		"resource":                 c.URL,
		"bearer_methods_supported": []string{"header"},
	}
	if len(c.AuthorizationServers) > 0 { // RFC 9728 section 3.2: no empty arrays
		doc["authorization_servers"] = slices.Clone(c.AuthorizationServers)
	}
	if len(c.Scopes) > 0 {
		doc["scopes_supported"] = c.Scopes
	}
	if c.Documentation != "" {
		doc["resource_documentation"] = c.Documentation
	}
	b, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	return &Resource{realm: c.Realm, metadata: append(b, '\n'), url: u, hintScope: c.ChallengeScope}, nil
}

// plainPath reports whether requests can have u's path: servers and proxies rewrite or
// reject other paths.
func plainPath(u *url.URL) bool {
	escaped := strings.ToLower(u.EscapedPath())
	if strings.Contains(escaped, "%2f") || strings.Contains(escaped, "%5c") {
		return false
	}
	trimmed := strings.TrimSuffix(u.Path, "/")
	return trimmed == "" || trimmed != "/" && path.Clean(trimmed) == trimmed
}

// Paths are where the metadata is served: the root form, and the form with the
// resource's path inserted when it has one (RFC 9728 section 3.1), with and without a
// slash at its end, because clients differ.
func (r *Resource) Paths() []string {
	paths := []string{wellKnown}
	if inserted := r.insertedPath(); inserted != wellKnown {
		paths = append(paths, strings.TrimSuffix(inserted, "/"))
		if strings.HasSuffix(inserted, "/") {
			paths = append(paths, inserted)
		}
	}
	return paths
}

// insertedPath is the path-inserted form. A path that is only a slash is removed (RFC
// 9728 section 3.1); a slash at the end of a longer path is part of it.
func (r *Resource) insertedPath() string {
	if r.url.Path == "/" {
		return wellKnown
	}
	return wellKnown + r.url.EscapedPath()
}

// MetadataURL is the URL in challenges: the path-inserted form.
func (r *Resource) MetadataURL() string {
	return r.url.Scheme + "://" + r.url.Host + r.insertedPath()
}

// serves reports whether path, decoded, is one of Paths. A pattern of http.ServeMux
// that ends in a slash would match every path below it.
func (r *Resource) serves(path string) bool {
	rest, ok := strings.CutPrefix(path, wellKnown)
	return ok && (rest == "" || rest == r.url.Path || rest+"/" == r.url.Path)
}

// ServeHTTP serves the metadata document at Paths, and 404 elsewhere.
func (r *Resource) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if !r.serves(req.URL.Path) {
		http.NotFound(w, req)
		return
	}
	h := w.Header()
	// It is public, and web clients read it.
	h.Set("Access-Control-Allow-Origin", "*")
	switch req.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodOptions:
		h.Set("Access-Control-Allow-Methods", "GET, HEAD, OPTIONS")
		h.Set("Access-Control-Allow-Headers", "Authorization, MCP-Protocol-Version")
		w.WriteHeader(http.StatusNoContent)
		return
	default:
		h.Set("Allow", "GET, HEAD, OPTIONS")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "public, max-age=300")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(r.metadata) // the client closed the connection
}

// Unauthorized is the [Refuser] of a resource that has the same name for every request.
func (r *Resource) Unauthorized(w http.ResponseWriter, _ *http.Request, code, description string) {
	r.Refuse(w, http.StatusUnauthorized, code, description, "")
}

// Challenge is the common part of all challenges (RFC 6750 section 3, RFC 9728 section
// 5.1).
func (r *Resource) Challenge() string {
	return "Bearer realm=" + quoted(r.realm) + ", resource_metadata=" + quoted(r.MetadataURL())
}

// Refuse sends an error response: 401, or 403 for a token without the scope. code is
// an error of RFC 6750 section 3.1, or "" for a request without a credential.
func (r *Resource) Refuse(w http.ResponseWriter, status int, code, description, scope string) {
	challenge := r.Challenge()
	if scope == "" && status == http.StatusUnauthorized {
		scope = r.hintScope
	}
	if scope != "" {
		challenge += ", scope=" + quoted(scope)
	}
	if code != "" {
		challenge += ", error=" + quoted(code) + ", error_description=" + quoted(description)
	}
	h := w.Header()
	h.Set("WWW-Authenticate", challenge)
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	if code == "" {
		code = "unauthorized"
	}
	_ = json.NewEncoder(w).Encode(map[string]string{"error": code, "error_description": description})
}

// quoted is an HTTP quoted-string (RFC 9110 section 5.6.4).
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
