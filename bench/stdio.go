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

// stdio measures calls to a server that speaks stdio, through the gateway and
// its container, beside writing to the same program directly.
func (b *bench) stdio(ctx context.Context) ([]result, error) {
	url, err := b.thv(ctx, "run", "go://./test/servers/probe", "--name", "stdio")
	if err != nil {
		return nil, err
	}
	var one, many, direct [2][]float64
	for range rounds {
		v, err := b.throughput(ctx, way{url, open}, 1)
		if err != nil {
			return nil, err
		}
		one[0] = append(one[0], v)
		if v, err = b.throughput(ctx, way{url, open}, 32); err != nil {
			return nil, err
		}
		many[0] = append(many[0], v)
		for i, inFlight := range []int{1, 32} {
			if v, err = b.direct(ctx, inFlight); err != nil {
				return nil, err
			}
			direct[i] = append(direct[i], v)
		}
	}
	if _, err := b.thv(ctx, "rm", "stdio"); err != nil {
		return nil, err
	}
	return []result{
		ratio("stdio calls per second, 1 client", "/s", median(one[0]), median(direct[0])),
		ratio("stdio calls per second, 32 clients", "/s", median(many[0]), median(direct[1])),
	}, nil
}

// direct is the rate of calls written to a process of our own, so many of them
// unanswered at any time.
func (b *bench) direct(ctx context.Context, inFlight int) (float64, error) {
	p, err := startPipe(exec.CommandContext(ctx, b.probe))
	if err != nil {
		return 0, err
	}
	defer p.close()
	start := time.Now()
	until := start.Add(2 * time.Second / time.Duration(b.scale))
	done := 0
	for range inFlight {
		if err := p.write(callEcho); err != nil {
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
		if err := p.write(callEcho); err != nil {
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
