package credential

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// fakeUpstream are the tokens of one provider: a new one at each renewal.
type fakeUpstream struct {
	mu       sync.Mutex
	access   string
	id       string
	err      error
	renewals int
	provider string
}

func (f *fakeUpstream) Token(_ context.Context, provider string) (access, id string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.provider = provider
	return f.access, f.id, f.err
}

func (f *fakeUpstream) Renew(_ context.Context, provider, rejected string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.provider = provider
	if f.err == nil && rejected == f.access {
		f.renewals++
		f.access += "+"
	}
	return f.access, f.err
}

// The server receives the token of the provider, never the caller's.
func TestInject(t *testing.T) {
	t.Parallel()
	upstream := &fakeUpstream{access: "theirs"}
	s := newServer(t, ok)
	rt := Transport(http.DefaultTransport, NewInject("github", upstream, slog.New(slog.DiscardHandler)))
	if _, err := post(callerWith(t.Context(), "mine"), rt, s.URL); err != nil || s.headers[0].Get("Authorization") != "Bearer theirs" || upstream.provider != "github" {
		t.Errorf("%v, %v, %q", err, s.headers, upstream.provider)
	}
	// The gateway's own requests have no credential; one without a caller is not sent.
	if _, err := post(Anonymous(t.Context()), rt, s.URL); err != nil || s.headers[1].Get("Authorization") != "" {
		t.Errorf("%v, %v", err, s.headers)
	}
	var rpc *mcp.Error
	if _, err := post(t.Context(), rt, s.URL); !errors.As(err, &rpc) || rpc.Status != 401 || s.requests.Load() != 2 {
		t.Errorf("%v, %d requests", err, s.requests.Load())
	}
}

// What the client receives when there is no token. No error of the provider is passed on.
func TestInject_Fails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		upstream *fakeUpstream
		want     int
	}{
		"a login is needed":    {&fakeUpstream{err: fmt.Errorf("x: %w", ErrLogin)}, 401},
		"an outage":            {&fakeUpstream{err: errors.New("secret text")}, 503},
		"an error for them":    {&fakeUpstream{err: &mcp.Error{Status: 403, Message: "no"}}, 403},
		"no token":             {&fakeUpstream{}, 401},
		"a token of two lines": {&fakeUpstream{access: "a\r\nb"}, 503},
	} {
		s := newServer(t, ok)
		_, err := post(callerWith(t.Context(), "mine"), Transport(http.DefaultTransport, NewInject("p", c.upstream, slog.New(slog.DiscardHandler))), s.URL)
		var rpc *mcp.Error
		if !errors.As(err, &rpc) || rpc.Status != c.want || strings.Contains(rpc.Message, "secret") || s.requests.Load() != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A token that the server rejects with 401 is renewed once, and the request sent once more. A
// server that rejects every token does not cause a renewal for each request.
func TestInject_Renews(t *testing.T) {
	t.Parallel()
	upstream := &fakeUpstream{access: "a"}
	inject := NewInject("p", upstream, slog.New(slog.DiscardHandler))
	now := time.Now()
	inject.now = func() time.Time { return now }
	s := newServer(t, func(h http.Header) int {
		if h.Get("Authorization") == "Bearer a" {
			return 401
		}
		return 200
	})
	resp, err := post(callerWith(t.Context(), "mine"), Transport(http.DefaultTransport, inject), s.URL)
	if err != nil || resp.StatusCode != 200 || upstream.renewals != 1 || s.requests.Load() != 2 {
		t.Errorf("%v, %v, %d renewals, %d requests", resp, err, upstream.renewals, s.requests.Load())
	}
	for _, c := range []struct {
		after            time.Duration
		status, renewals int
	}{{0, 401, 1}, {time.Hour, 403, 1}, {0, 401, 2}, {0, 401, 2}} {
		now = now.Add(c.after)
		never := newServer(t, func(http.Header) int { return c.status })
		if resp, err := post(callerWith(t.Context(), "mine"), Transport(http.DefaultTransport, inject), never.URL); err != nil || resp.StatusCode != c.status || upstream.renewals != c.renewals {
			t.Errorf("%+v: %v, %v, %d renewals", c, resp, err, upstream.renewals)
		}
	}
	upstream.err = ErrLogin
	now = now.Add(time.Hour)
	var rpc *mcp.Error
	if _, err := inject.Renew(callerWith(t.Context(), "mine"), http.Header{"Authorization": {"Bearer " + upstream.access}}, &http.Response{StatusCode: 401}); !errors.As(err, &rpc) || rpc.Status != 401 {
		t.Errorf("%v", err)
	}
}

// The renewals that are remembered are bounded.
func TestInject_Bounded(t *testing.T) {
	t.Parallel()
	inject := NewInject("p", &fakeUpstream{}, slog.New(slog.DiscardHandler))
	for i := range maxRenewed + 10 {
		inject.note(fmt.Sprint(i))
	}
	if len(inject.renewed) != maxRenewed {
		t.Error(len(inject.renewed))
	}
}

// The token of a provider is the subject: its ID token where that type is configured.
func TestExchange_Provider(t *testing.T) {
	t.Parallel()
	for subjectType, want := range map[string]string{"": "access", JWT: "access", IDToken: "id"} {
		sts := newEndpoint(t, issue)
		e := newTestExchange(t, ExchangeConfig{URL: sts.URL, SubjectType: subjectType, Provider: "okta", Upstream: &fakeUpstream{access: "access", id: "id"}})
		s := newServer(t, ok)
		if _, err := post(callerWith(t.Context(), ""), Transport(http.DefaultTransport, e), s.URL); err != nil || s.headers[0].Get("Authorization") != "Bearer for-"+want {
			t.Errorf("%q: %v, %v", subjectType, err, s.headers)
		}
	}
	cfg := ExchangeConfig{URL: "https://sts.example", Provider: "okta"}
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), `no upstream provider "okta"`) {
		t.Errorf("%v", err)
	}
}

