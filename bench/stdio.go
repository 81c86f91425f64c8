package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// stdio measures calls to servers that speak stdio, through the gateway and their
// container, beside writing to the same programs directly: to one that is written
// with an SDK, which is where most of the time goes, and to one that does nothing but
// answer.
func (b *bench) stdio(ctx context.Context) ([]result, error) {
	sdk, err := b.thv(ctx, "run", "go://./test/servers/probe", "--name", "stdio")
	if err != nil {
		return nil, err
	}
	instant, err := b.thv(ctx, "run", "go://./test/servers/instant", "--name", "instant")
	if err != nil {
		return nil, err
	}
	program, err := b.build("instant")
	if err != nil {
		return nil, err
	}
	ways := []struct {
		name         string
		ours, direct func(inFlight int) (float64, error)
	}{
		{
			"SDK's server",
			func(n int) (float64, error) { return b.throughput(ctx, way{url: sdk, open: open}, n) },
			func(n int) (float64, error) { return b.direct(ctx, n, callEcho, b.probe) },
		},
		{
			"instant server",
			func(n int) (float64, error) { return b.rawRate(ctx, instant, n) },
			func(n int) (float64, error) { return b.direct(ctx, n, callEchoModern, program) },
		},
	}
	var results []result
	for _, w := range ways {
		for _, clients := range []int{1, 32} {
			var ours, direct []float64
			for range rounds {
				through, err := w.ours(clients)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", w.name, err)
				}
				by, err := w.direct(clients)
				if err != nil {
					return nil, fmt.Errorf("%s, directly: %w", w.name, err)
				}
				ours, direct = append(ours, through), append(direct, by)
			}
			results = append(results, ratio(fmt.Sprintf("stdio calls per second, %s, %d clients", w.name, clients), "/s", median(ours), median(direct)))
		}
	}
	last := &results[len(results)-1]
	*last = last.reaching(20_000, "at least 20,000/s")
	if _, err := b.thv(ctx, "rm", "stdio", "instant"); err != nil {
		return nil, err
	}
	return results, nil
}

// direct is the rate of calls written to a process of our own, so many of them
// unanswered at any time.
func (b *bench) direct(ctx context.Context, inFlight int, call, program string) (float64, error) {
	p, err := startPipe(exec.CommandContext(ctx, program))
	if err != nil {
		return 0, err
	}
	defer p.close()
	start := time.Now()
	until := start.Add(2 * time.Second / time.Duration(b.scale))
	done := 0
	for range inFlight {
		if err := p.write(call); err != nil {
			return 0, err
		}
	}
	for time.Now().Before(until) {
		line, err := p.read()
		if err != nil {
			return 0, err
		}
		if !strings.Contains(line, echoed) {
			return 0, fmt.Errorf("the server answered %.200q", line)
		}
		done++
		if err := p.write(call); err != nil {
			return 0, err
		}
	}
	return float64(done) / time.Since(start).Seconds(), nil
}

// pipe is a process that speaks MCP on its standard streams.
type pipe struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startPipe starts the process and has it initialized.
func startPipe(cmd *exec.Cmd) (*pipe, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &pipe{cmd: cmd, in: in, out: bufio.NewReader(out)}
	if err := p.write(initialize); err != nil {
		return nil, errors.Join(err, p.close())
	}
	// A server without sessions answers that it knows no such method.
	if _, err := p.read(); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, p.write(initialized)
}

func (p *pipe) write(line string) error {
	_, err := io.WriteString(p.in, line+"\n")
	return err
}

func (p *pipe) read() (string, error) { return p.out.ReadString('\n') }

func (p *pipe) close() error {
	p.in.Close()
	return p.cmd.Wait()
}
