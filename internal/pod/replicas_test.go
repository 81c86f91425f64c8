package pod

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/seal"
)

// roundRobin passes each request to the next of the pods, as a Service does, and leaves those
// out that do not accept connections.
func roundRobin(t *testing.T, pods []*process) string {
	t.Helper()
	var next, begun atomic.Int64
	var targets []*url.URL
	for _, p := range pods {
		u, err := url.Parse(p.url)
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, u)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		Transport:     &http.Transport{},
		Rewrite: func(r *httputil.ProxyRequest) {
			turn := &next
			if r.In.Header.Get(mcp.HeaderSessionID) == "" {
				turn = &begun // sessions are spread evenly
			}
			for range targets {
				target := targets[turn.Add(1)%int64(len(targets))]
				if conn, err := net.Dial("tcp", target.Host); err == nil {
					conn.Close()
					r.SetURL(target)
					return
				}
			}
		},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0),
	}
	server := &http.Server{Handler: proxy, ReadHeaderTimeout: patience}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return "http://" + l.Addr().String()
}

// startReplicas starts three pods with one key, and a Service. kill ends a pod at once.
func startReplicas(t *testing.T) (service string, kill func(i int)) {
	t.Helper()
	key := writeFile(t, filepath.Join(t.TempDir(), "key"), string(seal.NewKey()))
	var pods []*process
	var stops []func()
	for i := range 3 {
		ip := fmt.Sprintf("127.0.0.%d", i+1)
		_, port, err := net.SplitHostPort(freeAddress(t, ip))
		if err != nil {
			t.Fatal(err)
		}
		cfg := Config{GuestSocket: socketPath(t), KeyFile: key, PodIP: ip, Listen: freeAddress(t, ip)}
		fmt.Sscan(port, &cfg.PeerPort)
		stops = append(stops, startGuest(t, cfg.GuestSocket))
		pods = append(pods, startPod(t, stdioSpec(), cfg))
	}
	for _, p := range pods {
		p.awaitReady(t, http.StatusOK)
	}
	return roundRobin(t, pods), func(i int) {
		_ = pods[i].cmd.Process.Kill()
		<-pods[i].ended
		stops[i]() // the containers of a pod end together
	}
}

func TestReplicas_Sessions(t *testing.T) {
	t.Parallel()
	service, kill := startReplicas(t)
	var progress atomic.Int64
	var sessions []*sdk.ClientSession
	for range 3 {
		sessions = append(sessions, connect(t, service, sessionEra, &sdk.ClientOptions{
			ProgressNotificationHandler: func(context.Context, *sdk.ProgressNotificationClientRequest) { progress.Add(1) },
		}))
	}
	for n := 1; n <= 7; n++ {
		for i, s := range sessions {
			if got := mustCall(t, s, "count", nil); got != fmt.Sprint(n) {
				t.Fatalf("session %d: count %s, want %d", i, got, n)
			}
		}
	}
	// A stream passes while the call runs.
	for i, s := range sessions {
		before, file := progress.Load(), filepath.Join(t.TempDir(), "call")
		go func() {
			eventually(t, "the notification arrives while the call runs", func() bool { return progress.Load() > before })
			os.Remove(file)
		}()
		if got := mustCall(t, s, "slow", map[string]any{"file": file}); got != "done" {
			t.Errorf("session %d: %s", i, got)
		}
	}
	kill(1)
	var lost int
	for i, s := range sessions {
		got, err := call(t.Context(), s, "count", nil)
		if err != nil {
			lost++
			if got := mustCall(t, connect(t, service, sessionEra, nil), "count", nil); got != "1" {
				t.Errorf("the first count of session %d's successor is %s", i, got)
			}
		} else if got != "8" {
			t.Errorf("session %d of a pod that lives: count %s, want 8", i, got)
		}
	}
	if lost != 1 {
		t.Errorf("%d sessions were lost with one of three pods", lost)
	}
}

// The stateless era needs nothing of a pod but that it is there.
func TestReplicas_Stateless(t *testing.T) {
	t.Parallel()
	service, kill := startReplicas(t)
	client := connect(t, service, string(mcp.LatestStateless), nil)
	for n := range 12 {
		if n == 6 {
			kill(1)
		}
		mustCall(t, client, "count", nil)
	}
}
