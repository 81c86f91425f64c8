package main

import (
	"context"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// rounds is how often ours and the baseline take turns at a rate; turns is how
// often at a latency, which is short and so the more easily disturbed.
const (
	rounds = 6
	turns  = 24
)

// calls measures what a gateway adds to a call over HTTP.
func (b *bench) calls(ctx context.Context) ([]result, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	server, end, err := daemon(ctx, b.probe, "-json", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer end()
	proxy, endProxy, err := daemon(ctx, self, "reverse-proxy", "http://"+server)
	if err != nil {
		return nil, err
	}
	defer endProxy()
	ours, err := b.thv(ctx, "run", "http://"+server+"/mcp", "--name", "calls")
	if err != nil {
		return nil, err
	}
	urls := [2]string{ours, "http://" + proxy + "/mcp"}

	var p50, rate [2][]float64
	for range turns {
		for i, url := range urls {
			v, err := b.latency(ctx, url)
			if err != nil {
				return nil, err
			}
			p50[i] = append(p50[i], v)
		}
	}
	for range rounds {
		for i, url := range urls {
			v, err := b.throughput(ctx, url, 32)
			if err != nil {
				return nil, err
			}
			rate[i] = append(rate[i], v)
		}
	}
	if _, err := b.thv(ctx, "rm", "calls"); err != nil {
		return nil, err
	}
	return []result{
		atMost(ratio("call, 1 client, p50", "µs", median(p50[0]), median(p50[1])), 1.3, "at most 1.3x of ReverseProxy"),
		atLeast(ratio("calls per second, 32 clients", "/s", median(rate[0]), median(rate[1])), 0.75, "at least 0.75x of ReverseProxy"),
	}, nil
}

// latency is the median time of a call of one client, in microseconds.
func (b *bench) latency(ctx context.Context, url string) (float64, error) {
	s, err := open(ctx, newHTTPClient(), url)
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
func (b *bench) throughput(ctx context.Context, url string, clients int) (float64, error) {
	client := newHTTPClient()
	var done atomic.Int64
	var mu sync.Mutex
	var first error
	var wg sync.WaitGroup
	start := time.Now()
	until := start.Add(2 * time.Second / time.Duration(b.scale))
	for range clients {
		wg.Go(func() {
			err := func() error {
				s, err := open(ctx, client, url)
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
