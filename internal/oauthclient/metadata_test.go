package oauthclient

import (
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/oauth"
)

func document(body string) *answer {
	return &answer{Response: &oauth.Response{Status: 200, Body: []byte(body)}}
}

func FuzzMetadata(f *testing.F) {
	f.Add(`{"resource": "https://r.example/x", "authorization_servers": ["https://as.example"], "scopes_supported": ["a"]}`)
	f.Add(`{"issuer": "https://as.example", "authorization_endpoint": "https://as.example/a", "token_endpoint": "https://as.example/t", "code_challenge_methods_supported": ["S256"]}`)
	f.Add(`{"issuer": null, "resource": 7, "error": {}}`)
	f.Add(`[]`)
	asked := mustURL("https://r.example/x/y")
	f.Fuzz(func(t *testing.T, body string) {
		if p, err := parseResource(document(body), asked, reachPublic); err == nil && !covers(mustURL(p.resource), asked) {
			t.Errorf("%s is about %s", body, p.resource)
		} else if err != nil {
			quiet(t, err)
		}
		s := &server{reach: reachPublic}
		if err := oauth.DecodeMetadata([]byte(body), "https://as.example", &s.Metadata); err != nil {
			quiet(t, err)
		} else if err := s.check(); err != nil {
			quiet(t, err)
		} else {
			for _, endpoint := range []string{s.Authorization, s.Token} {
				if u := mustURL(endpoint); u.Scheme != "https" || isLoopback(u.Hostname()) {
					t.Errorf("%s leads to %s", body, endpoint)
				}
			}
		}
		quiet(t, document(body).Refusal())
	})
}

// quiet fails when an error can steer a terminal or goes on and on.
func quiet(t *testing.T, err error) {
	t.Helper()
	if text := err.Error(); strings.ContainsAny(text, "\x1b\r\n\x00\u202e\u009b") || len(text) > 20<<10 {
		t.Errorf("%q", text)
	}
}

func FuzzPasted(f *testing.F) {
	for _, s := range []string{"http://127.0.0.1:1/callback?code=a&state=s", "?code=a&state=s", "code", "state=%zz", "://", "/callback?error=e&state=s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		a := &attempt{&oauth.Authorization{Issuer: "https://as.example", State: "the-state-of-this-attempt", Redirect: "http://127.0.0.1:1/callback", SendsIssuer: true}}
		o, err := a.judgePasted(line)
		if err != nil {
			quiet(t, err)
		} else if !strings.Contains(line, "state") {
			t.Errorf("%q was taken for %+v", line, o.err)
		}
	})
}
