//go:build integration

package scenario

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// stepUp is the command stepup VAR ADDRESS SCOPE: it starts a server before the one at
// ADDRESS that requires tokens of the script's identity provider, and of each call of a tool
// one with SCOPE (RFC 6750 section 3.1). VAR is set to its URL.
func stepUp(ts *testscript.TestScript, _ bool, args []string) {
	const metadata = "/.well-known/oauth-protected-resource/mcp"
	backend := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: args[1]})
	issuer, scope := here(ts).idp.Issuer, args[2]
	server := httptest.NewUnstartedServer(nil)
	resource := "http://" + server.Listener.Addr().String() + "/mcp"
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == metadata {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"resource":%q,"authorization_servers":[%q],"scopes_supported":["tools"]}`, resource, issuer)
			return
		}
		challenge := fmt.Sprintf("Bearer resource_metadata=%q", strings.TrimSuffix(resource, "/mcp")+metadata)
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		scopes, ok := scopesFor(resource, r.Header.Get("Authorization"))
		switch {
		case !ok:
			w.Header().Set("WWW-Authenticate", challenge)
			w.WriteHeader(http.StatusUnauthorized)
		case bytes.Contains(body, []byte(`"tools/call"`)) && !slices.Contains(scopes, scope):
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`%s, error="insufficient_scope", scope=%q`, challenge, scope))
			w.WriteHeader(http.StatusForbidden)
		default:
			r.Header.Del("Authorization")
			backend.ServeHTTP(w, r)
		}
	})
	server.Start()
	ts.Defer(func() {
		server.CloseClientConnections() // streams that thv has open
		server.Close()
	})
	ts.Setenv(args[0], resource)
}

// scopesFor returns the scopes of an access token for a resource. The signature is not
// verified: only the script's own thv sends requests.
func scopesFor(resource, authorization string) (scopes []string, ok bool) {
	parts := strings.Split(strings.TrimPrefix(authorization, "Bearer "), ".")
	if len(parts) != 3 {
		return nil, false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct{ Aud, Scope string }
	if err != nil || json.Unmarshal(payload, &claims) != nil || claims.Aud != resource {
		return nil, false
	}
	return strings.Fields(claims.Scope), true
}
