//go:build hostile

package hostile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway/backend"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// bound is how long a client waits at most for what becomes of a request that a
// server has done something to. The gateway itself has no such limit on a call.
const bound = 45 * time.Second

var nonces atomic.Int64

func nonce() string { return fmt.Sprint("nonce ", nonces.Add(1)) }

// serve runs h on loopback until the test ends.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL + "/mcp"
}

// clientOf is a client at url, of one connection pool of its own.
func clientOf(t *testing.T, url string, modern bool) *Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &Client{
		URL: url, HTTP: &http.Client{Transport: authorized(url, transport)}, Modern: modern, Capabilities: Capabilities,
		Answer: func(string, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`{"action":"accept","content":{}}`), nil
		},
	}
}

// bystander calls a good tool all the time until the test ends, and complains when
// it does not get its answer soon.
func bystander(t *testing.T, url string, modern bool) {
	t.Helper()
	c := clientOf(t, url, modern)
	c.Capabilities = ""
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	var slowest time.Duration
	calls := 0
	t.Cleanup(func() {
		stop()
		<-done
		t.Logf("a bystander (modern %v) made %d calls, the slowest took %s", modern, calls, slowest)
		if calls == 0 {
			t.Error("the bystander was not served")
		}
	})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := c.open(ctx); err != nil {
				if ctx.Err() == nil {
					t.Error("bystander:", err)
				}
				return
			}
			for ctx.Err() == nil {
				n, began := nonce(), time.Now()
				o, err := c.Call(ctx, mcp.IntID(1), "good", fmt.Sprintf(`{"nonce":%q}`, n), "")
				if ctx.Err() != nil {
					return
				}
				if err == nil && o.Status == http.StatusNotFound && !modern {
					break // its session was forgotten, which a test may want
				}
				if err != nil || o.Text() != n {
					t.Error("bystander:", o, err)
					return
				}
				slowest = max(slowest, time.Since(began))
				if slowest > bound {
					t.Error("a bystander waited", slowest)
					return
				}
				calls++
				time.Sleep(5 * time.Millisecond)
			}
		}
	}()
}

func (c *Client) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	return c.Open(ctx)
}

// suffer calls the wrong tool name and says what is wrong with what comes of it.
// translated: the server is of the other era than c.
func suffer(ctx context.Context, c *Client, name, want string, translated bool) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	own := *c // a session of its own
	c = &own
	if err := c.Open(ctx); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if want == Endless {
		time.AfterFunc(300*time.Millisecond, cancel)
	}
	n := nonce()
	o, err := c.Call(ctx, mcp.StringID("x"), name, fmt.Sprintf(`{"nonce":%q}`, n), "")
	return errors.Join(judge(c, o, err, n, want, translated), c.Close(context.WithoutCancel(ctx)))
}

func judge(c *Client, o *Outcome, err error, n, want string, translated bool) error {
	switch {
	case want == Endless && !errors.Is(err, context.Canceled) && !(err == nil && c.Modern && asking(o)):
		return fmt.Errorf("it ended by itself: %v, %w", o, err)
	case want == Endless:
		return nil
	case err != nil:
		return fmt.Errorf("no outcome: %w", err)
	case o.Response == nil:
		return fmt.Errorf("nothing, not even an error: %s", o)
	case o.Response.ID != mcp.StringID("x"):
		return fmt.Errorf("answered with another id: %s", o)
	case o.Response.Error != nil && want == Good:
		return fmt.Errorf("want success: %s", o)
	case o.Response.Error != nil && o.Response.Error.Message == "":
		return fmt.Errorf("an error that says nothing: %s", o)
	case o.Response.Error != nil:
		return nil
	case o.Text() == n && want == Bad:
		return fmt.Errorf("want an error: %s", o)
	case o.Text() == n:
		return nil
	case asking(o) && !c.Modern && translated:
		return fmt.Errorf("a client of the session era is asked as the other is: %s", o)
	case !asking(o) && want != Either:
		return fmt.Errorf("a success without what was asked for: %s", o)
	}
	return nil
}

// asking: the outcome is that the client is asked something more.
func asking(o *Outcome) bool {
	kind, _, _ := mcp.LookupString(o.Response.Result, "resultType")
	return kind == mcp.ResultInputRequired
}

// sufferAll has clients of both eras call each of these tools, four at a time,
// while others are served; wants are what must come of it.
func sufferAll(t *testing.T, url string, modernServer bool, wants map[string]string) {
	t.Helper()
	memory := watchMemory(t)
	for _, modern := range []bool{false, true} {
		bystander(t, url, modern)
	}
	for _, modern := range []bool{false, true} {
		c := clientOf(t, url, modern)
		var all sync.WaitGroup
		slots := make(chan struct{}, 4)
		for _, name := range slices.Sorted(maps.Keys(wants)) {
			want := wants[name]
			if Faults[name].Fatal {
				continue
			}
			slots <- struct{}{}
			all.Go(func() {
				began := time.Now()
				if err := suffer(t.Context(), c, name, want, modern != modernServer); err != nil {
					t.Errorf("modern client %v, %s: %v", modern, name, err)
				}
				if took := time.Since(began); took > 3*time.Second {
					t.Logf("modern client %v, %s: took %s", modern, name, took)
				}
				memory.check(t, name)
				<-slots
			})
		}
		all.Wait()
		// These end the process of a stdio server, and with it the other calls of the
		// same client, which are in that process (docs/decisions/0003).
		for _, name := range slices.Sorted(maps.Keys(wants)) {
			if Faults[name].Fatal {
				if err := suffer(t.Context(), c, name, wants[name], modern != modernServer); err != nil {
					t.Errorf("modern client %v, %s: %v", modern, name, err)
				}
				memory.check(t, name)
			}
		}
	}
}

// all is every fault of [Faults], with what it must come to.
func all(want func(Fault) string) map[string]string {
	out := map[string]string{}
	for name, f := range Faults {
		if w := want(f); w != "" {
			out[name] = w
		}
	}
	return out
}

// A server does everything wrong that it can, when a tool is called; whoever calls
// it learns of it, nobody else does.
func TestServersThatDoWrong(t *testing.T) {
	for _, modernServer := range []bool{false, true} {
		for _, plain := range []bool{false, true} {
			t.Run(fmt.Sprintf("modern %v, JSON %v", modernServer, plain), func(t *testing.T) {
				noLeaks(t)
				s := &Server{Modern: modernServer, JSON: plain}
				transport := &http.Transport{MaxResponseHeaderBytes: mcp.MaxHeader}
				g := gatewayOf(t, backend.NewStreamable(backend.StreamableConfig{URL: serve(t, s), Transport: transport}))
				url := serve(t, g)
				sufferAll(t, url, modernServer, all(func(f Fault) string {
					switch {
					case plain && (f.Many || f.Wire != nil):
						return ""
					case modernServer && f.Modern != "":
						return f.Modern
					}
					return f.Want
				}))
				if n := s.Twice(); n != "" {
					t.Errorf("the call of %s was made %d times", n, s.Calls(n))
				}
			})
		}
	}
}
