package registry

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// tokens gives the first token, and then the next for each refusal.
type tokens struct {
	all     []string
	refused []string
	err     error
}

func (s *tokens) Token(context.Context) (string, error) { return s.all[0], s.err }

func (s *tokens) Renew(_ context.Context, refused string) (string, error) {
	s.refused = append(s.refused, refused)
	if len(s.all) == 1 {
		return "", errors.New("do this and that")
	}
	return s.all[1], nil
}

// only answers who shows the token.
func only(t *testing.T, token string, asked *atomic.Int32) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("Authorization") != "Bearer "+token {
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"servers": [{"server": ` + named("io.one/a", "1.0.0") + `}]}`))
	}))
	t.Cleanup(server.Close)
	return server
}

func TestToken_Renewed(t *testing.T) {
	for name, c := range map[string]struct {
		source  TokenSource
		says    string // "" is an answer
		asked   int32
		refused string
	}{
		"no source":               {nil, "it requires a sign-in", 1, ""},
		"the right one":           {&tokens{all: []string{"good"}}, "", 1, ""},
		"one that was renewed":    {&tokens{all: []string{"old", "good"}}, "", 2, "old"},
		"two that are refused":    {&tokens{all: []string{"old", "older"}}, "it does not accept the token that was sent", 2, "old"},
		"none, and a remedy":      {&tokens{all: []string{""}}, "do this and that", 1, ""},
		"a source that fails":     {&tokens{all: []string{""}, err: errors.New("the file is empty")}, "the file is empty", 0, ""},
		"a source with no answer": {struct{ TokenSource }{&tokens{all: []string{"old"}}}, "it does not accept", 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			server := only(t, "good", &asked)
			catalog, err := Open(server.URL, server.Client(), c.source)
			if err != nil {
				t.Fatal(err)
			}
			all, err := catalog.List(t.Context())
			if c.says == "" && (err != nil || len(all.Entries) != 1) || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), server.URL)) {
				t.Errorf("%v, want %q", err, c.says)
			}
			if err != nil && (strings.Contains(err.Error(), "old") || errors.Is(err, ErrUnreachable) || errors.Is(err, ErrNotFound)) {
				t.Errorf("got %v", err)
			}
			if asked.Load() != c.asked {
				t.Errorf("asked %d times", asked.Load())
			}
			if s, ok := c.source.(*tokens); ok && strings.Join(s.refused, " ") != c.refused {
				t.Errorf("refused %q", s.refused)
			}
		})
	}
}

func TestToken_File(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer good" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Write([]byte(`{"servers": []}`))
	}))
	defer server.Close()
	for token, refused := range map[string]bool{"good": false, "bad": true} {
		catalog, err := Open(server.URL+"/x.json", server.Client(), struct{ TokenSource }{&tokens{all: []string{token}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := catalog.List(t.Context()); errors.Is(err, ErrUnauthorized) != refused {
			t.Errorf("%s: %v", token, err)
		}
	}
}

func TestToken_OtherOrigin(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusFound)
	}))
	defer server.Close()
	// A client that would follow redirects anywhere.
	catalog, err := Open(server.URL, &http.Client{}, &tokens{all: []string{"good"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := catalog.List(t.Context()); err == nil || elsewhere.Load() > 0 || !strings.Contains(err.Error(), "redirect to another host") {
		t.Errorf("%v, the other host was asked %d times", err, elsewhere.Load())
	}
}

// recorder answers every request with 401 and notes what it is shown.
type recorder struct{ seen []string }

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	r.seen = append(r.seen, req.Header.Get("Authorization"))
	return &http.Response{StatusCode: http.StatusUnauthorized, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
}

func TestToken_PlainHTTP(t *testing.T) {
	for location, sent := range map[string]bool{
		"http://registry.example": false, "http://10.0.0.1": false, "http://127.0.0.1.evil.example": false, "http://localhost.evil.example/x.json": false,
		"https://registry.example": true, "http://localhost:8080": true, "http://127.0.0.1": true, "http://[::1]:1/x.json": true,
	} {
		var rec recorder
		catalog, err := Open(location, &http.Client{Transport: &rec}, struct{ TokenSource }{&tokens{all: []string{"good"}}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = catalog.List(t.Context())
		if !errors.Is(err, ErrUnauthorized) || len(rec.seen) != 1 || (rec.seen[0] == "Bearer good") != sent {
			t.Errorf("%s: %v, sent %q", location, err, rec.seen)
		}
		if !sent && !strings.Contains(err.Error(), "plain HTTP") {
			t.Errorf("%s: the cause is not said: %v", location, err)
		}
	}
}

func TestToken_SignInTarget(t *testing.T) {
	for location, want := range map[string][2]string{
		"": {}, "/etc/servers.json": {},
		"https://r.example/registry/default/?x#y": {"https://r.example/registry/default", "https://r.example/registry/default/v0.1/servers?limit=1"},
		"https://r.example/a.json?ref=1#y":        {"https://r.example/a.json?ref=1", "https://r.example/a.json?ref=1"},
	} {
		target, page, err := Protected(location)
		if err != nil || [2]string{target, page} != want {
			t.Errorf("%s: %q, %q, %v", location, target, page, err)
		}
	}
	for _, location := range []string{"ftp://x/y", "https://", "https://a:b@c"} {
		if _, _, err := Protected(location); err == nil || strings.Contains(err.Error(), "a:b") {
			t.Errorf("%s: %v", location, err)
		}
	}
}

func TestRetry_Bound(t *testing.T) {
	if connectTimeout > 3*time.Second || answerTimeout > 5*time.Second {
		t.Errorf("a person waits %s and %s", connectTimeout, answerTimeout)
	}
}
