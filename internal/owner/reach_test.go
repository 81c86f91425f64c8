package owner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/credential"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/guest"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/serve"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// mortalServer is an MCP server whose port is closed while it is dead.
type mortalServer struct {
	t     *testing.T
	addr  string
	serve http.Handler
	alive *http.Server
	looks atomic.Int64 // ping and server/discover
	// deafTo is the method whose requests break off.
	deafTo atomic.Value
}

func newMortalServer(t *testing.T, stateless bool) *mortalServer {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "mortal", Version: "1"}, nil)
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: stateless})
	m := &mortalServer{t: t, addr: fmt.Sprintf("127.0.0.1:%d", freePort(t))}
	m.deafTo.Store("")
	m.serve = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		var req struct{ Method string }
		_ = json.Unmarshal(body, &req)
		if req.Method == mcp.MethodPing || req.Method == mcp.MethodDiscover {
			m.looks.Add(1)
		}
		if method := m.deafTo.Load().(string); method != "" && method == req.Method {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		handler.ServeHTTP(w, r)
	})
	m.live()
	t.Cleanup(m.die)
	return m
}

func (m *mortalServer) live() {
	m.t.Helper()
	l, err := net.Listen("tcp", m.addr)
	if err != nil {
		m.t.Fatal(err)
	}
	m.alive = &http.Server{Handler: m.serve, ReadHeaderTimeout: time.Minute}
	go m.alive.Serve(l)
}

func (m *mortalServer) die() { m.alive.Close() }

// seldom has the watch ping the server so rarely that only calls can notify it.
func seldom(c *Config, _ *workload.Spec) { c.PingEvery = time.Hour }

// ofBothEras runs a test against a server of each era.
func ofBothEras(t *testing.T, test func(t *testing.T, m *mortalServer)) {
	for what, stateless := range map[string]bool{"session era": false, "stateless era": true} {
		t.Run(what, func(t *testing.T) { test(t, newMortalServer(t, stateless)) })
	}
}

func TestACallThatDoesNotReachTheServerDegradesAtOnceAndTheServerIsFoundAgain(t *testing.T) {
	ofBothEras(t, func(t *testing.T, m *mortalServer) {
		r := start(t, "http://"+m.addr+"/mcp", seldom)
		r.waitReady(t)
		session := r.session(t)
		m.die()
		if _, err := session.ListTools(t.Context(), nil); err == nil {
			t.Error("a dead server answered")
		}
		waitFor(t, "degraded", func() bool { return r.status(t).State == workload.Degraded })
		m.live()
		waitFor(t, "running", func() bool { return r.status(t).State == workload.Running })
	})
}

func TestManyCallsThatFailAreOneLookASecondAndNoneWhileAllIsWell(t *testing.T) {
	ofBothEras(t, func(t *testing.T, m *mortalServer) {
		r := start(t, "http://"+m.addr+"/mcp", seldom)
		r.waitReady(t)
		session := r.session(t)
		before := m.looks.Load()
		for range 20 {
			if _, err := session.ListTools(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		if n := m.looks.Load() - before; n != 0 {
			t.Errorf("%d looks while all was well", n)
		}
		m.deafTo.Store(mcp.MethodToolsList)
		began := time.Now()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				for range 20 {
					_, _ = session.ListTools(t.Context(), nil)
				}
			})
		}
		wg.Wait()
		waitFor(t, "looked at", func() bool { return m.looks.Load() > before })
		looks := m.looks.Load() - before
		if most := int64(time.Since(began)/lookGap) + 1; looks > most {
			t.Errorf("%d looks in %s", looks, time.Since(began))
		}
		if st := r.status(t); st.State != workload.Running {
			t.Errorf("a server that answers is %s: %s", st.State, st.Reason)
		}
	})
}

func TestAnSSEServerIsWatchedInOneSession(t *testing.T) {
	server := sdk.NewServer(&sdk.Implementation{Name: "old", Version: "1"}, nil)
	handler := sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return server }, nil)
	var streams, posts atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			streams.Add(1)
		} else {
			posts.Add(1)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	r := start(t, s.URL, func(c *Config, spec *workload.Spec) {
		c.PingEvery, spec.Transport = 20*time.Millisecond, workload.SSE
	})
	r.waitReady(t)
	waitFor(t, "pinged", func() bool { return posts.Load() >= 10 })
	if n := streams.Load(); n != 1 {
		t.Errorf("the watch has opened %d sessions", n)
	}
}

// session is a third-party client's, without a stream of its own.
func (r *running) session(t *testing.T) *sdk.ClientSession {
	t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: r.spec.URL(), DisableStandaloneSSE: true, MaxRetries: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() }) // its server may be dead
	return session
}

// absent is a Backend that cannot be opened while it is away.
type absent struct {
	exchange.Backend
	away  atomic.Bool
	opens atomic.Int64
}

func (*absent) Unresponsive(error) {}

type openConn struct{ exchange.Conn }

func (openConn) ServerInfo() json.RawMessage { return nil }

func (a *absent) Open(context.Context, *exchange.Client, exchange.Peer) (exchange.Conn, error) {
	a.opens.Add(1)
	if a.away.Load() {
		return nil, errors.New("away")
	}
	return openConn{}, nil
}

type answers int

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: int(a), Body: http.NoBody}, nil
}

func TestACallThatReachesALostServerBringsItBack(t *testing.T) {
	o := &owner{spec: &workload.Spec{}, log: slog.New(slog.DiscardHandler), reach: serve.NewReach(answers(http.StatusOK)), cfg: Config{StartTimeout: time.Minute}}
	b := &absent{}
	w := newWatch(o, b)
	w.minWait = time.Hour
	w.mark(true)
	found := make(chan struct{})
	go func() { defer close(found); w.recover(t.Context()) }()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := o.reach.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	select {
	case <-found:
	case <-time.After(waitTime):
		t.Fatal("never found")
	}
}

