//go:build integration

package vault

import (
	"context"
	"net"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/authserver/storage"
	"github.com/toolhaven/toolhaven/internal/authserver/storage/redis"
	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/test/local"
)

// Three processes share a Redis that is killed while the token is refreshed, with 200 calls
// waiting: one refresh, whose answer is saved when Redis is there again.
func TestRedis(t *testing.T) {
	port, err := local.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	start := func() *exec.Cmd {
		cmd := exec.Command("redis-server", "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir,
			"--requirepass", "password", "--save", "", "--appendonly", "yes", "--appendfsync", "always")
		if err := cmd.Start(); err != nil {
			t.Errorf("%v; test/setup/redis.sh installs it", err)
			return cmd
		}
		t.Cleanup(func() { end(cmd) })
		return cmd
	}
	server := start()
	ref := externalauth.SecretRef{Name: "redis", Key: "password"}
	open := func() storage.Store {
		s, err := redis.New(redis.Config{
			Redis: externalauth.Redis{
				Addr:          net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
				ACLUserConfig: &externalauth.ACLUser{PasswordSecretRef: &ref},
			},
			Secret: func(externalauth.SecretRef) (string, error) { return "password", nil },
			Prefix: "thv:",
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	w := newWorld(t)
	var processes []*Vault
	for range 3 {
		v := w.process()
		v.store = open()
		processes = append(processes, v)
	}
	ready(t, processes[0].store)

	tokens := w.provider.issue()
	tokens.Expiry = time.Now() // calls need a refresh
	if err := processes[0].Save(t.Context(), alice, tokens, time.Hour); err != nil {
		t.Fatal(err)
	}
	w.provider.set(func(p *provider) {
		p.after = func(int) {
			end(server)
			server = start()
		}
	})
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() { tokenSoon(t, processes[i%3], "access-2") })
	}
	wg.Wait()
	requests(t, w, 1)
}

// tokenSoon waits for the token: a call fails while Redis is away.
func tokenSoon(t *testing.T, v *Vault, want string) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		got, _, err := v.Token(ctx, alice)
		if err == nil {
			if got != secret+want {
				t.Errorf("got %q", got)
			}
			return
		}
		if !wait(ctx, 50*time.Millisecond) {
			t.Error(err)
			return
		}
	}
}

func ready(t *testing.T, s storage.Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for err := s.Ping(ctx); err != nil; err = s.Ping(ctx) {
		if !wait(ctx, 20*time.Millisecond) {
			t.Fatal(err)
		}
	}
}

func end(cmd *exec.Cmd) {
	if cmd.Process != nil {
		cmd.Process.Kill()
		cmd.Wait()
	}
}
