package oauthclient

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// Hostile resources and authorization servers (RFC 9700 section 4, MCP security best
// practices): the sign-in fails before a token request.
func TestSignIn_HostileServers(t *testing.T) {
	const prm = "/.well-known/oauth-protected-resource/registry/default"
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { t.Errorf("%s was asked", r.URL) }))
	defer other.Close()
	for name, c := range map[string]struct {
		prepare func(f *fake)
		says    string
	}{
		"metadata at another origin (RFC 9728 section 3)": {func(f *fake) { f.challenge = `Bearer resource_metadata="` + other.URL + prm + `"` }, "another origin"},
		"metadata over plain HTTP":                        {func(f *fake) { f.challenge = `Bearer resource_metadata="http://registry.example/x"` }, "not HTTPS"},
		"metadata that is a file":                         {func(f *fake) { f.challenge = `Bearer resource_metadata="file:///etc/passwd"` }, "not an absolute https URL"},
		"metadata with a password":                        {func(f *fake) { f.challenge = `Bearer resource_metadata="https://a:b@registry.example/x"` }, "user information"},
		"metadata that redirects": {func(f *fake) {
			f.rsPath[prm] = func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) }
		}, "302"},
		"metadata without end": {func(f *fake) { f.rsPath[prm] = flood }, "too large"},
		"metadata that is a page": {func(f *fake) {
			f.rsPath[prm] = func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }
		}, "not a JSON object"},
		"metadata of the wrong types":                               {func(f *fake) { f.resource["authorization_servers"] = "https://as.example" }, "authorization_servers"},
		"a resource of another origin (RFC 9728 section 3.3)":       {func(f *fake) { f.resource["resource"] = "https://bank.example/registry/default" }, "it is about https://bank.example"},
		"a resource beside the one asked":                           {func(f *fake) { f.resource["resource"] = f.url + "2" }, "it is about"},
		"a resource below the one asked":                            {func(f *fake) { f.resource["resource"] = f.url + "/v0.1/servers/x" }, "it is about"},
		"no resource":                                               {func(f *fake) { delete(f.resource, "resource") }, `no "resource"`},
		"no authorization server":                                   {func(f *fake) { f.resource["authorization_servers"] = []string{} }, "names no authorization server"},
		"too many authorization servers":                            {func(f *fake) { f.resource["authorization_servers"] = slices.Repeat([]string{f.issuer}, maxIssuers+1) }, "more than"},
		"tokens in the query":                                       {func(f *fake) { f.resource["bearer_methods_supported"] = []string{"query"} }, "Authorization header"},
		"tokens bound by DPoP":                                      {func(f *fake) { f.resource["dpop_bound_access_tokens_required"] = true }, "DPoP"},
		"a scope that is none":                                      {func(f *fake) { f.resource["scopes_supported"] = []string{"a\"b"} }, "not a scope"},
		"an issuer over plain HTTP":                                 {func(f *fake) { f.resource["authorization_servers"] = []string{"http://as.example"} }, "not HTTPS"},
		"an issuer with a query":                                    {func(f *fake) { f.resource["authorization_servers"] = []string{f.issuer + "?x"} }, "query"},
		"an issuer that is a script":                                {func(f *fake) { f.resource["authorization_servers"] = []string{"javascript:alert(1)"} }, "not an absolute https URL"},
		"metadata of another issuer (mix-up, RFC 8414 section 3.3)": {func(f *fake) { f.metadata["issuer"] = "https://honest.example" }, `got "https://honest.example"`},
		"an issuer that differs by a slash":                         {func(f *fake) { f.metadata["issuer"] = f.issuer + "/" }, "another issuer"},
		"no PKCE":                                                   {func(f *fake) { delete(f.metadata, "code_challenge_methods_supported") }, "PKCE"},
		"only plain PKCE":                                           {func(f *fake) { f.metadata["code_challenge_methods_supported"] = []string{"plain"} }, "S256"},
		"no codes":                                                  {func(f *fake) { f.metadata["response_types_supported"] = []string{"token"} }, "authorization codes"},
		"no code grant":                                             {func(f *fake) { f.metadata["grant_types_supported"] = []string{"implicit"} }, "authorization codes"},
		"no authorization endpoint":                                 {func(f *fake) { delete(f.metadata, "authorization_endpoint") }, "no authorization_endpoint"},
		"an authorization endpoint that is a script":                {func(f *fake) { f.metadata["authorization_endpoint"] = "javascript:alert(1)" }, "authorization_endpoint"},
		"an authorization endpoint that is a file":                  {func(f *fake) { f.metadata["authorization_endpoint"] = "file:///etc/passwd" }, "authorization_endpoint"},
		"an authorization endpoint with commands":                   {func(f *fake) { f.metadata["authorization_endpoint"] = f.issuer + "/authorize?x=`touch${IFS}x`" }, "characters that no URL has"},
		"an authorization endpoint with an escape sequence":         {func(f *fake) { f.metadata["authorization_endpoint"] = f.issuer + "/\x1b[2J" }, "characters that no URL has"},
		"a token endpoint over plain HTTP":                          {func(f *fake) { f.metadata["token_endpoint"] = "http://as.example/token" }, "not HTTPS"},
		"a registration endpoint over plain HTTP":                   {func(f *fake) { f.metadata["registration_endpoint"] = "http://as.example/reg" }, "not HTTPS"},
		"a revocation endpoint with a fragment":                     {func(f *fake) { f.metadata["revocation_endpoint"] = "https://as.example/#x" }, "fragment"},
		"server metadata that redirects": {func(f *fake) {
			f.asPath["/.well-known/oauth-authorization-server"] = func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) }
		}, "not an authorization server"},
		"server metadata without end": {func(f *fake) { f.asPath["/.well-known/oauth-authorization-server"] = flood }, "too large"},
		"a server that fails": {func(f *fake) {
			f.asPath["/.well-known/oauth-authorization-server"] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }
		}, "502"},
		"no registration":                {func(f *fake) { delete(f.metadata, "registration_endpoint") }, "from its administrator, and name it"},
		"a registration that is refused": {func(f *fake) { f.asPath["/register"] = refuse(403, "access_denied", "\x1b[2Jnot\u202e you") }, "access_denied (not you)"},
		"a client without an id":         {func(f *fake) { f.asPath["/register"] = answer200(map[string]any{}) }, "no usable client_id"},
		"a client id with a line break":  {func(f *fake) { f.asPath["/register"] = answer200(map[string]any{"client_id": "a\r\nb"}) }, "no usable client_id"},
		"a client for another redirect": {func(f *fake) {
			f.asPath["/register"] = answer200(map[string]any{"client_id": "a", "redirect_uris": []string{other.URL}})
		}, "another redirect"},
		"a client with a key": {func(f *fake) {
			f.asPath["/register"] = answer200(map[string]any{"client_id": "a", "token_endpoint_auth_method": "private_key_jwt"})
		}, "private_key_jwt"},
		"a resource that fails": {func(f *fake) {
			f.rsPath["/registry/default/v0.1/servers"] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }
		}, "500"},
		"metadata that fails": {func(f *fake) {
			f.challenge = "none"
			f.rsPath[prm] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }
		}, "503"},
		"no metadata at all": {func(f *fake) { f.challenge = "none"; f.rsPath[prm] = http.NotFound }, "does not say where to sign in"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, keyed := range []bool{false, true} {
				f, s := newFake(t), testStore(t)
				c.prepare(f)
				r := f.request()
				if keyed { // as run does
					r = f.keyed()
				}
				if keyed && name == "a resource that fails" {
					continue // at the path of the registry
				}
				_, err := s.SignIn(t.Context(), r)
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Fatalf("got %v, want %q", err, c.says)
				}
				if strings.ContainsAny(err.Error(), "\x1b\r\n\u202e") {
					t.Errorf("the error can steer a terminal: %q", err)
				}
				if len(f.forms) > 0 || len(keptFiles(t, s)) > 0 {
					t.Errorf("%d token requests, kept %v", len(f.forms), keptFiles(t, s))
				}
			}
		})
	}
}

