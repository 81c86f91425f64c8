//go:build integration

package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry/store"
	"github.com/toolhaven/toolhaven/internal/registry/store/sqlstore"
	server "github.com/toolhaven/toolhaven/test/postgres"
)

func version(version string) store.Version {
	return store.Version{
		Head:     store.Head{Source: "default", Name: "a", Version: version, Status: "active"},
		Document: json.RawMessage(`{"v": "` + version + `"}`),
	}
}

// Writers that never stop, and a server that crashes under them again and again:
// what was acknowledged is there, whoever follows the changes misses nothing,
// and the stores go on as soon as the server does.
func TestOutage_Crash(t *testing.T) {
	pg := server.Start(t)
	url := pg.Database(t)
	stores := []*Store{openAt(t, url), openAt(t, url)}
	ctx, stop := context.WithCancel(t.Context())
	var (
		running      sync.WaitGroup // writers
		following    sync.WaitGroup
		acknowledged sync.Map
		written      atomic.Int64
		refused      atomic.Int64
	)
	const writers = 6
	for w := range writers {
		running.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				v := version(fmt.Sprintf("%d.%d", w, n))
				for ctx.Err() == nil {
					_, err := stores[w%2].Insert(t.Context(), v)
					if err == nil || errors.Is(err, store.ErrExists) { // the answer may have been lost
						acknowledged.Store(v.Version, true)
						written.Add(1)
						break
					}
					if !errors.Is(err, store.ErrUnavailable) {
						t.Errorf("an insertion ended with %v", err)
					}
					refused.Add(1)
					wait(ctx, 20*time.Millisecond)
				}
			}
		})
	}
	known := map[string]bool{}
	ended := make(chan struct{})
	following.Go(func() {
		var at store.Revision
		for last := false; ; {
			select {
			case <-ended:
				last = true
			default:
			}
			next, err := stores[0].Changes(t.Context(), "default", at.Number, func(h store.Head) error {
				known[h.Version] = true
				return nil
			})
			switch {
			case err == nil:
				if next.Number < at.Number || at.Epoch != "" && at.Epoch != next.Epoch {
					t.Errorf("revision %+v follows %+v", next, at)
				}
				at = next
				if last {
					return
				}
			case !errors.Is(err, store.ErrUnavailable):
				t.Errorf("reading ended with %v", err)
				return
			}
			wait(t.Context(), 5*time.Millisecond)
		}
	})
	for range 3 {
		until(t, &written, written.Load()+200)
		pg.Kill(t)
		until(t, &refused, refused.Load()+1)
		pg.Restart(t)
	}
	until(t, &written, written.Load()+200)
	stop()
	running.Wait()
	close(ended)
	following.Wait()

	there := map[string]bool{}
	revision, err := stores[1].Changes(t.Context(), "default", 0, func(h store.Head) error {
		there[h.Version] = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	acknowledged.Range(func(v, _ any) bool {
		if !there[v.(string)] {
			t.Errorf("version %s was acknowledged and is lost", v)
		}
		return true
	})
	for v := range there {
		if !known[v] {
			t.Errorf("who followed the changes missed version %s", v)
		}
	}
	if len(there) != len(known) || revision.Number != int64(len(there)) {
		t.Errorf("%d versions at revision %d, and %d were seen", len(there), revision.Number, len(known))
	}
	t.Logf("%d insertions acknowledged, %d refused", written.Load(), refused.Load())
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func until(t *testing.T, count *atomic.Int64, n int64) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); count.Load() < n; {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d within a minute", count.Load(), n)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// An orderly restart breaks every connection of the pool; callers do not notice.
func TestOutage_Restart(t *testing.T) {
	pg := server.Start(t)
	s := openAt(t, pg.Database(t))
	for round := range 3 {
		var wait sync.WaitGroup
		for i := range 2 * defaultConnections {
			wait.Go(func() {
				if _, err := s.Insert(t.Context(), version(fmt.Sprint(round, "-", i))); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		if round == 1 {
			pg.Exec(t, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'thv-registry'")
		} else {
			pg.Restart(t)
		}
		if _, err := s.Revisions(t.Context(), []string{"default"}); err != nil {
			t.Errorf("the first call after round %d: %v", round, err)
		}
	}
	pg.Stop(t)
	began := time.Now()
	_, err := s.Insert(t.Context(), version("down"))
	if !errors.Is(err, store.ErrUnavailable) || time.Since(began) > 30*time.Second {
		t.Errorf("while it is down, after %s: %v", time.Since(began), err)
	}
	pg.Restart(t)
	if _, err := s.Insert(t.Context(), version("down")); err != nil {
		t.Errorf("after it was down: %v", err)
	}
}

// A network that swallows everything: the call ends within its bound.
func TestOutage_SilentNetwork(t *testing.T) {
	pg := server.Start(t)
	name := pg.Database(t)
	network := newNetwork(t, fmt.Sprintf("127.0.0.1:%d", pg.Port))
	url := strings.Replace(name, fmt.Sprint(":", pg.Port), ":"+network.port(), 1) + "&connect_timeout=1"
	config, err := parse(Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	db := connect(config, Options{})
	if err := await(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	limits := sqlstore.Limits{Short: 3 * time.Second, Long: 5 * time.Second}
	s := &Store{sqlstore.New(db, db, dialect(), limits)}
	defer s.Close()
	if _, err := s.Insert(t.Context(), version("before")); err != nil {
		t.Fatal(err)
	}
	network.silence(true)
	for what, call := range map[string]func(ctx context.Context) error{
		"Insert":    func(ctx context.Context) error { _, err := s.Insert(ctx, version("during")); return err },
		"Revisions": func(ctx context.Context) error { _, err := s.Revisions(ctx, []string{"default"}); return err },
		"Ping":      s.Ping,
	} {
		began := time.Now()
		err := call(t.Context())
		if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s ended with %v", what, err)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%s took %s", what, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s with a deadline ended with %v", what, err)
		}
		cancel()
	}
	network.silence(false)
	// A busy machine may need longer than the second that a connection has here.
	for deadline := time.Now().Add(time.Minute); ; {
		_, err := s.Insert(t.Context(), version("after"))
		if err == nil || errors.Is(err, store.ErrExists) {
			break
		}
		if !errors.Is(err, store.ErrUnavailable) || time.Now().After(deadline) {
			t.Fatalf("after the silence: %v", err)
		}
	}
}

// network forwards connections to the server, or drops their data.
type network struct {
	listener net.Listener
	mu       sync.Mutex
	silent   bool
}

func newNetwork(t *testing.T, to string) *network {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &network{listener: l}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				continue
			}
			go n.carry(upstream, client)
			go n.carry(client, upstream)
		}
	}()
	return n
}

func (n *network) carry(to, from net.Conn) {
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		k, err := from.Read(buffer)
		n.mu.Lock()
		silent := n.silent
		n.mu.Unlock()
		if !silent && k > 0 {
			if _, err := to.Write(buffer[:k]); err != nil {
				return
			}
		}
		if err != nil {
			_, _ = io.Copy(io.Discard, from)
			return
		}
	}
}

func (n *network) silence(silent bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.silent = silent
}

func (n *network) port() string {
	_, port, _ := net.SplitHostPort(n.listener.Addr().String())
	return port
}

// A server that is read-only, as after a failover.
func TestOutage_ReadOnly(t *testing.T) {
	pg := server.Start(t)
	s := openAt(t, pg.Database(t))
	if _, err := s.Insert(t.Context(), version("before")); err != nil {
		t.Fatal(err)
	}
	pg.Exec(t, "postgres", "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
	for deadline := time.Now().Add(time.Minute); ; {
		_, err := s.Insert(t.Context(), version(fmt.Sprint(time.Now().UnixNano())))
		if errors.Is(err, store.ErrUnavailable) {
			break
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("it ends with %v", err)
		}
	}
	if _, err := s.Revisions(t.Context(), []string{"default"}); err != nil {
		t.Errorf("it cannot be read either: %v", err)
	}
}
