package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// rounds is the number of turns that ours and the baseline take at a rate. turns is that
// number at a latency, which is short and therefore more easily disturbed.
const (
	rounds = 6
	turns  = 24
)

// calls measures what a gateway adds to a call over HTTP, in each corner: a
// client with sessions or without, and a server with or without. The baseline is
// a reverse proxy before the same server, whose era its client speaks.
func (b *bench) calls(ctx context.Context) ([]result, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	type side struct {
		name, flag string
		open       era
	}
	sides := []side{{"session", "-json", open}, {"stateless", "-stateless", openModern}}
	var results []result
	for _, server := range sides {
		address, end, err := daemon(ctx, b.probe, server.flag, "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer end()
		proxy, endProxy, err := daemon(ctx, self, "reverse-proxy", "http://"+address)
		if err != nil {
			return nil, err
		}
		defer endProxy()
		ours, err := b.thv(ctx, "run", "http://"+address+"/mcp", "--name", "calls")
		if err != nil {
			return nil, err
		}
		bare := way{url: "http://" + proxy + "/mcp", open: server.open}
		for _, client := range sides {
			name := client.name + " client, " + server.name + " server"
			p50, rate, err := b.beside(ctx, way{url: ours, open: client.open}, bare)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			p50.Name, rate.Name = "call, 1 client, p50: "+name, "calls per second, 32 clients: "+name
			if client.name == server.name {
				p50, rate = atMost(p50, 1.2, "at most 1.2x of ReverseProxy"), atLeast(rate, 0.9, "at least 0.9x of ReverseProxy")
			} else {
				p50, rate = atMost(p50, 2, "at most 2x of ReverseProxy"), atLeast(rate, 0.5, "at least 0.5x of ReverseProxy")
			}
			results = append(results, p50, rate)
		}
		if _, err := b.thv(ctx, "rm", "calls"); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// way is a URL, the era that the client speaks there, and the access token that it sends, if
// it has one.
type way struct {
	url   string
	open  era
	token string
}

// client is an HTTP client for w.
func (w way) client() *http.Client {
	client := newHTTPClient()
	if w.token != "" {
		client.Transport = bearer{"Bearer " + w.token, client.Transport}
	}
	return client
}

// bearer adds a token to the requests of this program, which are used once.
type bearer struct {
	value string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", b.value)
	return b.next.RoundTrip(r)
}

// beside measures the median time of a call and the rate of calls, of ours and of
// the baseline by turns.
func (b *bench) beside(ctx context.Context, ours, bare way) (p50, rate result, err error) {
	var times, rates [2][]float64
	for range turns {
		for i, w := range []way{ours, bare} {
			v, err := b.latency(ctx, w)
			if err != nil {
				return p50, rate, err
			}
			times[i] = append(times[i], v)
		}
	}
	for range rounds {
		for i, w := range []way{ours, bare} {
			v, err := b.throughput(ctx, w, 32)
			if err != nil {
				return p50, rate, err
			}
			rates[i] = append(rates[i], v)
		}
	}
	return ratio("", "µs", median(times[0]), median(times[1])), ratio("", "/s", median(rates[0]), median(rates[1])), nil
}

// latency is the median time of a call of one client, in microseconds.
func (b *bench) latency(ctx context.Context, w way) (float64, error) {
	s, err := w.open(ctx, w.client(), w.url)
	if err != nil {
		return 0, err
	}
	defer s.close(ctx)
	times := make([]time.Duration, 0, 250)
	for i := range b.times(250) + 25 {
		start := time.Now()
		if err := s.call(ctx); err != nil {
			return 0, err
		}
		if i >= 25 { // warm
			times = append(times, time.Since(start))
		}
	}
	slices.Sort(times)
	return microseconds(times[len(times)/2]), nil
}

// throughput is the rate of calls of several clients at once, per second.
func (b *bench) throughput(ctx context.Context, w way, clients int) (float64, error) {
	client := w.client()
	var done atomic.Int64
	var mu sync.Mutex
	var first error
	var wg sync.WaitGroup
	start := time.Now()
	until := start.Add(2 * time.Second / time.Duration(b.scale))
	for range clients {
		wg.Go(func() {
			err := func() error {
				s, err := w.open(ctx, client, w.url)
				if err != nil {
					return err
				}
				for time.Now().Before(until) {
					if err := s.call(ctx); err != nil {
						return err
					}
					done.Add(1)
				}
				return s.close(ctx)
			}()
			mu.Lock()
			defer mu.Unlock()
			if first == nil {
				first = err
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(start).Seconds(), first
}
