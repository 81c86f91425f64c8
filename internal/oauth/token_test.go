package oauth

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tokenEndpoint answers with a status and a JSON body, and records the last request.
func tokenEndpoint(t *testing.T, status int, body string) (endpoint string, header func() http.Header, form func() url.Values) {
	t.Helper()
	var last *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		last = r
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/token?tenant=1", func() http.Header { return last.Header }, func() url.Values { return last.PostForm }
}

// RFC 6749 sections 2.3.1 and 6, RFC 8707 section 2.2.
func TestToken_Request(t *testing.T) {
	grant := func() url.Values {
		return url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"r"}, "resource": {"https://r.example/x"}}
	}
	with := func(pairs ...string) url.Values {
		v := grant()
		for i := 0; i < len(pairs); i += 2 {
			v.Set(pairs[i], pairs[i+1])
		}
		return v
	}
	for name, c := range map[string]struct {
		client Client
		form   url.Values
		basic  string // user:password of the header, form-encoded
	}{
		"public":        {Client{ID: "a:b", Method: MethodNone}, with("client_id", "a:b"), ""},
		"in the header": {Client{"a:b", "s+/", MethodBasic}, with(), "a%3Ab:s%2B%2F"},
		"in the form":   {Client{"a:b", "s+/", MethodPost}, with("client_id", "a:b", "client_secret", "s+/"), ""},
	} {
		endpoint, header, form := tokenEndpoint(t, 200, `{"access_token":"t","token_type":"bearer","expires_in":60,"scope":"a b"}`)
		got, err := c.client.Token(t.Context(), NewSender(http.DefaultClient), endpoint, grant())
		if err != nil || got.Access != "t" || got.Scope != "a b" || got.Lifetime.Seconds() != 60 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if diff := cmp.Diff(c.form, form()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		user, password, _ := (&http.Request{Header: header()}).BasicAuth()
		if basic := strings.TrimPrefix(user+":"+password, ":"); basic != c.basic {
			t.Errorf("%s: Authorization of %q", name, basic)
		}
	}
}

func TestToken_Errors(t *testing.T) {
	secrets := []string{"the-secret+/", "the-refresh-token", "the-access-token"}
	for name, c := range map[string]struct {
		status int
		body   string
		want   string
		code   string // of the Refusal; "-" is none
	}{
		"refused":           {400, `{"error":"invalid_grant","error_description":"the-refresh-token of the-secret+/"}`, "invalid_grant ((hidden) of (hidden))", "invalid_grant"},
		"refused with 200":  {200, `{"error":"invalid_grant"}`, "invalid_grant", "invalid_grant"},
		"escapes":           {400, `{"error":"a\u001b[31mb\u202e"}`, "it refuses: ab", "ab"},
		"no error object":   {502, `<html>the-access-token`, "502 Bad Gateway", ""},
		"a redirect":        {307, ``, "307", ""},
		"a page":            {200, `<html>the-access-token`, "RFC 6749 section 5.1", "-"},
		"another type":      {200, `{"access_token":"the-access-token","token_type":"DPoP the-access-token"}`, `"DPoP (hidden)"`, "-"},
		"too large":         {200, `{"access_token":"` + strings.Repeat("a", maxBody) + `"}`, "too large", "-"},
		"expired":           {200, `{"access_token":"the-access-token","token_type":"Bearer","expires_in":-1}`, "expires_in", "-"},
		"a broken header":   {200, `{"access_token":"the-access-token\r\n","token_type":"Bearer"}`, "cannot be sent", "-"},
		"a wrong lifetime":  {200, `{"access_token":"the-access-token","token_type":"Bearer","expires_in":[]}`, "expires_in", "-"},
		"an invalid number": {200, `{"access_token":"the-access-token","token_type":"Bearer","expires_in":"soon"}`, "expires_in", "-"},
	} {
		endpoint, _, _ := tokenEndpoint(t, c.status, c.body)
		_, err := Client{"a", "the-secret+/", MethodPost}.Token(t.Context(), NewSender(http.DefaultClient), endpoint,
			url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"the-refresh-token"}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
			continue
		}
		for _, secret := range secrets {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the error holds %q: %v", name, secret, err)
			}
		}
		var refused *Refusal
		if errors.As(err, &refused) != (c.code != "-") || refused != nil && (refused.Code != c.code || refused.Status != c.status) {
			t.Errorf("%s: %#v", name, refused)
		}
	}
}

