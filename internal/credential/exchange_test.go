package credential

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// endpoint is a token endpoint that answers with reply, and counts its requests.
type endpoint struct {
	*httptest.Server
	requests atomic.Int64
	mu       sync.Mutex
	last     url.Values
	user     string
	secret   string
}

func newEndpoint(t testing.TB, reply func(n int64, form url.Values) (status int, body string)) *endpoint {
	t.Helper()
	e := &endpoint{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		e.mu.Lock()
		e.last = r.PostForm
		e.user, e.secret, _ = r.BasicAuth()
		e.mu.Unlock()
		status, body := reply(e.requests.Add(1), r.PostForm)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(e.Close)
	return e
}

// issue answers with a token made of the subject token.
func issue(_ int64, form url.Values) (int, string) {
	return 200, fmt.Sprintf(`{"access_token":"for-%s","issued_token_type":"urn:ietf:params:oauth:token-type:access_token","token_type":"Bearer","expires_in":300}`, form.Get("subject_token"))
}

func newTestExchange(t testing.TB, cfg ExchangeConfig) *Exchange {
	t.Helper()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	e, err := NewExchange(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func callerWith(ctx context.Context, token string) context.Context {
	return exchange.WithCaller(ctx, &exchange.Caller{Principal: "p", Token: exchange.NewToken(token)})
}

// server is what a backend receives.
type server struct {
	*httptest.Server
	requests atomic.Int64
	mu       sync.Mutex
	headers  []http.Header
}

func newServer(t testing.TB, status func(h http.Header) int) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		s.mu.Lock()
		s.headers = append(s.headers, r.Header.Clone())
		s.mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(status(r.Header))
		_, _ = w.Write(body)
	}))
	t.Cleanup(s.Close)
	return s
}

func ok(http.Header) int { return http.StatusOK }

func post(ctx context.Context, rt http.RoundTripper, to string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader("body"))
	if err != nil {
		return nil, err
	}
	resp, err := rt.RoundTrip(req)
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	return resp, err
}

// The request of RFC 8693 section 2.1, and the header that the server receives.
func TestExchange_Request(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		cfg    ExchangeConfig
		header string
		form   map[string]string
		user   string
	}{
		{
			"all options", ExchangeConfig{Audience: "aud", Scopes: []string{"a", "b"}, ClientID: "id", ClientSecret: func() (string, error) { return "s3", nil }, Header: "X-Token", SubjectType: IDToken},
			"X-Token", map[string]string{"audience": "aud", "scope": "a b", "subject_token_type": "urn:ietf:params:oauth:token-type:id_token"}, "id",
		},
		{
			"no options", ExchangeConfig{}, "Authorization",
			map[string]string{"audience": "", "scope": "", "client_id": "", "subject_token_type": "urn:ietf:params:oauth:token-type:access_token"}, "",
		},
		{"a public client", ExchangeConfig{ClientID: "id"}, "Authorization", map[string]string{"client_id": "id"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sts := newEndpoint(t, issue)
			c.cfg.URL = sts.URL
			s := newServer(t, ok)
			if _, err := post(callerWith(t.Context(), "mine"), Transport(http.DefaultTransport, newTestExchange(t, c.cfg)), s.URL); err != nil {
				t.Fatal(err)
			}
			if got := s.headers[0].Get(c.header); got != "Bearer for-mine" {
				t.Errorf("the server received %q", got)
			}
			if c.header != "Authorization" && s.headers[0].Get("Authorization") != "" {
				t.Errorf("the server received %q too", s.headers[0].Get("Authorization"))
			}
			c.form["grant_type"] = "urn:ietf:params:oauth:grant-type:token-exchange"
			c.form["subject_token"] = "mine"
			c.form["requested_token_type"] = "urn:ietf:params:oauth:token-type:access_token"
			for name, want := range c.form {
				if got := sts.last.Get(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			if sts.user != c.user || c.user != "" && sts.secret != "s3" {
				t.Errorf("the client is %q, %q", sts.user, sts.secret)
			}
		})
	}
}

// 1,000 requests of one caller need one exchange, and another caller's one more.
func TestExchange_OncePerSubject(t *testing.T) {
	t.Parallel()
	sts := newEndpoint(t, issue)
	e := newTestExchange(t, ExchangeConfig{URL: sts.URL})
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() {
			h := http.Header{}
			if err := e.Apply(callerWith(t.Context(), "mine"), h); err != nil || h.Get("Authorization") != "Bearer for-mine" {
				t.Errorf("%v, %v", h, err)
			}
		})
	}
	all.Wait()
	if n := sts.requests.Load(); n != 1 {
		t.Errorf("%d exchanges", n)
	}
	h := http.Header{}
	if err := e.Apply(callerWith(t.Context(), "other"), h); err != nil || h.Get("Authorization") != "Bearer for-other" {
		t.Errorf("%v, %v", h, err)
	}
	if n := sts.requests.Load(); n != 2 {
		t.Errorf("%d exchanges", n)
	}
}

