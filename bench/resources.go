package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// memory measures the resident memory of a stdio workload's gateway: idle, and after ten
// thousand sessions were opened and closed.
func (b *bench) memory(ctx context.Context) ([]result, error) {
	url, err := b.thv(ctx, "run", "go://./test/servers/probe", "--name", "memory")
	if err != nil {
		return nil, err
	}
	pid, err := b.gatewayPID(ctx, "memory")
	if err != nil {
		return nil, err
	}
	idle, err := settled(ctx, pid)
	if err != nil {
		return nil, err
	}
	if err := b.cycles(ctx, url, b.times(1000)); err != nil {
		return nil, err
	}
	first, err := settled(ctx, pid)
	if err != nil {
		return nil, err
	}
	if err := b.cycles(ctx, url, b.times(9000)); err != nil {
		return nil, err
	}
	last, err := settled(ctx, pid)
	if err != nil {
		return nil, err
	}
	if _, err := b.thv(ctx, "rm", "memory"); err != nil {
		return nil, err
	}
	return []result{
		atMost(itself("gateway's memory, idle", "MiB", idle), 25, "at most 25 MiB"),
		atMost(difference("gateway's memory after 10,000 sessions", "MiB", last, first), 10, "at most 10 MiB over the first 1,000"),
	}, nil
}

// sessions measures the cost of idle sessions at an HTTP server, and the memory after very
// many were opened and closed.
func (b *bench) sessions(ctx context.Context) ([]result, error) {
	address, end, err := daemon(ctx, b.probe, "-json", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer end()
	url, err := b.thv(ctx, "run", "http://"+address+"/mcp", "--name", "sessions")
	if err != nil {
		return nil, err
	}
	pid, err := b.gatewayPID(ctx, "sessions")
	if err != nil {
		return nil, err
	}
	if err := b.cycles(ctx, url, b.times(6000)); err != nil {
		return nil, err
	}
	first, err := settled(ctx, pid)
	if err != nil {
		return nil, err
	}
	if err := b.cycles(ctx, url, b.times(54000)); err != nil {
		return nil, err
	}
	last, err := settled(ctx, pid)
	if err != nil {
		return nil, err
	}
	client, idle := newHTTPClient(), b.times(10000)
	for range idle {
		if _, err := open(ctx, client, url); err != nil {
			return nil, err
		}
	}
	full, err := settled(ctx, pid)
	if err != nil {
		return nil, err
	}
	if _, err := b.thv(ctx, "rm", "sessions"); err != nil {
		return nil, err
	}
	return []result{
		atMost(difference("gateway's memory after 60,000 sessions", "MiB", last, first), 10, "at most 10 MiB over the first 6,000"),
		atMost(itself("an idle session, of 10,000", "KiB", max(full-last, 0)*1024/float64(idle)), 8, "at most 8 KiB"),
	}, nil
}

// settled is a process's resident memory once it is at rest: the median of some
// seconds.
func settled(ctx context.Context, pid int) (float64, error) {
	var values []float64
	for range 6 {
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		v, err := resident(pid)
		if err != nil {
			return 0, err
		}
		values = append(values, v)
	}
	return median(values), nil
}

// cycles opens a session, calls once and deletes it, n times over eight clients.
func (b *bench) cycles(ctx context.Context, url string, n int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	client := newHTTPClient()
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for left.Add(-1) >= 0 && ctx.Err() == nil {
				s, err := open(ctx, client, url)
				if err == nil {
					err = s.call(ctx)
				}
				if err == nil {
					err = s.close(ctx)
				}
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// cpu measures the processor time of commands that must respond at once.
func (b *bench) cpu(ctx context.Context) ([]result, error) {
	var results []result
	for _, args := range [][]string{{"--help"}, {"list"}} {
		var times []float64
		for range b.times(20) + 1 {
			cmd := b.command(ctx, args...)
			if err := cmd.Run(); err != nil {
				return nil, fmt.Errorf("thv %s: %w", args[0], err)
			}
			times = append(times, milliseconds(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()))
		}
		results = append(results, atMost(itself("processor time of thv "+args[0], "ms", median(times)), 50, "under 50 ms"))
	}
	return results, nil
}