func flood(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, "{")
	for range 3 << 10 {
		if _, err := io.WriteString(w, strings.Repeat(" ", 1<<10)); err != nil {
			return
		}
	}
}

func answer200(v any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 200, v) }
}

func refuse(status int, code, description string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, status, map[string]string{"error": code, "error_description": description})
	}
}

// RFC 6749 section 5.1, RFC 6750 section 2.1.
func TestTokenResponse(t *testing.T) {
	token := func(change func(m map[string]any)) func(f *fake) {
		return func(f *fake) {
			f.token = func(w http.ResponseWriter, _ url.Values) bool {
				m := f.grant()
				change(m)
				writeJSON(w, 200, m)
				return true
			}
		}
	}
	echo := func(status int) func(f *fake) {
		return func(f *fake) {
			f.token = func(w http.ResponseWriter, form url.Values) bool {
				f.secrets = append(f.secrets, form.Get("code_verifier"))
				writeJSON(w, status, map[string]string{"error": "invalid_grant", "error_description": "the code " + form.Get("code") + " for " + form.Get("code_verifier")})
				return true
			}
		}
	}
	for name, c := range map[string]struct {
		prepare func(f *fake)
		says    string // "" is a sign-in
	}{
		"no token":                        {token(func(m map[string]any) { delete(m, "access_token") }), "no access_token"},
		"a token that is a number":        {token(func(m map[string]any) { m["access_token"] = 7 }), "access_token"},
		"a token with a line break":       {token(func(m map[string]any) { m["access_token"] = "a\r\nX-Evil: b" }), "cannot be sent"},
		"a token with a space":            {token(func(m map[string]any) { m["access_token"] = "a b" }), "cannot be sent"},
		"a token that is endless":         {token(func(m map[string]any) { m["access_token"] = strings.Repeat("a", 65<<10) }), "cannot be sent"},
		"a refresh token that is endless": {token(func(m map[string]any) { m["refresh_token"] = strings.Repeat("a", 65<<10) }), "too long"},
		"type DPoP":                       {token(func(m map[string]any) { m["token_type"] = "DPoP" }), "Bearer only"},
		"type mac, with the token in it":  {token(func(m map[string]any) { m["token_type"] = "mac " + m["access_token"].(string) }), "Bearer only"},
		"no type":                         {token(func(m map[string]any) { delete(m, "token_type") }), "Bearer only"},
		"type BEARER":                     {token(func(m map[string]any) { m["token_type"] = "BEARER" }), ""},
		"a lifetime that is text":         {token(func(m map[string]any) { m["expires_in"] = "3600" }), ""},
		"a lifetime that is a fraction":   {token(func(m map[string]any) { m["expires_in"] = 3600.5 }), ""},
		"a lifetime without end":          {token(func(m map[string]any) { m["expires_in"] = 1e300 }), ""},
		"no lifetime":                     {token(func(m map[string]any) { delete(m, "expires_in") }), ""},
		"no refresh token":                {token(func(m map[string]any) { delete(m, "refresh_token") }), ""},
		"a lifetime in the past":          {token(func(m map[string]any) { m["expires_in"] = -1 }), "expires_in"},
		"a lifetime that is nonsense":     {token(func(m map[string]any) { m["expires_in"] = "soon" }), "expires_in"},
		"a lifetime that is a list":       {token(func(m map[string]any) { m["expires_in"] = []int{1} }), "expires_in"},
		"an error that repeats secrets":   {echo(400), "invalid_grant (the code (hidden) for (hidden))"},
		"an error with status 200":        {echo(200), "invalid_grant (the code (hidden) for (hidden))"},
		"a redirect": {func(f *fake) {
			f.token = func(w http.ResponseWriter, _ url.Values) bool {
				w.Header().Set("Location", f.issuer+"/elsewhere")
				w.WriteHeader(307)
				return true
			}
		}, "307"},
		"without end": {func(f *fake) { f.token = func(w http.ResponseWriter, _ url.Values) bool { flood(w, nil); return true } }, "too large"},
		"a token that the resource refuses": {func(f *fake) {
			f.challenge = fmt.Sprintf(`Bearer error="invalid_token", error_description="audience is not mine", resource_metadata="%s/.well-known/oauth-protected-resource/registry/default"`, f.rs.URL)
			token(func(m map[string]any) { delete(f.access, m["access_token"].(string)) })(f)
		}, "does not accept the token that " + "http"},
	} {
		t.Run(name, func(t *testing.T) {
			f, s := newFake(t), testStore(t)
			c.prepare(f)
			_, err := f.signIn(s)
			if c.says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got %v, want %q", err, c.says)
			}
			f.mustKeepSecrets(err.Error())
			for _, file := range keptFiles(t, s) {
				if b, _ := os.ReadFile(file); strings.Contains(string(b), "accessToken") {
					t.Errorf("kept %s", file)
				}
			}
		})
	}
}

// The error of a timeout does not depend on how much of the response was received.
func TestGet_Timeout(t *testing.T) {
	for name, begin := range map[string]func(http.ResponseWriter){
		"before its answer": func(http.ResponseWriter) {},
		"within it":         func(w http.ResponseWriter) { io.WriteString(w, "{"); w.(http.Flusher).Flush() },
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			begin(w)
			<-r.Context().Done()
		}))
		w := &web{&http.Client{Transport: server.Client().Transport, Timeout: 300 * time.Millisecond}}
		if _, err := w.get(t.Context(), server.URL, ""); err == nil || err.Error() != server.URL+": it did not answer in time" {
			t.Errorf("%s: %v", name, err)
		}
		server.Close()
	}
}