// A token is used until shortly before it expires, one of unknown lifetime for a minute.
func TestExchange_Expiry(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		body string
		used time.Duration
	}{
		{`{"access_token":"x","token_type":"Bearer","expires_in":300}`, 270 * time.Second},
		{`{"access_token":"x","token_type":"Bearer","expires_in":10}`, 8 * time.Second},
		{`{"access_token":"x","token_type":"Bearer"}`, 48 * time.Second},
	} {
		sts := newEndpoint(t, func(int64, url.Values) (int, string) { return 200, c.body })
		e := newTestExchange(t, ExchangeConfig{URL: sts.URL})
		now := time.Now()
		e.now = func() time.Time { return now }
		apply := func() {
			if err := e.Apply(callerWith(t.Context(), "mine"), http.Header{}); err != nil {
				t.Error(err)
			}
		}
		apply()
		now = now.Add(c.used - time.Second)
		apply()
		if n := sts.requests.Load(); n != 1 {
			t.Errorf("%s: %d exchanges before %s", c.body, n, c.used)
		}
		now = now.Add(time.Second)
		apply()
		if n := sts.requests.Load(); n != 2 {
			t.Errorf("%s: %d exchanges after %s", c.body, n, c.used)
		}
	}
}

// A failed exchange fails the request, with the status that fits; nothing is sent to the
// server, and no error contains a token.
func TestExchange_FailsClosed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		status int
		body   string
		want   int
	}{
		{"the token is refused", 400, `{"error":"invalid_grant","error_description":"mine is old"}`, 401},
		{"the token is malformed", 400, `{"error":"invalid_request"}`, 401},
		{"the client is refused", 401, `{"error":"invalid_client"}`, 503},
		{"the audience is refused", 400, `{"error":"invalid_target"}`, 503},
		{"the endpoint fails", 500, `{"error":"invalid_grant"}`, 503},
		{"an HTML page", 502, `<html>mine</html>`, 503},
		{"an HTML page with status 200", 200, `<html>mine</html>`, 503},
		{"another type of token", 200, `{"access_token":"x","token_type":"N_A","issued_token_type":"urn:ietf:params:oauth:token-type:saml2"}`, 503},
		{"a refresh token", 200, `{"access_token":"x","token_type":"Bearer","issued_token_type":"urn:ietf:params:oauth:token-type:refresh_token"}`, 503},
		{"the caller's own token", 200, `{"access_token":"mine","token_type":"Bearer"}`, 503},
		{"a token that is no header", 200, `{"access_token":"a\r\nb","token_type":"Bearer"}`, 503},
		{"50 MB", 200, `{"access_token":"` + strings.Repeat("a", 50<<20) + `","token_type":"Bearer"}`, 503},
		{"a redirect", 307, ``, 503},
	} {
		t.Run(c.name, func(t *testing.T) {
			sts := newEndpoint(t, func(int64, url.Values) (int, string) { return c.status, c.body })
			s := newServer(t, ok)
			_, err := post(callerWith(t.Context(), "mine"), Transport(http.DefaultTransport, newTestExchange(t, ExchangeConfig{URL: sts.URL})), s.URL)
			var rpc *mcp.Error
			if !errors.As(err, &rpc) || rpc.Status != c.want || strings.Contains(rpc.Message, "mine") {
				t.Errorf("%#v", err)
			}
			if s.requests.Load() != 0 {
				t.Error("the server received a request")
			}
		})
	}
}

// A refusal is the outcome of the requests that follow soon.
func TestExchange_RefusalIsCached(t *testing.T) {
	t.Parallel()
	sts := newEndpoint(t, func(int64, url.Values) (int, string) { return 400, `{"error":"invalid_grant"}` })
	e := newTestExchange(t, ExchangeConfig{URL: sts.URL})
	now := time.Now()
	e.now = func() time.Time { return now }
	for range 3 {
		if e.Apply(callerWith(t.Context(), "mine"), http.Header{}) == nil {
			t.Error("no error")
		}
	}
	now = now.Add(refusedTime)
	_ = e.Apply(callerWith(t.Context(), "mine"), http.Header{})
	if n := sts.requests.Load(); n != 2 {
		t.Errorf("%d exchanges", n)
	}
}

