package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// isolation measures what --isolate-network adds to a start, to a connection and to a
// transfer, beside a container on the engine's bridge.
func (b *bench) isolation(ctx context.Context) ([]result, error) {
	image, err := b.thv(ctx, "build", "go://./test/servers/probe")
	if err != nil {
		return nil, err
	}
	t, err := serveTransfers()
	if err != nil {
		return nil, err
	}
	defer t.close()
	profile := filepath.Join(b.dir, "isolation.json")
	rules := fmt.Sprintf(`{"network": {"outbound": {"allow_host": [%q]}}}`, t.host)
	if err := os.WriteFile(profile, []byte(rules), 0o600); err != nil {
		return nil, err
	}
	isolated := []string{"--isolate-network", "--permission-profile", profile}
	var with, without []float64
	for i := range b.times(10) + 1 {
		v, err := b.startOurs(ctx, image, isolated...)
		if err != nil {
			return nil, err
		}
		w, err := b.startOurs(ctx, image)
		if err != nil {
			return nil, err
		}
		if i > 0 { // the first of each warms the engine
			with, without = append(with, milliseconds(v)), append(without, milliseconds(w))
		}
	}
	results := []result{atMost(difference("isolation: run to first tools/list", "ms", median(with), median(without)), 150, "at most 150 ms")}
	for name, flags := range map[string][]string{"closed": isolated, "bridge": nil} {
		if _, err := b.thv(ctx, append([]string{"run", image, "--name", name}, flags...)...); err != nil {
			return nil, err
		}
	}
	connect := []string{"connect", "--arg", "address=" + t.greeting, "--arg", "times=" + strconv.Itoa(b.times(500))}
	ours, bare, err := b.byTurns(ctx, 5, connect)
	if err != nil {
		return nil, err
	}
	results = append(results, atMost(difference("isolation: a connection to its first byte", "us", ours, bare), 500, "at most 500 us"))
	ours, bare, err = b.byTurns(ctx, 5, []string{"receive", "--arg", "address=" + t.bulk})
	if err != nil {
		return nil, err
	}
	results = append(results, atLeast(ratio("isolation: 512 MB received", "MB/s", ours, bare), 0.5, "at least half of the bridge's"))
	for _, name := range []string{"closed", "bridge"} {
		if _, err := b.thv(ctx, "rm", name); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// byTurns calls a tool that returns a number in both servers, and returns the medians.
func (b *bench) byTurns(ctx context.Context, times int, call []string) (ours, bare float64, err error) {
	all := map[string][]float64{}
	for range b.times(times) {
		for _, name := range []string{"closed", "bridge"} {
			text, err := b.thv(ctx, append([]string{"mcp", "call", name}, call...)...)
			if err != nil {
				return 0, 0, err
			}
			n, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return 0, 0, fmt.Errorf("%s of %s: %w", call[0], name, err)
			}
			all[name] = append(all[name], n)
		}
	}
	return median(all["closed"]), median(all["bridge"]), nil
}

// transfers are two services on this machine's own address.
type transfers struct {
	host, greeting, bulk string
	close                func()
}

// transferred is what the bulk service sends, in bytes.
const transferred = 512 << 20

func serveTransfers() (*transfers, error) {
	route, err := net.Dial("udp4", "198.51.100.1:9") // sends nothing
	if err != nil {
		return nil, fmt.Errorf("this machine has no address that containers reach: %w", err)
	}
	host := route.LocalAddr().(*net.UDPAddr).IP.String()
	route.Close()
	listen := func(send func(net.Conn)) (net.Listener, error) {
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			return nil, err
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() { defer c.Close(); send(c) }()
			}
		}()
		return l, nil
	}
	greeting, err := listen(func(c net.Conn) { _, _ = io.WriteString(c, "x") })
	if err != nil {
		return nil, err
	}
	block := make([]byte, 256<<10)
	bulk, err := listen(func(c net.Conn) {
		for range transferred / len(block) {
			if _, err := c.Write(block); err != nil {
				return
			}
		}
	})
	if err != nil {
		return nil, errors.Join(err, greeting.Close())
	}
	return &transfers{
		host: host, greeting: greeting.Addr().String(), bulk: bulk.Addr().String(),
		close: func() { greeting.Close(); bulk.Close() },
	}, nil
}

// ignore measures what finding the paths to hide adds to a dry run: a global file of 1,000
// patterns over a mount of 100,000 files.
func (b *bench) ignore(ctx context.Context) ([]result, error) {
	image, err := b.thv(ctx, "build", "go://./test/servers/probe")
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.dir, "mount")
	for i := range 100_000 / b.scale {
		at := filepath.Join(dir, fmt.Sprintf("d%d", i%100), fmt.Sprintf("s%d", i/100%50))
		if i < 5000 {
			if err := os.MkdirAll(at, 0o755); err != nil {
				return nil, err
			}
		}
		if err := os.WriteFile(filepath.Join(at, fmt.Sprintf("file%d.txt", i)), nil, 0o644); err != nil {
			return nil, err
		}
	}
	var patterns strings.Builder
	for i := range 250 {
		fmt.Fprintf(&patterns, "name%d\n*.ext%d\n/d%d/none*%d\n**/sub%d/*.key\n", i, i, i, i, i)
	}
	patterns.WriteString("file99.txt\n")
	config := filepath.Join(b.dir, "c", "thv")
	if err := os.MkdirAll(config, 0o700); err != nil {
		return nil, err
	}
	global := filepath.Join(config, "thvignore")
	if err := os.WriteFile(global, []byte(patterns.String()), 0o600); err != nil {
		return nil, err
	}
	defer os.Remove(global)
	var with, without []float64
	for i := range b.times(5) + 1 {
		w, err := b.dryRun(ctx, 0, image)
		if err != nil {
			return nil, err
		}
		v, err := b.dryRun(ctx, 1, image, "-v", dir+":/m")
		if err != nil {
			return nil, err
		}
		if i > 0 { // the first reads the directories from the disk
			with, without = append(with, milliseconds(v)), append(without, milliseconds(w))
		}
	}
	return []result{atMost(difference("ignore: 1,000 patterns over 100,000 files", "ms", median(with), median(without)), 1000, "under 1 s")}, nil
}

// dryRun takes the time of a dry run that hides a number of paths.
func (b *bench) dryRun(ctx context.Context, hidden int, args ...string) (time.Duration, error) {
	begin := time.Now()
	out, err := b.command(ctx, append([]string{"run", "--dry-run", "-o", "json"}, args...)...).Output()
	took := time.Since(begin)
	if err != nil {
		return 0, fmt.Errorf("thv run --dry-run: %w", err)
	}
	var plan struct{ Hidden []any }
	if err := json.Unmarshal(out, &plan); err != nil || len(plan.Hidden) != hidden {
		return 0, fmt.Errorf("thv run --dry-run hides %d paths and not %d, %w", len(plan.Hidden), hidden, err)
	}
	return took, nil
}