// What is needed of a provider and missing is an error for the client; no exchange is sent.
func TestExchange_ProviderFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		upstream *fakeUpstream
		want     int
	}{
		"a login is needed": {&fakeUpstream{err: ErrLogin}, 401},
		"no ID token":       {&fakeUpstream{access: "access"}, 401},
		"an outage":         {&fakeUpstream{err: errors.New("x")}, 503},
	} {
		sts := newEndpoint(t, func(int64, url.Values) (int, string) { return 500, "" })
		e := newTestExchange(t, ExchangeConfig{URL: sts.URL, SubjectType: IDToken, Provider: "okta", Upstream: c.upstream})
		var rpc *mcp.Error
		if err := e.Apply(callerWith(t.Context(), "mine"), http.Header{}); !errors.As(err, &rpc) || rpc.Status != c.want || sts.requests.Load() != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// signBody signs a request by its body and its headers.
type signBody struct{ renewals int }

func (*signBody) Apply(context.Context, http.Header) error { return nil }

func (s *signBody) Sign(r *http.Request) error {
	signed := r.Header.Get("X-A") + fmt.Sprint(s.renewals)
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return err
		}
		text, _ := io.ReadAll(body)
		signed += string(text)
	}
	r.Header.Set("X-Signature", signed)
	return nil
}

func (s *signBody) Renew(context.Context, http.Header, *http.Response) (bool, error) {
	s.renewals++
	return true, nil
}

// A Signer sees the headers of all credentials and the body that is sent, also when the
// request is sent once more, and when its body can be read only once.
func TestTransport_Signer(t *testing.T) {
	t.Parallel()
	var received []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		received = append(received, r.Header.Get("X-Signature")+" "+string(body))
		if len(received) == 1 {
			w.WriteHeader(401)
		}
	}))
	defer s.Close()
	rt := Transport(http.DefaultTransport, &signBody{}, Headers{"X-A": {"a"}})
	once := func(text string) io.Reader { return io.MultiReader(strings.NewReader(text)) }
	for _, body := range []io.Reader{once("body"), once(""), nil} {
		req, err := http.NewRequestWithContext(exchange.WithCaller(t.Context(), nil), http.MethodPost, s.URL, body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := rt.RoundTrip(req)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%v, %v", resp, err)
		}
		resp.Body.Close()
	}
	want := []string{"a0body body", "a1body body", "a1 ", "a1 "}
	if fmt.Sprint(received) != fmt.Sprint(want) {
		t.Errorf("%q", received)
	}
	large := io.MultiReader(strings.NewReader(strings.Repeat("a", maxSigned)), strings.NewReader("a"))
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, large)
	if _, err := rt.RoundTrip(req); err == nil || len(received) != len(want) {
		t.Errorf("%v", err)
	}
}
