package upstream

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode"

	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/internal/oauth"
)

// Whatever a token endpoint answers: a token that results can be sent in a header, is one of
// the answer, and errors do not have it.
func FuzzTokenResponse(f *testing.F) {
	for _, seed := range []struct{ media, body, path string }{
		{"application/json", `{"access_token":"a","token_type":"Bearer","expires_in":3600,"scope":"a b","refresh_token":"r"}`, ""},
		{"application/json", `{"ok":true,"authed_user":{"access_token":"xoxp","expires_in":"43200","scope":["a","b"]}}`, "authed_user.access_token"},
		{"application/x-www-form-urlencoded", `access_token=gho_1&scope=a%2Cb&token_type=bearer`, ""},
		{"text/plain", `{"error":"invalid_grant"}`, "a.0.b"},
		{"application/json", `{"access_token":7,"expires_in":-1e400}`, "access_token"},
		{"", `[]`, `a\`},
	} {
		f.Add(seed.media, seed.body, seed.path, false)
	}
	f.Fuzz(func(t *testing.T, media, body, path string, refreshes bool) {
		var m *mapping
		if path != "" {
			m = newMapping(&externalauth.TokenResponseMapping{AccessTokenPath: path, ScopePath: path})
		}
		send := func(*http.Request) (*oauth.Response, error) {
			return &oauth.Response{Status: 200, Header: http.Header{"Content-Type": {media}}, Body: []byte(body)}, nil
		}
		a := &answer{}
		client := oauth.Client{ID: "c", Secret: "client-secret-of-the-fuzz", Method: oauth.MethodPost}
		token, err := client.Token(t.Context(), a.sender(send, m, refreshes), "https://idp.example/token", url.Values{"grant_type": {"x"}})
		if err != nil {
			if strings.Contains(err.Error(), client.Secret) {
				t.Errorf("the secret is in %q", err)
			}
			return
		}
		if !oauth.ValidToken(token.Access) || token.Lifetime < 0 {
			t.Errorf("%+v", token)
		}
		if got := splitScopes(token.Scope, nil); len(got) > maxScopes {
			t.Errorf("%d scopes", len(got))
		}
		id, err := newIdentity(first(a.members, []string{path}, identifier), first(a.members, []string{path}, text), verifiedEmail(a.members, path))
		if err == nil && (id.Subject == "" || len(id.Subject) > maxSubject || strings.ContainsFunc(id.Subject+id.Name+id.Email, unicode.IsControl)) {
			t.Errorf("%+v", id)
		}
	})
}

// A path leads to a value of the document or to none; without escapes it leads where its
// names do.
func FuzzPath(f *testing.F) {
	for _, seed := range [][2]string{
		{"a.b", `{"a":{"b":"c"}}`}, {"a.0", `{"a":["b"]}`}, {`a\.b`, `{"a.b":1}`}, {"a.@upstreamjwt.sub", `{"a":"e30.e30.e30"}`},
		{"..", `{"":{"":{"":1}}}`}, {"a.99999999999999999999", `{"a":[]}`}, {`\`, `{"\\":1}`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, text, document string) {
		members, err := decode([]byte(document))
		if err != nil {
			return
		}
		p := parsePath(text)
		value := p.in(members)
		if plain := !strings.ContainsAny(text, `\|.`); plain {
			if id := identifier(members[text]); id != "" && identifier(value) != id {
				t.Errorf("%q leads to %v", text, value)
			}
		}
		if len(p) == 0 {
			t.Error("a path has no names")
		}
	})
}