// Without a caller there is no token: only the gateway's own requests are sent, and without
// one.
func TestExchange_WithoutCaller(t *testing.T) {
	t.Parallel()
	sts := newEndpoint(t, issue)
	s := newServer(t, ok)
	rt := Transport(http.DefaultTransport, newTestExchange(t, ExchangeConfig{URL: sts.URL}))
	var rpc *mcp.Error
	for name, ctx := range map[string]context.Context{
		"no caller":          t.Context(),
		"a caller, no token": exchange.WithCaller(Anonymous(t.Context()), &exchange.Caller{Principal: "p"}),
	} {
		if _, err := post(ctx, rt, s.URL); !errors.As(err, &rpc) || rpc.Status != 401 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s.requests.Load() != 0 {
		t.Fatal("a request was sent")
	}
	if _, err := post(Anonymous(t.Context()), rt, s.URL); err != nil || s.headers[0].Get("Authorization") != "" {
		t.Errorf("%v, %v", err, s.headers)
	}
}

// A token that the server rejects is exchanged once more, and the request sent once more,
// unless the token is new.
func TestExchange_Rejected(t *testing.T) {
	t.Parallel()
	sts := newEndpoint(t, func(n int64, _ url.Values) (int, string) {
		return 200, fmt.Sprintf(`{"access_token":"t%d","token_type":"Bearer","expires_in":300}`, n)
	})
	s := newServer(t, func(h http.Header) int {
		if h.Get("Authorization") == "Bearer t1" {
			return 401
		}
		return 200
	})
	e := newTestExchange(t, ExchangeConfig{URL: sts.URL})
	now := time.Now()
	e.now = func() time.Time { return now }
	rt := Transport(http.DefaultTransport, e)
	if resp, err := post(callerWith(t.Context(), "mine"), rt, s.URL); err != nil || resp.StatusCode != 401 || s.requests.Load() != 1 {
		t.Errorf("a new token: %v, %v, %d requests", resp, err, s.requests.Load())
	}
	now = now.Add(refusedTime)
	if resp, err := post(callerWith(t.Context(), "mine"), rt, s.URL); err != nil || resp.StatusCode != 200 || s.requests.Load() != 3 || sts.requests.Load() != 2 {
		t.Errorf("an older token: %v, %v, %d requests", resp, err, s.requests.Load())
	}
}

// A caller that leaves does not end the exchange that others wait for.
func TestExchange_CallerLeaves(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}, 1), make(chan struct{})
	sts := newEndpoint(t, func(n int64, form url.Values) (int, string) {
		asked <- struct{}{}
		<-answer
		return issue(n, form)
	})
	e := newTestExchange(t, ExchangeConfig{URL: sts.URL})
	ctx, cancel := context.WithCancel(callerWith(t.Context(), "mine"))
	left := make(chan error, 1)
	go func() { left <- e.Apply(ctx, http.Header{}) }()
	<-asked
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(answer)
	if err := e.Apply(callerWith(t.Context(), "mine"), http.Header{}); err != nil || sts.requests.Load() != 1 {
		t.Errorf("%v, %d exchanges", err, sts.requests.Load())
	}
}

func TestExchangeConfig_Validate(t *testing.T) {
	t.Parallel()
	secret := func() (string, error) { return "", nil }
	for want, cfg := range map[string]ExchangeConfig{
		"":                {URL: "https://sts.example/token?connector_id=a", Header: "X-Token"},
		"a fragment":      {URL: "https://sts.example/token#a"},
		"HTTPS":           {URL: "http://sts.example/token"},
		"URL":             {URL: "ftp://sts.example"},
		"sets it itself":  {URL: "https://sts.example", Header: "Host"},
		"gateway":         {URL: "https://sts.example", Header: "Mcp-Session-Id"},
		"not a name of a": {URL: "https://sts.example", Header: "a b"},
		"Cookie":          {URL: "https://sts.example", Header: "cookie"},
		"type of the":     {URL: "https://sts.example", SubjectType: "saml2"},
		"needs a client":  {URL: "https://sts.example", ClientSecret: secret},
	} {
		err := cfg.Validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

func BenchmarkExchange_Cached(b *testing.B) {
	sts := newEndpoint(b, issue)
	e := newTestExchange(b, ExchangeConfig{URL: sts.URL})
	ctx := callerWith(b.Context(), strings.Repeat("a", 1500))
	for b.Loop() {
		if err := e.Apply(ctx, http.Header{}); err != nil {
			b.Fatal(err)
		}
	}
}