// RFC 6749 section 10.12, RFC 9207 section 2.4.
func TestAuthorization_Code(t *testing.T) {
	a := NewAuthorization(&Metadata{Issuer: "https://as.example", SendsIssuer: true}, "http://127.0.0.1:1/callback")
	good := func(change func(url.Values)) url.Values {
		v := url.Values{"code": {"the-code"}, "state": {a.State}, "iss": {"https://as.example"}}
		change(v)
		return v
	}
	for name, c := range map[string]struct {
		response url.Values
		want     error
	}{
		"good":                {good(func(url.Values) {}), nil},
		"another state":       {good(func(v url.Values) { v.Set("state", "x") }), ErrState},
		"no state":            {good(func(v url.Values) { v.Del("state") }), ErrState},
		"a repeated code":     {good(func(v url.Values) { v.Add("code", "d") }), ErrRepeated},
		"another issuer":      {good(func(v url.Values) { v.Set("iss", "https://as.example/") }), ErrIssuer},
		"no issuer":           {good(func(v url.Values) { v.Del("iss") }), ErrIssuer},
		"no code":             {good(func(v url.Values) { v.Del("code") }), ErrNoCode},
		"an error beside iss": {good(func(v url.Values) { v.Set("error", "x"); v.Set("iss", "https://evil.example") }), ErrIssuer},
	} {
		code, err := a.Code(c.response)
		if !errors.Is(err, c.want) || (code == "the-code") != (c.want == nil) {
			t.Errorf("%s: %q, %v", name, code, err)
		}
	}
	_, err := a.Code(good(func(v url.Values) {
		v.Set("error", "access_denied")
		v.Set("error_description", a.Verifier+" the-code")
	}))
	var refused *Refusal
	if !errors.As(err, &refused) || refused.Code != "access_denied" || refused.Description != "(hidden) (hidden)" {
		t.Errorf("%#v", err)
	}
}

// A token response of a hostile server is a token that can be sent, or an error without
// secrets (RFC 6749 section 5).
func FuzzToken(f *testing.F) {
	for _, body := range []string{
		`{"access_token":"t","token_type":"Bearer","expires_in":3600,"refresh_token":"r","scope":"a b","issued_token_type":"urn:x"}`,
		`{"access_token":"t","token_type":"bearer","expires_in":"60"}`, `{"access_token":"t\nx","token_type":"Bearer"}`, `{"access_token":"t","token_type":"mac"}`,
		`{"error":"invalid_grant","error_description":"the-secret is wrong"}`, `{"access_token":1e999}`, `<html>`, ``, `[]`, `{"access_token":"t","token_type":"Bearer","expires_in":-1}`,
		`{"access_token":"t","token_type":"Bearer","expires_in":1e300}`, `access_token=t&token_type=Bearer`,
	} {
		f.Add(200, body)
		f.Add(400, body)
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		if status < 200 || status > 599 {
			status = 200
		}
		send := func(*http.Request) (*Response, error) {
			return &Response{Status: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body)}, nil
		}
		client := Client{ID: "c", Secret: "the-secret", Method: MethodPost}
		got, err := client.Token(t.Context(), send, "https://as.example/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"the-old-token"}})
		if err != nil {
			for _, secret := range []string{"the-secret", "the-old-token"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the error has a secret: %v", err)
				}
			}
			if strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' }) {
				t.Errorf("the error has a control character: %q", err)
			}
			return
		}
		if status >= 300 || !ValidToken(got.Access) || got.Lifetime < 0 || got.Lifetime > maxLifetime || len(got.Refresh) > maxToken {
			t.Errorf("status %d: %+v", status, got)
		}
	})
}

func TestValidToken(t *testing.T) {
	for _, token := range []string{"abc-._~+/=", "00D!AQ.x", "1|x", strings.Repeat("a", maxToken)} {
		if !ValidToken(token) {
			t.Errorf("%.20q is refused", token)
		}
	}
	for _, token := range []string{"", "a b", "a\r\nX: b", "a\x00", "a\x7f", "\u00e4", "a,b", "a;b", `a"b`, `a\b`, strings.Repeat("a", maxToken+1)} {
		if ValidToken(token) {
			t.Errorf("%.20q is accepted", token)
		}
	}
}
