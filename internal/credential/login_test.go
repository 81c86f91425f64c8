package credential

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/oauthclient"
)

// fakeTokens are the tokens of a login: a new one at each renewal.
type fakeTokens struct {
	current  string
	err      error
	renewals int
	required []string
}

func (f *fakeTokens) Token(context.Context) (string, error) { return f.current, f.err }

func (f *fakeTokens) Renew(_ context.Context, rejected string) (string, error) {
	if f.err != nil {
		return "", f.err
	}
	if rejected == f.current {
		f.renewals++
		f.current += "+"
	}
	return f.current, nil
}

func (f *fakeTokens) Require(_ context.Context, scopes []string) ([]string, error) {
	f.required = scopes
	return scopes, nil
}

func newTestLogin(tokens Tokens) (*Login, *atomic.Int64) {
	var lost atomic.Int64
	return NewLogin(tokens, "thv login x", func() { lost.Add(1) }, slog.New(slog.DiscardHandler)), &lost
}

// A rejected token is renewed once, and the request sent once more with its body.
func TestLogin_RenewsOnce(t *testing.T) {
	t.Parallel()
	tokens := &fakeTokens{current: "a"}
	l, lost := newTestLogin(tokens)
	s := newServer(t, func(h http.Header) int {
		if h.Get("Authorization") == "Bearer a" {
			return 401
		}
		return 200
	})
	resp, err := post(t.Context(), Transport(http.DefaultTransport, l), s.URL)
	if err != nil || resp.StatusCode != 200 || tokens.renewals != 1 || s.requests.Load() != 2 || resp.ContentLength != 4 {
		t.Errorf("%v, %v, %d renewals, %d requests", resp, err, tokens.renewals, s.requests.Load())
	}
	if l.Needed() != "" || lost.Load() != 0 {
		t.Error("a login is needed")
	}
}

// A server that rejects every token causes one renewal in rejectedTime, not one for each
// request.
func TestLogin_RejectedForever(t *testing.T) {
	t.Parallel()
	tokens := &fakeTokens{current: "a"}
	l, _ := newTestLogin(tokens)
	now := time.Now()
	l.now = func() time.Time { return now }
	s := newServer(t, func(http.Header) int { return 401 })
	rt := Transport(http.DefaultTransport, l)
	for range 5 {
		if resp, err := post(t.Context(), rt, s.URL); err != nil || resp.StatusCode != 401 {
			t.Errorf("%v, %v", resp, err)
		}
	}
	if tokens.renewals != 1 || s.requests.Load() != 6 {
		t.Errorf("%d renewals, %d requests", tokens.renewals, s.requests.Load())
	}
	now = now.Add(rejectedTime)
	_, _ = post(t.Context(), rt, s.URL)
	if tokens.renewals != 2 {
		t.Errorf("%d renewals", tokens.renewals)
	}
}

// Without its grant the client receives an error with the command that mends it, and
// nothing is sent; afterwards requests are sent again.
func TestLogin_Needed(t *testing.T) {
	t.Parallel()
	tokens := &fakeTokens{err: oauthclient.ErrSignIn}
	l, lost := newTestLogin(tokens)
	s := newServer(t, ok)
	rt := Transport(http.DefaultTransport, l)
	for range 2 {
		var rpc *mcp.Error
		if _, err := post(t.Context(), rt, s.URL); !errors.As(err, &rpc) || !strings.Contains(rpc.Message, "run `thv login x`") {
			t.Errorf("%v", err)
		}
	}
	if lost.Load() != 1 || !strings.Contains(l.Needed(), "thv login x") || s.requests.Load() != 0 {
		t.Errorf("lost %d times, %q, %d requests", lost.Load(), l.Needed(), s.requests.Load())
	}
	tokens.current, tokens.err = "a", nil
	if _, err := post(t.Context(), rt, s.URL); err != nil || l.Needed() != "" {
		t.Errorf("%v, %q", err, l.Needed())
	}
}

// An authorization server that is away is no lost grant.
func TestLogin_Unavailable(t *testing.T) {
	t.Parallel()
	l, lost := newTestLogin(&fakeTokens{err: errors.New("it answers 503")})
	var rpc *mcp.Error
	if err := l.Apply(t.Context(), http.Header{}); !errors.As(err, &rpc) || rpc.Status != 503 || lost.Load() != 0 || l.Needed() != "" {
		t.Errorf("%v", err)
	}
}

// insufficient_scope notes the scopes, and the client receives the command for them. A
// refusal without scopes is passed on.
func TestLogin_InsufficientScope(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ challenge, want string }{
		{`Bearer error="insufficient_scope", scope="write admin"`, "scope admin write"},
		{`Bearer error="insufficient_scope"`, ""},
		{`Bearer error="invalid_token", scope="write"`, ""},
		{`Bearer error="insufficient_scope", scope="a\\b"`, ""},
		{"", ""},
	} {
		tokens := &fakeTokens{current: "a"}
		l, _ := newTestLogin(tokens)
		resp := &http.Response{StatusCode: 403, Header: http.Header{"Www-Authenticate": {c.challenge}}}
		again, err := l.Renew(t.Context(), http.Header{}, resp)
		if again || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, %v", c.challenge, again, err)
		}
	}
}
