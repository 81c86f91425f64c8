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
	"github.com/toolhaven/toolhaven/internal/mcp"
)

func TestStdioCarries(t *testing.T) {
	noLeaks(t)
	b := newSite(t).backend(t, StdioConfig{}, role(t, "fixture")...)
	answers := map[string]string{
		mcp.MethodSampling:    `{"role":"assistant","model":"m","content":{"type":"text","text":"hello"}}`,
		mcp.MethodElicitation: `{"action":"decline"}`,
		mcp.MethodRootsList:   `{"roots":[{"uri":"file:///home"}]}`,
	}
	session := newPeer()
	conn := open(t, b, session)
	if name, _, err := mcp.LookupString(conn.InitializeResult(), "serverInfo", "name"); name != "fixture" || err != nil {
		t.Errorf("server info %s, %v", conn.InitializeResult(), err)
	}
	ctx := testContext(t)
	t.Run("ids keep their type", func(t *testing.T) {
		for _, id := range []mcp.ID{mcp.IntID(1), mcp.StringID("1"), mcp.IntID(-7), mcp.StringID("ü \" \n"), mcp.StringID("")} {
			m, err := conn.Do(ctx, exchangeOf(call(id, "echo", `{"a":1}`), newPeer()))
			if err != nil || m.ID != id {
				t.Errorf("asked with id %s, answered with %v, %v", id, m, err)
			}
		}
	})
	t.Run("the client's declarations", func(t *testing.T) {
		if got := text(conn.Do(ctx, exchangeOf(call(mcp.IntID(1), "client", `{}`), newPeer()))); got != "the client 2025-11-25" {
			t.Error(got)
		}
	})
	t.Run("progress in order, before the answer, with the client's token", func(t *testing.T) {
		for _, token := range []string{`"tok"`, `7`} {
			p := newPeer()
			m := request(mcp.IntID(1), mcp.MethodToolsCall, `{"name":"progress","arguments":{},"_meta":{"progressToken":`+token+`}}`)
			if got := text(conn.Do(ctx, exchangeOf(m, p))); got != "done" {
				t.Fatal(got)
			}
			if len(p.notes) != 3 {
				t.Fatalf("%d notifications", len(p.notes))
			}
			for want := 1; want <= 3; want++ {
				n := <-p.notes
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
			if got := text(conn.Do(ctx, exchangeOf(call(mcp.IntID(1), name, `{}`), answering(answers)))); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
			got := text(conn.Do(ctx, exchangeOf(call(mcp.IntID(1), name, `{}`), newPeer())))
			if !strings.Contains(got, "this peer answers nothing") {
				t.Errorf("%s refused by the client: %s", name, got)
			}
		}
	})
	t.Run("log messages", func(t *testing.T) {
		if _, err := conn.Do(ctx, exchangeOf(request(mcp.IntID(1), mcp.MethodSetLevel, `{"level":"debug"}`), newPeer())); err != nil {
			t.Fatal(err)
		}
		p := newPeer()
		if got := text(conn.Do(ctx, exchangeOf(call(mcp.IntID(1), "log", `{}`), p))); got != "logged" {
			t.Fatal(got)
		}
		if n := p.next(t, mcp.NotificationMessage); !strings.Contains(string(n.Params), "careful") {
			t.Errorf("%s", n.Params)
		}
	})
	t.Run("list changes", func(t *testing.T) {
		// It comes while the call is in flight, or when it is over.
		if got := text(conn.Do(ctx, exchangeOf(call(mcp.IntID(1), "grow", `{}`), session))); got != "grown" {
			t.Fatal(got)
		}
		session.next(t, mcp.NotificationToolsChanged)
	})
	t.Run("the server's own errors", func(t *testing.T) {
		m, err := conn.Do(ctx, exchangeOf(request(mcp.StringID("e"), "no/such", `{}`), newPeer()))
		if err != nil || m.Error == nil || m.Error.Code != mcp.CodeMethodNotFound || m.ID != mcp.StringID("e") {
			t.Errorf("%+v, %v", m, err)
		}
	})
}

func TestStdioWithTheOfficialSDKsServers(t *testing.T) {
	const sdkPath = "github.com/modelcontextprotocol/go-sdk/"
	for pkg, c := range map[string]struct{ tool, args, want string }{
		"examples/server/everything":    {"greet", `{"name":"you"}`, "Hi you"},
		"conformance/everything-server": {"test_simple_text", `{}`, "This is a simple text response for testing."},
	} {
		t.Run(pkg, func(t *testing.T) {
			file := program(t, sdkPath+pkg)
			noLeaks(t)
			for _, version := range mcp.SessionVersions() {
				s := newSite(t)
				argv := []string{file}
				client := plain()
				client.Version = version
				conn := openAs(t, s.backend(t, StdioConfig{}, argv...), client, newPeer())
				if got, _, _ := mcp.LookupString(conn.InitializeResult(), "protocolVersion"); got != string(version) {
					t.Errorf("the server speaks %s, asked for %s", got, version)
				}
				if got := text(conn.Do(testContext(t), exchangeOf(call(mcp.IntID(1), c.tool, c.args), newPeer()))); got != c.want {
					t.Errorf("%s: %s", version, got)
				}
			}
		})
	}
}

// A thousand requests of one session at once, all with ids and tokens that
// other sessions use too.
func TestStdioAnswersAreNotMixedUp(t *testing.T) {
	s, b := crudeBackend(t, StdioConfig{})
	var wg sync.WaitGroup
	for session := range 10 {
		conn := openAs(t, b, plain(), newPeer())
		for n := range 100 {
			wg.Go(func() {
				want := fmt.Sprintf("session %d call %d", session, n)
				id := mcp.IntID(int64(n))
				m, err := conn.Do(testContext(t), exchangeOf(call(id, "echo", fmt.Sprintf(`{"is":%q}`, want)), newPeer()))
				if err == nil && m.ID != id {
					t.Errorf("answer has id %s, want %s", m.ID, id)
				}
				if got := text(m, err); got != want {
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

func TestStdioCancellationReachesTheServer(t *testing.T) {
	for name, client := range map[string]*exchange.Client{"shared": plain(), "own": fullClient()} {
		t.Run(name, func(t *testing.T) {
			_, b := crudeBackend(t, StdioConfig{})
			conn := openAs(t, b, client, newPeer())
			ctx, cancel := context.WithCancelCause(testContext(t))
			held, id := hold(ctx, t, conn, "h", newPeer())
			why := errors.New("the client changed its mind")
			cancel(why)
			if _, err := wait(t, held); !errors.Is(err, why) {
				t.Errorf("a cancelled call ends with %v", err)
			}
			var cancelled string
			eventually(t, "the server knows", func() bool {
				cancelled = ask(t, conn, "cancelled", "")
				return cancelled != ""
			})
			var params struct{ RequestID json.RawMessage }
			if err := json.Unmarshal([]byte(cancelled), &params); err != nil || string(params.RequestID) != id {
				t.Errorf("the server was told %s, the request's id is %s", cancelled, id)
			}
			// The answer comes all the same, and is nobody's.
			if got := ask(t, conn, "release", "h"); got != "released" {
				t.Error(got)
			}
		})
	}
}

// Who cancels may be gone at once, as each client of the stateless era is from the
// session that its call had for itself. The server is told before its input ends.
func TestStdioCancellationReachesAServerThatIsNotWantedAnyMore(t *testing.T) {
	_, b := crudeBackend(t, StdioConfig{})
	for range 10 {
		conn := openAs(t, b, fullClient(), newPeer())
		file := filepath.Join(t.TempDir(), "cancelled")
		ask(t, conn, "note cancellations", file)
		ctx, cancel := context.WithCancel(testContext(t))
		held, id := hold(ctx, t, conn, "h", newPeer())
		cancel()
		if _, err := wait(t, held); err == nil {
			t.Error("a cancelled call was answered")
		}
		_ = conn.Close()
		told, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(told), `"requestId":`+id) {
			t.Fatalf("the server was told %q (%v), the request's id is %s", told, err, id)
		}
	}
}
