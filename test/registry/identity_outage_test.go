//go:build integration

package registry

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/test/idp"
	"github.com/toolhaven/toolhaven/test/tokens"
)

// bystander sends new good tokens of a healthy provider, and requests that need
// none, all the while.
type bystander struct {
	end  chan struct{}
	done sync.WaitGroup
	mu   sync.Mutex
	sent int
	late int // took longer than unnoticed
	slow time.Duration
	errs []string
}

// unnoticed is what a bystander may wait: less than the shortest bound on waiting for
// a provider, which is 5 s.
const unnoticed = 4500 * time.Millisecond

func besides(t *testing.T, c *caller, token func() string) *bystander {
	t.Helper()
	b := &bystander{end: make(chan struct{})}
	b.done.Go(func() {
		for {
			select {
			case <-b.end:
				return
			case <-time.After(20 * time.Millisecond):
			}
			b.note("a token of the healthy provider", func() int { return c.with(t, token()).status })
			b.note("metadata", func() int { return c.request(t, "GET", "/.well-known/oauth-protected-resource", nil, nil).status })
			b.note("readiness", func() int {
				resp, err := http.Get(c.internal + "/readiness")
				if err != nil {
					return 0
				}
				resp.Body.Close()
				return resp.StatusCode
			})
		}
	})
	return b
}

func (b *bystander) note(what string, send func() int) {
	began := time.Now()
	status := send()
	took := time.Since(began)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent++
	b.slow = max(b.slow, took)
	if took > unnoticed {
		b.late++
	}
	if status != http.StatusOK {
		b.errs = append(b.errs, fmt.Sprintf("%s: %d after %s", what, status, took))
	}
}

// stop ends it and reports what it noticed.
func (b *bystander) stop(t *testing.T) {
	t.Helper()
	close(b.end)
	b.done.Wait()
	// A busy machine may make one late; if they were waiting for what is beside them,
	// many would be.
	if len(b.errs) > 0 || b.sent < 10 || b.late > 2 {
		t.Errorf("beside it, %d requests, %d of them late and %d of them not unharmed: %.2000s", b.sent, b.late, len(b.errs), strings.Join(b.errs, "\n"))
	}
	t.Logf("%d requests beside it, the slowest in %s", b.sent, b.slow)
}

// A provider whose process is stopped accepts connections and says nothing. Many
// of its tokens come at once.
func TestProvider_HangingProviderFlood(t *testing.T) {
	hung := idp.Start(t, idp.Options{Opaque: []string{resource}})
	healthy := idp.Start(t, idp.Options{Opaque: []string{resource}})
	config := oauthConfig(t, "", hung, healthy)
	parts := strings.SplitAfter(config, "      - name: idp1")
	parts[0] = strings.TrimSuffix(parts[0], "      - name: idp1")
	config = withIntrospection(t, parts[0], hung) + "      - name: idp1" + withIntrospection(t, parts[1], healthy)
	c := calls(t, serve(t, config))
	known := tokens.Mint(t, hung.SigningKey(), claims(hung.Issuer, nil))
	accepted(t, c.with(t, known))
	opaque := hung.Token(t, resource)
	hung.Suspend(t)

	i := 0
	beside := besides(t, c, func() string {
		if i++; i%10 == 0 { // a new opaque one now and then: it is shown to the hanging provider first
			return healthy.Token(t, resource)
		}
		return tokens.Mint(t, healthy.SigningKey(), claims(healthy.Issuer, nil))
	})
	stranger := tokens.NewKey(t, "nobody's")
	var flood sync.WaitGroup
	for n := range 150 {
		flood.Go(func() {
			token := fmt.Sprintf("opaque-token-of-a-flood-%06d", n)
			if n%2 == 0 {
				stranger := stranger
				stranger.KeyID = fmt.Sprint("nobody's ", n)
				token = tokens.Mint(t, stranger, claims(hung.Issuer, nil))
			}
			began := time.Now()
			refused(t, c.with(t, token), invalid)
			if took := time.Since(began); took > time.Minute {
				t.Errorf("one of the flood waited %s", took)
			}
		})
	}
	// Its own tokens, by keys that are known, pass meanwhile.
	var late []time.Duration
	for range 5 {
		token := tokens.Mint(t, hung.SigningKey(), claims(hung.Issuer, nil))
		began := time.Now()
		accepted(t, c.with(t, token))
		if took := time.Since(began); took > unnoticed {
			late = append(late, took)
		}
	}
	if len(late) > 2 { // as for a bystander
		t.Errorf("tokens by a known key took %s", late)
	}
	flood.Wait()
	beside.stop(t)
	hung.Resume(t)
	eventually(t, "it is asked again", func() error {
		if a := c.with(t, opaque); a.status != http.StatusOK {
			return errors.New(a.String())
		}
		return nil
	})
}

// Keys are rotated and withdrawn, the provider goes and returns, while everything
// runs.
func TestProvider_KeyRotationAndOutage(t *testing.T) {
	t.Parallel()
	p := idp.Start(t, idp.Options{})
	c := calls(t, serve(t, oauthConfig(t, "", p)))
	token := func() string { return p.Token(t, resource, "mcp-registry:read") }
	soon := func(what, token string, want int) {
		t.Helper()
		eventually(t, what, func() error {
			if a := c.with(t, token); a.status != want {
				return errors.New(a.String())
			}
			return nil
		})
	}
	first := token()
	accepted(t, c.with(t, first))
	p.RotateKeys(t, true)
	second := token()
	accepted(t, c.with(t, second)) // at once: an unknown key id is fetched
	accepted(t, c.with(t, first))
	p.RotateKeys(t, false)
	third := token()
	soon("the third key is found", third, http.StatusOK)
	for name, old := range map[string]string{"first": first, "second": second} {
		if a := c.with(t, old); a.status != http.StatusUnauthorized {
			t.Errorf("a token of the %s key, which is withdrawn: %s", name, a)
		}
	}

	p.Stop()
	since := c.mark()
	accepted(t, c.with(t, third))
	accepted(t, c.with(t, tokens.Mint(t, p.SigningKey(), claims(p.Issuer, nil)))) // a new one, by a known key
	p.RotateKeys(t, true)                                                         // the server cannot detect it meanwhile
	fourth := tokens.Mint(t, p.SigningKey(), claims(p.Issuer, nil))
	// Unknown key ids cause a fetch at a bounded rate: the first refusals may not.
	eventually(t, "the log has the failing URL", func() error {
		refused(t, c.with(t, fourth), invalid)
		if said := c.log.String()[since:]; !strings.Contains(said, p.Issuer+"/") || !strings.Contains(said, "connection refused") {
			return errors.New(said)
		}
		return nil
	})
	p.Restart(t)
	soon("a token of after the outage", fourth, http.StatusOK)
	accepted(t, c.with(t, third))
}

// The keys are found without any request: the first caller does not wait.
func TestProvider_DownAtStart(t *testing.T) {
	t.Parallel()
	p := idp.Start(t, idp.Options{})
	p.Stop()
	c := calls(t, serve(t, oauthConfig(t, "", p)))
	c.said(t, 0, "cannot fetch keys", p.Issuer+discoveryPath)
	p.Restart(t)
	eventually(t, "the keys are fetched", func() error {
		resp, err := http.Get(c.internal + "/metrics")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		if !strings.Contains(string(text), `thv_registry_key_fetches_total{outcome="fetched",provider="idp0"} 1`) {
			return errors.New("no fetch has succeeded")
		}
		return nil
	})
	p.Stop()
	accepted(t, c.with(t, tokens.Mint(t, p.SigningKey(), claims(p.Issuer, nil))))
}
