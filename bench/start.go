package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// start measures the time from the command to the first answered tools/list,
// beside `docker run` of the same image with the same request by hand.
func (b *bench) start(ctx context.Context) ([]result, error) {
	image, err := b.thv(ctx, "build", "go://./test/servers/probe")
	if err != nil {
		return nil, err
	}
	var ours, byHand []float64
	for i := range b.times(10) + 1 {
		v, err := b.startOurs(ctx, image)
		if err != nil {
			return nil, err
		}
		w, err := b.startByHand(ctx, image)
		if err != nil {
			return nil, err
		}
		if i > 0 { // the first of each warms the engine
			ours, byHand = append(ours, milliseconds(v)), append(byHand, milliseconds(w))
		}
	}
	return []result{
		atMost(difference("run to first tools/list", "ms", median(ours), median(byHand)), 300, "at most 300 ms over docker run"),
	}, nil
}

func (b *bench) startOurs(ctx context.Context, image string, flags ...string) (time.Duration, error) {
	begin := time.Now()
	url, err := b.thv(ctx, append([]string{"run", image, "--name", "start"}, flags...)...)
	if err != nil {
		return 0, err
	}
	s, err := open(ctx, newHTTPClient(), url)
	if err != nil {
		return 0, err
	}
	text, err := s.post(ctx, listTools)
	took := time.Since(begin)
	if err == nil && !strings.Contains(text, `"echo"`) {
		err = fmt.Errorf("tools/list answered %.200q", text)
	}
	_, rmErr := b.thv(ctx, "rm", "start")
	return took, errors.Join(err, rmErr)
}

func (b *bench) startByHand(ctx context.Context, image string) (time.Duration, error) {
	begin := time.Now()
	p, err := startPipe(exec.CommandContext(ctx, "docker", "run", "-i", "--rm", image))
	if err != nil {
		return 0, err
	}
	err = p.write(listTools)
	if err == nil {
		var line string
		if line, err = p.read(); err == nil && !strings.Contains(line, `"echo"`) {
			err = fmt.Errorf("tools/list answered %.200q", line)
		}
	}
	took := time.Since(begin)
	return took, errors.Join(err, p.close())
}
