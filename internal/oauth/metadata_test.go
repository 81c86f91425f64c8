package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLocations(t *testing.T) {
	for issuer, want := range map[string][]string{
		"https://as.example":  {"https://as.example/.well-known/oauth-authorization-server", "https://as.example/.well-known/openid-configuration"},
		"https://as.example/": {"https://as.example/.well-known/oauth-authorization-server", "https://as.example/.well-known/openid-configuration"},
		"https://as.example:8/a/b/": {"https://as.example:8/.well-known/oauth-authorization-server/a/b", "https://as.example:8/.well-known/openid-configuration/a/b",
			"https://as.example:8/a/b/.well-known/openid-configuration"},
		"https://[2001:db8::1]:8443/a%20": {"https://[2001:db8::1]:8443/.well-known/oauth-authorization-server/a%20", "https://[2001:db8::1]:8443/.well-known/openid-configuration/a%20",
			"https://[2001:db8::1]:8443/a%20/.well-known/openid-configuration"},
	} {
		u, err := url.Parse(issuer)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, Locations(u)); diff != "" {
			t.Errorf("%s: %s", issuer, diff)
		}
	}
}

func TestDiscover(t *testing.T) {
	const issuer = "https://as.example"
	const good = `{"issuer":"https://as.example","token_endpoint":"https://as.example/token"}`
	response := func(status int, body string) *Response { return &Response{Status: status, Body: []byte(body)} }
	for name, c := range map[string]struct {
		responses []any  // a *Response or an error for each location
		want      string // in the error; "" is success
	}{
		"first location":              {[]any{response(200, good)}, ""},
		"second location":             {[]any{response(404, ""), response(200, good)}, ""},
		"a web page first":            {[]any{response(200, "<html>"), response(200, good)}, ""},
		"an array first":              {[]any{response(200, "["+good+"]"), response(200, good)}, ""},
		"a redirect first":            {[]any{response(302, ""), response(200, good)}, ""},
		"nowhere":                     {[]any{response(404, ""), response(401, "")}, "https://as.example is not an authorization server: it has no metadata at first (it answers 404 Not Found), second (it answers 401 Unauthorized)"},
		"a failing server":            {[]any{response(503, ""), response(200, good)}, "first: it answers 503"},
		"a failing request":           {[]any{errors.New("first: no route"), response(200, good)}, "first: no route"},
		"another issuer":              {[]any{response(200, `{"issuer":"https://as.example/"}`), response(200, good)}, `another issuer: expected "https://as.example", got "https://as.example/"`},
		"an issuer with escapes":      {[]any{response(200, "{\"issuer\":\"\\u001b[31mred\\u202e\"}")}, `got "red"`},
		"the issuer in another case":  {[]any{response(200, `{"Issuer":"https://as.example"}`)}, "another issuer"},
		"a second endpoint":           {[]any{response(200, good[:len(good)-1]+`,"Token_Endpoint":"https://evil.example"}`)}, ""},
		"no issuer":                   {[]any{response(200, `{}`)}, "another issuer"},
		"two issuers":                 {[]any{response(200, `{"issuer":"x",`+good[1:])}, "two members"},
		"a member of the wrong type":  {[]any{response(200, good[:len(good)-1]+`,"scopes_supported":"a"}`)}, `"scopes_supported" is not of the type`},
		"nested without end":          {[]any{response(200, strings.Repeat(`{"a":`, 100))}, "nested too deeply"},
		"the issuer is of wrong type": {[]any{response(200, `{"issuer":7}`)}, `"issuer" is not of the type`},
	} {
		t.Run(name, func(t *testing.T) {
			get := func(_ context.Context, location string) (*Response, error) {
				next := c.responses[0]
				c.responses = c.responses[1:]
				if err, failed := next.(error); failed {
					return nil, err
				}
				return next.(*Response), nil
			}
			var m Metadata
			_, err := Discover(t.Context(), get, issuer, []string{"first", "second"}[:max(1, len(c.responses))], &m)
			if c.want == "" && (err != nil || m.Token != issuer+"/token") {
				t.Errorf("got %+v, %v", m, err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func FuzzDecodeMetadata(f *testing.F) {
	const issuer = "https://as.example"
	f.Add([]byte(`{"issuer":"https://as.example","jwks_uri":"https://keys.example/jwks?x"}`))
	f.Add([]byte(`{"issuer":"https://as.example/"}`))
	f.Add([]byte(`{"ISSUER":"https://as.example"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var m Metadata
		err := DecodeMetadata(body, issuer, &m)
		if err == nil && m.Issuer != issuer {
			t.Fatalf("accepted the metadata of %q", m.Issuer)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\x1b\r\n\x00\u202e\u009b") {
			t.Errorf("%q", err)
		}
		var exact map[string]any
		if err == nil && (json.Unmarshal(body, &exact) != nil || exact["issuer"] != issuer) {
			t.Errorf("accepted %q", body)
		}
	})
}
