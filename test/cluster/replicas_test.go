//go:build cluster && linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/toolhaven/toolhaven/api/v1beta1"
)

// fresh makes a connection for each request, so that the Service chooses a pod for each.
func fresh() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
}

func replicated(t *testing.T) (w workload, url string) {
	t.Helper()
	namespace := newNamespace(t)
	apply(t, namespace, strings.Replace(probeServer, "replicas: 1", "replicas: 2", 1))
	w = server(namespace, "probe")
	return w, w.ready(t)
}

// Requests of a session reach its process through whichever pod the Service chooses.
func TestReplicas_Sessions(t *testing.T) {
	t.Parallel()
	w, url := replicated(t)
	const sessions = 6
	pids := map[string]bool{}
	var open []*sdk.ClientSession
	for i := range sessions {
		s, err := dialWith(t.Context(), fresh(), url, sessionEra)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		open = append(open, s)
		mustCall(t, s, "redefine", map[string]any{"name": "mine", "description": fmt.Sprint(i)})
	}
	for range 10 {
		for i, s := range open {
			if got := mustCall(t, s, "mine", map[string]any{"text": fmt.Sprint(i)}); got != fmt.Sprint(i) {
				t.Fatalf("session %d: %q", i, got)
			}
		}
	}
	for _, s := range open {
		pids[mustCall(t, s, "pid", nil)] = true
	}

	// The sessions of a pod that is killed are gone (404), and a new one works.
	victim := w.pods(t)[0]
	kubectl(t, "", "delete", "pod", "-n", w.namespace, victim.Name, "--grace-period=0", "--force")
	eventually(t, "the pod is replaced", func(ctx context.Context) error {
		for _, p := range w.pods(t) {
			if p.Name == victim.Name {
				return errors.New("it is there")
			}
		}
		return node.available(ctx, client.ObjectKey{Namespace: w.namespace, Name: w.name})
	})
	lost := 0
	for i, s := range open {
		_, err := call(t.Context(), s, "mine", map[string]any{"text": "x"})
		if err == nil {
			continue
		}
		lost++
		if !errors.Is(err, sdk.ErrSessionMissing) && !strings.Contains(err.Error(), "Session not found") {
			t.Errorf("session %d: %v, want that it is missing", i, err)
		}
		again, err := dialWith(t.Context(), fresh(), url, sessionEra)
		if err != nil {
			t.Fatalf("a new session: %v", err)
		}
		mustCall(t, again, "echo", map[string]any{"text": "x"})
		again.Close()
	}
	if lost == sessions {
		t.Error("the sessions of the other pod are lost, too")
	}
	t.Logf("%d of %d sessions were on the pod that was killed", lost, sessions)
}

// Clients of the stateless era notice nothing: neither of a pod that is killed, nor of all
// being replaced.
func TestReplicas_Stateless(t *testing.T) {
	t.Parallel()
	w, url := replicated(t)
	calls := newCaller(t, url)
	kubectl(t, "", "delete", "pod", "-n", w.namespace, w.pods(t)[0].Name, "--wait=false")
	calls.more(t, 20)
	w.ready(t)
	before := podStates(w.pods(t))
	edit(t, w, func(s *v1beta1.MCPServer) { s.Spec.Env[0].Value = "changed" })
	w.ready(t)
	eventually(t, "all pods are replaced", func(context.Context) error {
		now := podStates(w.pods(t))
		for _, old := range before {
			for _, p := range now {
				if old == p {
					return fmt.Errorf("%s is there", p)
				}
			}
		}
		return nil
	})
	calls.more(t, 20)
	if n, errs := calls.end(); len(errs) > 0 {
		t.Errorf("of %d calls %d failed: %v", n, len(errs), errors.Join(errs...))
	} else {
		t.Logf("%d calls succeeded", n)
	}
}

// A pod that ends lets a call in flight finish.
func TestReplicas_Drain(t *testing.T) {
	t.Parallel()
	w, url := replicated(t)
	s := connect(t, url, sessionEra)
	mustCall(t, s, "echo", map[string]any{"text": "x"})
	done := make(chan error, 1)
	go func() {
		got, err := call(t.Context(), s, "sleep", map[string]any{"milliseconds": 8000})
		if err == nil && got != "slept" {
			err = errors.New(got)
		}
		done <- err
	}()
	eventually(t, "the call runs", func(context.Context) error {
		for _, p := range w.pods(t) {
			if strings.Contains(kubectl(t, "", "logs", "-n", w.namespace, p.Name, "--all-containers"), "sleeping") {
				return nil
			}
		}
		return errors.New("no pod has logged it")
	})
	kubectl(t, "", "delete", "pod", "-n", w.namespace, "-l", "toolhaven.dev/workload=probe", "--wait=false")
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("the call in flight: %v", err)
		}
	case <-time.After(patience):
		t.Error("the call in flight does not end")
	}
}

// edit changes a server, again when another has changed it meanwhile.
func edit(t *testing.T, w workload, change func(*v1beta1.MCPServer)) {
	t.Helper()
	eventually(t, "the server is edited", func(ctx context.Context) error {
		var s v1beta1.MCPServer
		if err := node.api.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: w.name}, &s); err != nil {
			return err
		}
		change(&s)
		return node.api.Update(ctx, &s, &client.UpdateOptions{FieldManager: "test"})
	})
}

// caller calls a tool all the time, each time by a new connection.
type caller struct {
	n      atomic.Int64
	cancel context.CancelFunc
	work   sync.WaitGroup
	mu     sync.Mutex
	errs   []error
}

func newCaller(t *testing.T, url string) *caller {
	t.Helper()
	s, err := dialWith(t.Context(), fresh(), url, stateless)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := &caller{cancel: cancel}
	c.work.Go(func() {
		defer s.Close()
		for ctx.Err() == nil {
			text := fmt.Sprint(c.n.Add(1))
			// Not with ctx: a call that was begun is to end.
			if got, err := call(context.WithoutCancel(ctx), s, "echo", map[string]any{"text": text}); err != nil || got != text {
				c.mu.Lock()
				c.errs = append(c.errs, fmt.Errorf("call %s at %s: %q, %w", text, time.Now().Format(time.TimeOnly), got, err))
				c.mu.Unlock()
			}
		}
	})
	t.Cleanup(func() { c.end() })
	return c
}

// more waits for so many calls.
func (c *caller) more(t *testing.T, n int64) {
	t.Helper()
	goal := c.n.Load() + n
	eventually(t, "calls go on", func(context.Context) error {
		if got := c.n.Load(); got < goal {
			return fmt.Errorf("%d of %d", got, goal)
		}
		return nil
	})
}

func (c *caller) end() (int64, []error) {
	c.cancel()
	c.work.Wait()
	return c.n.Load(), c.errs
}
