package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// rawRate is the rate of calls by clients that write the same bytes again and again,
// each on a connection of its own: net/http's client takes more processor time for a
// call than what is measured here.
func (b *bench) rawRate(ctx context.Context, target string, clients int) (float64, error) {
	u, err := url.Parse(target)
	if err != nil {
		return 0, err
	}
	request := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
		"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\nContent-Length: %d\r\n\r\n%s", u.Path, u.Host, len(callEchoModern), callEchoModern)
	var done atomic.Int64
	var wg sync.WaitGroup
	faults := make(chan error, clients)
	start := time.Now()
	until := start.Add(2 * time.Second / time.Duration(b.scale))
	for range clients {
		wg.Go(func() {
			n, err := rawCalls(ctx, u.Host, request, until)
			done.Add(n)
			faults <- err
		})
	}
	wg.Wait()
	close(faults)
	for fault := range faults {
		err = errors.Join(err, fault)
	}
	return float64(done.Load()) / time.Since(start).Seconds(), err
}

func rawCalls(ctx context.Context, host, request string, until time.Time) (n int64, err error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", host)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for ; time.Now().Before(until); n++ {
		if _, err := io.WriteString(conn, request); err != nil {
			return n, err
		}
		if err := rawAnswer(in); err != nil {
			return n, err
		}
	}
	return n, nil
}

// rawAnswer reads one response and parses as little as possible.
func rawAnswer(in *bufio.Reader) error {
	length := 0
	for first := true; ; first = false {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if first && !strings.Contains(string(line), " 200 ") {
			return fmt.Errorf("the answer is %q", line)
		}
		if len(line) <= 2 {
			break
		}
		if name, value, _ := strings.Cut(string(line), ":"); http.CanonicalHeaderKey(name) == "Content-Length" {
			if _, err := fmt.Sscan(value, &length); err != nil {
				return err
			}
		}
	}
	body, err := in.Peek(length)
	if err != nil {
		return err
	}
	if !strings.Contains(string(body), echoed) {
		return fmt.Errorf("the answer is %.200q", body)
	}
	_, err = in.Discard(length)
	return err
}
