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

// sessionsOfEach is how many sessions each pod has at least, and sessionsMost how many are opened
// for that: the Service chooses a pod for each at random. A pod has 32 processes, one for each
// session, and ends the one that was unused for longest when there are more sessions.
const sessionsOfEach, sessionsMost = 2, 24

// Requests of a session reach its process through whichever pod the Service chooses. The sessions
// of a pod that is killed are gone (404): their clients go on with new ones, the others notice
// nothing.
func TestReplicas_Sessions(t *testing.T) {
	t.Parallel()
	w, url := replicated(t)
	pods := w.pods(t)
	if len(pods) != 2 {
		t.Fatalf("%d pods, want 2", len(pods))
	}
	// kube-proxy may have one of the pods before the other.
	unbound, err := dialWith(t.Context(), fresh(), url, stateless)
	if err != nil {
		t.Fatal(err)
	}
	defer unbound.Close()
	reached := map[string]bool{}
	eventually(t, "the Service reaches both pods", func(context.Context) error {
		reached[mustCall(t, unbound, "env", map[string]any{"name": "HOSTNAME"})] = true
		if len(reached) != len(pods) {
			return fmt.Errorf("it reaches %v", reached)
		}
		return nil
	})
	open := map[string][]*sdk.ClientSession{} // by the name of the pod with the session
	for n := 0; len(open[pods[0].Name]) < sessionsOfEach || len(open[pods[1].Name]) < sessionsOfEach; n++ {
		if n == sessionsMost {
			t.Fatalf("of %d sessions, %d and %d are on the two pods", n, len(open[pods[0].Name]), len(open[pods[1].Name]))
		}
		s, err := dialWith(t.Context(), fresh(), url, sessionEra)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		pod := mustCall(t, s, "env", map[string]any{"name": "HOSTNAME"})
		open[pod] = append(open[pod], s)
		mustCall(t, s, "redefine", map[string]any{"name": "mine", "description": pod}) // a tool of this session alone
	}
	for range 10 {
		for pod, sessions := range open {
			for i, s := range sessions {
				text := fmt.Sprint(pod, i)
				if got := mustCall(t, s, "mine", map[string]any{"text": text}); got != text {
					t.Fatalf("session %d of %s: %q", i, pod, got)
				}
				if got := mustCall(t, s, "env", map[string]any{"name": "HOSTNAME"}); got != pod {
					t.Fatalf("session %d of %s is served by %s", i, pod, got)
				}
			}
		}
	}

	victim := pods[0].Name
	kubectl(t, "", "delete", "pod", "-n", w.namespace, victim, "--grace-period=0", "--force")
	w.replaced(t, victim, 2)
	for i, s := range open[pods[1].Name] {
		if got := mustCall(t, s, "mine", map[string]any{"text": "on"}); got != "on" {
			t.Errorf("session %d of the pod that stays: %q", i, got)
		}
	}
	for i, s := range open[victim] {
		if status := statusOf(t, url, s.ID()); status != http.StatusNotFound {
			t.Errorf("session %d of the pod that is gone: %d, want 404", i, status)
		}
		if got, err := call(t.Context(), s, "mine", map[string]any{"text": "x"}); err == nil {
			t.Errorf("session %d of the pod that is gone: %q", i, got)
		}
		again, err := dialWith(t.Context(), fresh(), url, sessionEra)
		if err != nil {
			t.Fatalf("a new session: %v", err)
		}
		if got := mustCall(t, again, "echo", map[string]any{"text": "x"}); got != "x" {
			t.Errorf("in a new session: %q", got)
		}
		again.Close()
	}
	t.Logf("%d of %d sessions were on the pod that was killed", len(open[victim]), len(open[victim])+len(open[pods[1].Name]))
}

// statusOf is that of the response to a request of a session.
func statusOf(t *testing.T, url, session string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Session-Id": session, "Mcp-Protocol-Version": sessionEra,
	} {
		r.Header.Set(name, value)
	}
	response, err := fresh().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}

// Clients of the stateless era notice nothing: neither of a pod that is killed, nor of all
// being replaced.
func TestReplicas_Stateless(t *testing.T) {
	t.Parallel()
	w, url := replicated(t)
	calls := newCaller(t, fresh(), url)
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

// caller calls a tool all the time.
type caller struct {
	n      atomic.Int64
	cancel context.CancelFunc
	work   sync.WaitGroup
	mu     sync.Mutex
	errs   []error
}

func newCaller(t *testing.T, h *http.Client, url string) *caller {
	t.Helper()
	s, err := dialWith(t.Context(), h, url, stateless)
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
