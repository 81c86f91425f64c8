package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/stdio"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

func TestStdio_ForwardsMessages(t *testing.T) {
	t.Parallel()
	b := newSite(t).backend(t, stdio.Config{}, role(t, "fixture")...)
	answers := map[string]string{
		mcp.MethodSampling:    `{"role":"assistant","model":"m","content":{"type":"text","text":"hello"}}`,
		mcp.MethodElicitation: `{"action":"decline"}`,
		mcp.MethodRootsList:   `{"roots":[{"uri":"file:///home"}]}`,
	}
	session := backendtest.NewPeer()
	conn := open(t, b, session)
	if name, _, err := mcp.LookupString(conn.InitializeResult(), "serverInfo", "name"); name != "fixture" || err != nil {
		t.Errorf("server info %s, %v", conn.InitializeResult(), err)
	}
	ctx := backendtest.TestContext(t)
	t.Run("ids keep their type", func(t *testing.T) {
		for _, id := range []mcp.ID{mcp.IntID(1), mcp.StringID("1"), mcp.IntID(-7), mcp.StringID("ü \" \n"), mcp.StringID("")} {
			m, err := conn.Do(ctx, backendtest.ExchangeOf(backendtest.Call(id, "echo", `{"a":1}`), backendtest.NewPeer()))
			if err != nil || m.ID != id {
				t.Errorf("asked with id %s, answered with %v, %v", id, m, err)
			}
		}
	})
	t.Run("the client's declarations", func(t *testing.T) {
		if got := backendtest.Text(conn.Do(ctx, backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "client", `{}`), backendtest.NewPeer()))); got != "the client 2025-11-25" {
			t.Error(got)
		}
	})
	t.Run("progress in order, before the answer, with the client's token", func(t *testing.T) {
		for _, token := range []string{`"tok"`, `7`} {
			p := backendtest.NewPeer()
			m := backendtest.Request(mcp.IntID(1), mcp.MethodToolsCall, `{"name":"progress","arguments":{},"_meta":{"progressToken":`+token+`}}`)
			if got := backendtest.Text(conn.Do(ctx, backendtest.ExchangeOf(m, p))); got != "done" {
				t.Fatal(got)
			}
			if len(p.Notes) != 3 {
				t.Fatalf("%d notifications", len(p.Notes))
			}
			for want := 1; want <= 3; want++ {
				n := <-p.Notes
				var got struct {
					ProgressToken json.RawMessage
					Progress      int
				}
				if err := json.Unmarshal(n.Params, &got); err != nil || string(got.ProgressToken) != token || got.Progress != want {
					t.Errorf("progress %s, want number %d of %s", n.Params, want, token)
				}
			}
		}
	})
	t.Run("questions", func(t *testing.T) {
		for name, want := range map[string]string{"sample": "model said hello", "elicit": "user chose decline", "roots": "root file:///home"} {
			if got := backendtest.Text(conn.Do(ctx, backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), name, `{}`), backendtest.Answering(answers)))); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
			got := backendtest.Text(conn.Do(ctx, backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), name, `{}`), backendtest.NewPeer())))
			if !strings.Contains(got, "this peer answers nothing") {
				t.Errorf("%s refused by the client: %s", name, got)
			}
		}
	})
	t.Run("log messages", func(t *testing.T) {
		if _, err := conn.Do(ctx, backendtest.ExchangeOf(backendtest.Request(mcp.IntID(1), mcp.MethodSetLevel, `{"level":"debug"}`), backendtest.NewPeer())); err != nil {
			t.Fatal(err)
		}
		p := backendtest.NewPeer()
		if got := backendtest.Text(conn.Do(ctx, backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "log", `{}`), p))); got != "logged" {
			t.Fatal(got)
		}
		if n := p.Next(t, mcp.NotificationMessage); !strings.Contains(string(n.Params), "careful") {
			t.Errorf("%s", n.Params)
		}
	})
	t.Run("list changes", func(t *testing.T) {
		// It comes while the call is in flight, or when it is over.
		if got := backendtest.Text(conn.Do(ctx, backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "grow", `{}`), session))); got != "grown" {
			t.Fatal(got)
		}
		session.Next(t, mcp.NotificationToolsChanged)
	})
	t.Run("the server's own errors", func(t *testing.T) {
		m, err := conn.Do(ctx, backendtest.ExchangeOf(backendtest.Request(mcp.StringID("e"), "no/such", `{}`), backendtest.NewPeer()))
		if err != nil || m.Error == nil || m.Error.Code != mcp.CodeMethodNotFound || m.ID != mcp.StringID("e") {
			t.Errorf("%+v, %v", m, err)
		}
	})
}