func TestCallsThatReachALostServerThatDoesNotOpenAreOneAttemptASecond(t *testing.T) {
	o := &owner{log: slog.New(slog.DiscardHandler), reach: serve.NewReach(answers(http.StatusOK)), cfg: Config{StartTimeout: time.Minute}}
	b := &absent{}
	b.away.Store(true)
	w := newWatch(o, b)
	w.minWait, w.maxWait = time.Hour, time.Hour
	w.mark(true)
	began := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); w.recover(ctx) }()
	waitFor(t, "tried twice", func() bool {
		serve.Notify(o.reach.Answered)
		return b.opens.Load() >= 2
	})
	if took := time.Since(began); took < lookGap {
		t.Errorf("two attempts within %s", took)
	}
	cancel()
	<-ended
}

// refusing is a Backend whose server answers, and never opens.
type refusing struct {
	exchange.Backend
	way   http.RoundTripper
	opens atomic.Int64
}

func (r *refusing) Open(ctx context.Context, _ *exchange.Client, _ exchange.Peer) (exchange.Conn, error) {
	r.opens.Add(1)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://x/", nil)
	if err != nil {
		return nil, err
	}
	resp, err := r.way.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	return nil, errors.Join(errors.New(resp.Status), resp.Body.Close())
}

func TestTheWatchsOwnAttemptIsNoCallThatReachesTheServer(t *testing.T) {
	o := &owner{log: slog.New(slog.DiscardHandler), reach: serve.NewReach(answers(http.StatusInternalServerError)), cfg: Config{StartTimeout: time.Minute}}
	b := &refusing{way: o.reach}
	w := newWatch(o, b)
	w.minWait, w.maxWait = time.Hour, time.Hour
	w.mark(true)
	serve.Notify(o.reach.Answered) // the first attempt comes of a call
	ctx, cancel := context.WithTimeout(t.Context(), 5*lookGap/2)
	defer cancel()
	w.recover(ctx)
	if n := b.opens.Load(); n != 1 {
		t.Errorf("%d attempts within %s, of one call", n, 5*lookGap/2)
	}
}

func TestWhatOfARequestMeansThatTheServerIsNotThere(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		what string
		ctx  context.Context
		next http.RoundTripper
		want bool
	}{
		{"an answer", t.Context(), answers(200), false},
		{"a refusal", t.Context(), answers(404), false},
		{"the server's own fault", t.Context(), answers(500), false},
		{"a proxy before it that finds nobody", t.Context(), answers(502), true},
		{"a refused connection", t.Context(), refuses{}, true},
		{"a client that went away", gone, refuses{}, false},
	} {
		r := serve.NewReach(c.next)
		req, err := http.NewRequestWithContext(c.ctx, http.MethodPost, "http://x/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := r.RoundTrip(req); err == nil {
			resp.Body.Close()
		}
		if got := len(r.Failed) == 1; got != c.want {
			t.Errorf("%s: looked is %t", c.what, got)
		}
	}
}

func TestABackendThatClosesLeavesNoIdleConnection(t *testing.T) {
	m := newMortalServer(t, false)
	var ended atomic.Bool
	o := &owner{log: slog.New(slog.DiscardHandler), spec: &workload.Spec{Transport: workload.StreamableHTTP}}
	b, err := o.overHTTP("http://"+m.addr+"/mcp", credential.Transport(&http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			return &endingConn{c, &ended}, err
		},
	}, credential.Headers{"X-A": {"1"}}))
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+m.addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := o.reach.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "closed", ended.Load)
}

// endingConn reports when it is closed.
type endingConn struct {
	net.Conn
	ended *atomic.Bool
}

func (c *endingConn) Close() error {
	c.ended.Store(true)
	return c.Conn.Close()
}

type refuses struct{}

func (refuses) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("connection refused")
}

// deadProcess is a server's process that ended with an error.
type deadProcess struct{ guest.Process }

func (deadProcess) Wait() error { return errors.New("exit status 3") }

func TestAServerThatEndedIsNotReportedAsSilent(t *testing.T) {
	ended := make(chan struct{})
	close(ended)
	silent := errors.New("the server does not answer: connection refused")
	s := &instance{http: deadProcess{}, line: line(t)}
	w := newWatch(&owner{instance: s}, nil)
	if got, want := w.verdict(t.Context(), ended, silent), "the server ended: exit status 3"; got != want {
		t.Errorf("of one that ended: %q, want %q", got, want)
	}
	if got := w.verdict(t.Context(), make(chan struct{}), silent); got != silent.Error() {
		t.Errorf("of one that runs: %q", got)
	}
	if got := newWatch(&owner{}, nil).verdict(t.Context(), nil, silent); got != silent.Error() {
		t.Errorf("of a remote one: %q", got)
	}
}

func TestAServerThatEndedInALivingContainerIsNotAlive(t *testing.T) {
	l := line(t)
	s := &instance{line: l, http: deadProcess{}, gone: endOf(l, deadProcess{})}
	<-s.ended()
	if s.alive() {
		t.Error("alive reports true, so nothing starts it again")
	}
}

// line is a line to a guest that is silent.
func line(t *testing.T) *guest.Line {
	t.Helper()
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	go io.Copy(io.Discard, in)
	l, err := guest.Connect(stdin, stdout, func() error { return errors.Join(in.Close(), out.Close(), stdout.Close()) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}
