package backend

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/stdio"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// resumeAt continues, at b, the session that was opened at another backend of the
// same server and left there.
func resumeAt(t *testing.T, b exchange.Backend, handle []byte, session exchange.Peer) (exchange.Conn, error) {
	t.Helper()
	conn, err := b.Resume(backendtest.TestContext(t), backendtest.FullClient(), handle, session)
	if err == nil {
		t.Cleanup(func() { _ = conn.Close() })
	}
	return conn, err
}

// leave opens a session at the server, leaves it there and returns its handle.
func leave(t *testing.T, url string) []byte {
	t.Helper()
	b := streamableBackend(url)
	conn, err := b.Open(backendtest.TestContext(t), backendtest.FullClient(), backendtest.NewPeer())
	if err != nil {
		t.Fatal(err)
	}
	handle, ok := conn.Handle()
	if !ok {
		t.Fatal("no handle")
	}
	if err := conn.Leave(); err != nil {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	return handle
}

func TestASessionIsContinuedWithoutAHandshake(t *testing.T) {
	t.Parallel()
	ids := make(chan mcp.ID, 10)
	s := newScript(func(w http.ResponseWriter, r *http.Request, m *mcp.Message) {
		if r.Header.Get(mcp.HeaderSessionID) != "the-session" || r.Header.Get(mcp.HeaderVersion) != "2025-11-25" {
			t.Errorf("headers %v", r.Header)
		}
		ids <- m.ID
		reply(w, m.ID, `{}`)
	})
	srv := serve(t, s)
	handle := leave(t, srv.URL)
	conn, err := resumeAt(t, closeAfter(t, streamableBackend(srv.URL)), handle, backendtest.NewPeer())
	if err != nil {
		t.Fatal(err)
	}
	if v, _, _ := mcp.LookupString(conn.InitializeResult(), "protocolVersion"); v != "2025-11-25" {
		t.Errorf("the version is %q", v)
	}
	if m, err := conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Request(mcp.StringID("q"), "x", `{}`), backendtest.NewPeer())); err != nil || m.ID != mcp.StringID("q") {
		t.Errorf("%+v, %v", m, err)
	}
	// The process before us used small ids, and the server may still work for it.
	if id := <-ids; len(id.String()) < 10 {
		t.Errorf("the request has the id %s", id)
	}
	again, _ := conn.Handle()
	if string(again) != string(handle) {
		t.Errorf("the handle is %q, before %q", again, handle)
	}
	_ = conn.Close()
	if want := "POST initialize, POST notifications/initialized, POST x, DELETE"; s.seen() != want {
		t.Errorf("the server saw %s; want %s", s.seen(), want)
	}
}

func TestAContinuedSessionIsLostWhenTheServerSaysSo(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(*testing.T, exchange.Conn) error{
		"a request": func(t *testing.T, c exchange.Conn) error {
			_, err := c.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Request(mcp.IntID(1), "x", `{}`), backendtest.NewPeer()))
			return err
		},
		"a notification": func(t *testing.T, c exchange.Conn) error {
			return c.Notify(backendtest.TestContext(t), &mcp.Message{Method: mcp.NotificationRootsChanged})
		},
		"its stream": func(_ *testing.T, c exchange.Conn) error { c.Listen(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(nil)
			srv := serve(t, s)
			handle := leave(t, srv.URL)
			s.forgot.Store(true)
			conn, err := resumeAt(t, closeAfter(t, streamableBackend(srv.URL)), handle, backendtest.NewPeer())
			if err != nil {
				t.Fatal(err)
			}
			if err := use(t, conn); err != nil && backendtest.CodeOf(err) != mcp.CodeSessionNotFound {
				t.Errorf("got %v", err)
			}
			select {
			case <-conn.Done():
			default:
				t.Error("the session goes on")
			}
		})
	}
}

func TestAHandleIsForItsServerOnly(t *testing.T) {
	t.Parallel()
	s := newScript(nil)
	srv := serve(t, s)
	handle := string(leave(t, srv.URL))
	for name, bad := range map[string]string{
		"another server":  string(leave(t, serve(t, newScript(nil)).URL)),
		"no session":      strings.TrimSuffix(handle, " the-session"),
		"another version": strings.Replace(handle, "2025-11-25", "2031-01-01", 1),
		"not ASCII":       handle + "\n",
		"garbage":         "x",
	} {
		if _, err := resumeAt(t, closeAfter(t, streamableBackend(srv.URL)), []byte(bad), backendtest.NewPeer()); !errors.Is(err, exchange.ErrNotResumable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, b := range map[string]exchange.Backend{"SSE": sseBackend(srv.URL), "stdio": NewStdio(stdio.Config{})} {
		if _, err := resumeAt(t, closeAfter(t, b), []byte(handle), backendtest.NewPeer()); !errors.Is(err, exchange.ErrNotResumable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A session costs the server a stream only if somebody listens.
func TestTheSessionsStreamIsOpenedWhenSomebodyListens(t *testing.T) {
	t.Parallel()
	s := newScript(func(w http.ResponseWriter, _ *http.Request, m *mcp.Message) { reply(w, m.ID, `{}`) })
	s.get = func(w http.ResponseWriter, r *http.Request) {
		events(w)
		<-r.Context().Done()
	}
	b := closeAfter(t, streamableBackend(serve(t, s).URL))
	conn, err := b.Open(backendtest.TestContext(t), backendtest.FullClient(), backendtest.NewPeer())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Request(mcp.IntID(1), "x", `{}`), backendtest.NewPeer())); err != nil {
		t.Fatal(err)
	}
	if want := "POST initialize, POST notifications/initialized, POST x"; s.seen() != want {
		t.Errorf("the server saw %s; want %s", s.seen(), want)
	}
	for range 3 {
		conn.Listen()
	}
	if want := "POST initialize, POST notifications/initialized, POST x, GET"; s.seen() != want {
		t.Errorf("the server saw %s; want %s", s.seen(), want)
	}
	_ = conn.Close()
}