func TestStdio_OfficialSDKServers(t *testing.T) {
	t.Parallel()
	const sdkPath = "github.com/modelcontextprotocol/go-sdk/"
	for pkg, c := range map[string]struct{ tool, args, want string }{
		"examples/server/everything":    {"greet", `{"name":"you"}`, "Hi you"},
		"conformance/everything-server": {"test_simple_text", `{}`, "This is a simple text response for testing."},
	} {
		t.Run(pkg, func(t *testing.T) {
			t.Parallel()
			file := program(t, sdkPath+pkg)
			for _, version := range mcp.SessionVersions() {
				s := newSite(t)
				argv := []string{file}
				client := plain()
				client.Version = version
				conn := openAs(t, s.backend(t, stdio.Config{}, argv...), client, backendtest.NewPeer())
				if got, _, _ := mcp.LookupString(conn.InitializeResult(), "protocolVersion"); got != string(version) {
					t.Errorf("the server speaks %s, asked for %s", got, version)
				}
				if got := backendtest.Text(conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), c.tool, c.args), backendtest.NewPeer()))); got != c.want {
					t.Errorf("%s: %s", version, got)
				}
			}
		})
	}
}

// A thousand requests of one session at once, all with ids and tokens that
// other sessions use too.
func TestStdio_ResponsesAreNotMixedUp(t *testing.T) {
	t.Parallel()
	s, b := crudeBackend(t, stdio.Config{})
	var wg sync.WaitGroup
	for session := range 10 {
		conn := openAs(t, b, plain(), backendtest.NewPeer())
		for n := range 100 {
			wg.Go(func() {
				want := fmt.Sprintf("session %d call %d", session, n)
				id := mcp.IntID(int64(n))
				m, err := conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(id, "echo", fmt.Sprintf(`{"is":%q}`, want)), backendtest.NewPeer()))
				if err == nil && m.ID != id {
					t.Errorf("answer has id %s, want %s", m.ID, id)
				}
				if got := backendtest.Text(m, err); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			})
		}
	}
	wg.Wait()
	if n := len(s.processes(t)); n != 1 {
		t.Errorf("%d processes serve ten sessions that are alike", n)
	}
}

func TestStdio_CancellationReachesTheServer(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]*exchange.Client{"shared": plain(), "own": backendtest.FullClient()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, b := crudeBackend(t, stdio.Config{})
			conn := openAs(t, b, client, backendtest.NewPeer())
			ctx, cancel := context.WithCancelCause(backendtest.TestContext(t))
			held, id := hold(ctx, t, conn, "h", backendtest.NewPeer())
			why := errors.New("the client changed its mind")
			cancel(why)
			if _, err := backendtest.Wait(t, held); !errors.Is(err, why) {
				t.Errorf("a cancelled call ends with %v", err)
			}
			var cancelled string
			backendtest.Eventually(t, "the server knows", func() bool {
				cancelled = ask(t, conn, "cancelled", "")
				return cancelled != ""
			})
			var params struct{ RequestID json.RawMessage }
			if err := json.Unmarshal([]byte(cancelled), &params); err != nil || string(params.RequestID) != id {
				t.Errorf("the server received %s, the request's id is %s", cancelled, id)
			}
			// The response arrives nevertheless, and is dropped.
			if got := ask(t, conn, "release", "h"); got != "released" {
				t.Error(got)
			}
		})
	}
}

// Who cancels may be gone at once, as each client of the stateless era is from the
// session that its call had for itself. The server receives it before its input ends.
func TestStdio_CancellationReachesAServerThatIsBeingEnded(t *testing.T) {
	t.Parallel()
	_, b := crudeBackend(t, stdio.Config{})
	for range 10 {
		conn := openAs(t, b, backendtest.FullClient(), backendtest.NewPeer())
		file := filepath.Join(t.TempDir(), "cancelled")
		ask(t, conn, "note cancellations", file)
		ctx, cancel := context.WithCancel(backendtest.TestContext(t))
		held, id := hold(ctx, t, conn, "h", backendtest.NewPeer())
		cancel()
		if _, err := backendtest.Wait(t, held); err == nil {
			t.Error("a cancelled call was answered")
		}
		_ = conn.Close()
		params, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(params), `"requestId":`+id) {
			t.Fatalf("the server received %q (%v), the request's id is %s", params, err, id)
		}
	}
}
