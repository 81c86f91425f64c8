package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// caller sends requests over kept connections, with a token if it has one.
type caller struct {
	client *http.Client
	token  string
}

// callers is the most requests of one load that may be pending.
const callers = 64

func newCaller(token string) *caller {
	return &caller{client: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 2 * callers}}, token: token}
}

func (c *caller) get(ctx context.Context, target string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.500s", resp.Status, body)
	}
	return body, err
}

// stream is one kind of request, sent at a fixed rate.
type stream struct {
	rate int // per second
	at   func(int) string
	// holds is a text that every correct response contains.
	holds string
}

// quantiles are of the time from when a request was due to its response, in milliseconds.
// They include the time that a request waits because others are slow.
type quantiles struct{ p50, p99 float64 }

// load sends requests for some seconds, whether or not responses arrive.
func (s stream) load(ctx context.Context, c *caller, seconds float64) (quantiles, error) {
	n := max(1, int(float64(s.rate)*seconds))
	times := make([]float64, n)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	due := make(chan int, n)
	begin := time.Now().Add(50 * time.Millisecond)
	moment := func(i int) time.Time { return begin.Add(time.Duration(i) * time.Second / time.Duration(s.rate)) }
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for i := range due {
				body, err := c.get(ctx, s.at(i))
				if err == nil && !bytes.Contains(body, []byte(s.holds)) {
					err = fmt.Errorf("%s: %s is not in the answer: %.500s", s.at(i), s.holds, body)
				}
				if err != nil {
					cancel(err)
				}
				times[i] = milliseconds(time.Since(moment(i)))
			}
		})
	}
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		time.Sleep(time.Until(moment(i)))
		due <- i
	}
	close(due)
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return quantiles{}, err
	}
	slices.Sort(times)
	return quantiles{p50: times[n/2], p99: times[(n-1)*99/100]}, nil
}

// loadTurns is the number of turns of each stream.
const loadTurns = 5

// byTurns loads each stream for some seconds, then each again, so that a noisy machine
// disturbs all alike, and returns the medians of each.
func byTurns(ctx context.Context, c *caller, seconds float64, streams ...stream) ([]quantiles, error) {
	p50, p99 := make([][]float64, len(streams)), make([][]float64, len(streams))
	for round := range loadTurns + 1 {
		for i, s := range streams {
			if round == 0 { // opens the connections
				if _, err := s.load(ctx, c, 0.3); err != nil {
					return nil, err
				}
				continue
			}
			q, err := s.load(ctx, c, seconds)
			if err != nil {
				return nil, err
			}
			p50[i], p99[i] = append(p50[i], q.p50), append(p99[i], q.p99)
		}
	}
	out := make([]quantiles, len(streams))
	for i := range streams {
		out[i] = quantiles{p50: median(p50[i]), p99: median(p99[i])}
	}
	return out, nil
}
