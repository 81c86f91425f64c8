//go:build integration

package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/test/idp"
	"github.com/toolhaven/toolhaven/test/postgres"
)

// PostgreSQL and the identity provider die and come back while two replicas are
// read and written. No answer is wrong: what was acknowledged is there
// afterwards, what is listed was published, and no request without a token is allowed.
func TestOutagesUnderLoad(t *testing.T) {
	db := postgres.Start(t)
	p := idp.Start(t, idp.Options{TokenLifetime: time.Hour}) // longer than the test
	config := oauthConfig(t, "", p) + fmt.Sprintf("database:\n  postgres: {url: %q}\n", db.Database(t))
	replicas := []*instance{serve(t, config), serve(t, config)}
	token := p.Token(t, resource, "mcp-registry:read", "mcp-registry:write")
	client := &http.Client{Timeout: patience}
	send := func(ctx context.Context, s *instance, method, path, token string, body any) (int, []byte, error) {
		content, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		req, err := http.NewRequestWithContext(ctx, method, s.base+path, bytes.NewReader(content))
		if err != nil {
			return 0, nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := client.Do(req)
		if err != nil {
			return 0, nil, err
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		return resp.StatusCode, answer, err
	}

	ctx, end := context.WithCancel(t.Context())
	defer end()
	var acknowledged sync.Map // name: true
	var published, unavailable, reads atomic.Int64
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				name := fmt.Sprintf("io.github.example/w%d-%d", w, i)
				status, body, err := send(context.WithoutCancel(ctx), replicas[(w+i)%2], "POST", publish, token, server(name, "1.0.0"))
				switch {
				case err != nil:
					t.Errorf("publish: %v", err)
					return
				case status == http.StatusOK:
					acknowledged.Store(name, true)
					published.Add(1)
				case status == http.StatusServiceUnavailable:
					unavailable.Add(1)
					time.Sleep(20 * time.Millisecond)
				default:
					t.Errorf("publish answers %d %s", status, body)
					return
				}
			}
		})
	}
	for r := range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				// With a token, without, and with a bad one.
				for i, tok := range []string{token, "", token + "x"} {
					status, body, err := send(context.WithoutCancel(ctx), replicas[r%2], "GET", servers+"?limit=100", tok, nil)
					good := status == http.StatusUnauthorized
					if i == 0 {
						good = status == http.StatusServiceUnavailable || status == http.StatusOK && json.Valid(body)
					}
					if err != nil || !good {
						t.Errorf("list with token %d answers %d %s %v", i, status, body, err)
						return
					}
					reads.Add(1)
				}
			}
		})
	}
	progress := func(what string, least int64) {
		t.Helper()
		from := published.Load()
		eventually(t, what, func() error {
			if n := published.Load() - from; n < least {
				return fmt.Errorf("%d servers were published", n)
			}
			return nil
		})
	}
	for range 3 {
		progress("publishing goes on", 20)
		before := unavailable.Load()
		db.Kill(t)
		eventually(t, "the outage shows", func() error {
			if unavailable.Load() == before {
				return errors.New("nobody was told")
			}
			return nil
		})
		db.Restart(t)
		progress("publishing goes on after the database came back", 20)
		p.Stop()
		progress("known keys go on without the provider", 20)
		p.Restart(t)
	}
	end()
	wg.Wait()
	if t.Failed() {
		return
	}
	listed := map[string]bool{}
	s := replicas[0].as(t, token)
	for cursor := ""; ; {
		l := list(t, s, "?limit=100&cursor="+cursor)
		for _, sv := range l.Servers {
			listed[sv.Server.Name] = true
		}
		if cursor = l.Metadata.NextCursor; cursor == "" {
			break
		}
	}
	lost := 0
	acknowledged.Range(func(name, _ any) bool {
		if !listed[name.(string)] {
			lost++
		}
		return true
	})
	if lost > 0 {
		t.Errorf("%d of %d acknowledged servers are lost", lost, published.Load())
	}
	for name := range listed {
		if !strings.HasPrefix(name, "io.github.example/w") {
			t.Errorf("%s was never published", name)
		}
	}
	t.Logf("%d published, %d told to come again, %d lists", published.Load(), unavailable.Load(), reads.Load())
}
