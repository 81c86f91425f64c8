package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// wellKnown is where protected resource metadata is (RFC 9728 section 3).
const wellKnown = "/.well-known/oauth-protected-resource"

// Resource is what a protected resource says of itself and how it refuses. One
// place makes the metadata document, its locations and every challenge, so they
// cannot disagree.
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
	// AuthorizationServers are issuer URLs, in order.
	AuthorizationServers []string
	// Scopes are advertised; may be empty.
	Scopes []string
	// Documentation is a URL for people.
	Documentation string
	// ChallengeScope is what a 401 asks for; may be "".
	ChallengeScope string
}

// NewResource checks the configuration and prepares the document. A resource
// that cannot be identified is refused here, never while serving.
func NewResource(c ResourceConfig) (*Resource, error) {
	var errs []error
	u, err := url.Parse(c.URL)
	switch {
	case c.URL == "":
		errs = append(errs, errors.New("resourceUrl: is required: the URL under which clients reach this resource"))
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		errs = append(errs, fmt.Errorf("resourceUrl: %q is not an absolute http(s) URL", c.URL))
	case u.Fragment != "" || strings.Contains(c.URL, "#") || u.User != nil || u.RawQuery != "":
		errs = append(errs, fmt.Errorf("resourceUrl: %q must not have user information, a query or a fragment", c.URL))
	}
	if strings.ContainsFunc(c.Realm, func(r rune) bool { return r < ' ' || r > '~' }) {
		errs = append(errs, fmt.Errorf("realm: %q has characters that a header cannot carry", c.Realm))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	doc := map[string]any{
		"resource":                 c.URL,
		"authorization_servers":    slices.Clone(c.AuthorizationServers),
		"bearer_methods_supported": []string{"header"},
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

// Paths are where the metadata is served: the root form, and the form with the
// resource's path inserted when it has one (RFC 9728 section 3.1).
func (r *Resource) Paths() []string {
	if inserted := r.insertedPath(); inserted != wellKnown {
		return []string{wellKnown, inserted}
	}
	return []string{wellKnown}
}

// insertedPath: a slash that ends the host or the path is removed first (RFC
// 9728 section 3.1).
func (r *Resource) insertedPath() string {
	return wellKnown + strings.TrimSuffix(r.url.EscapedPath(), "/")
}

// MetadataURL is where a challenge points: the path-inserted form.
func (r *Resource) MetadataURL() string {
	return r.url.Scheme + "://" + r.url.Host + r.insertedPath()
}

// ServeHTTP serves the metadata document.
func (r *Resource) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	h := w.Header()
	// Public by definition, and read by web clients too.
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
	_, _ = w.Write(r.metadata) // the caller went away
}

// Refuse answers a request that is not let through: 401, or 403 for a token
// without the scope. code is an RFC 6750 section 3.1 error, or "" when the
// request had no credential at all.
func (r *Resource) Refuse(w http.ResponseWriter, status int, code, description, scope string) {
	challenge := "Bearer realm=" + quoted(r.realm) + ", resource_metadata=" + quoted(r.MetadataURL())
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
