package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/toolhaven/toolhaven/internal/seal"
	"github.com/toolhaven/toolhaven/internal/workload"
	"github.com/toolhaven/toolhaven/test/local"
)

// replicas measures gateways of pods, `thv gateway`, without a cluster: the time of the first
// tools/list after the start of one, and calls of a session that another replica has, beside
// calls at that replica.
func (b *bench) replicas(ctx context.Context) ([]result, error) {
	address, end, err := daemon(ctx, b.probe, "-json", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer end()
	key := filepath.Join(b.dir, "replicas.key")
	if err := os.WriteFile(key, seal.NewKey(), 0o600); err != nil {
		return nil, err
	}
	var starts []float64
	for range b.times(10) {
		began := time.Now()
		url, stop, err := b.gateway(ctx, address, key)
		if err != nil {
			return nil, err
		}
		s, err := open(ctx, newHTTPClient(), url)
		if err == nil {
			_, err = s.post(ctx, listTools)
		}
		starts = append(starts, milliseconds(time.Since(began)))
		stop()
		if err != nil {
			return nil, err
		}
	}
	holder, stop, err := b.gateway(ctx, address, key)
	if err != nil {
		return nil, err
	}
	defer stop()
	front, stop, err := b.gateway(ctx, address, key)
	if err != nil {
		return nil, err
	}
	defer stop()
	elsewhere := func(ctx context.Context, client *http.Client, url string) (*session, error) {
		s, err := open(ctx, client, holder)
		if err == nil {
			s.url = url
		}
		return s, err
	}
	p50, rate, err := b.beside(ctx, way{url: front, open: elsewhere}, way{url: holder, open: open})
	if err != nil {
		return nil, err
	}
	p50.Name, rate.Name = "call that a replica passes on, 1 client, p50", "calls per second that a replica passes on, 32 clients"
	return []result{
		itself("a pod's gateway from its start to the first tools/list", "ms", median(starts)).limited(1000, "under 1 s"),
		atMost(p50, 1.3, "at most 1.3x of a call at the replica with the session"),
		rate,
	}, nil
}

// gateway starts a replica, and returns when it is ready.
func (b *bench) gateway(ctx context.Context, server, key string) (url string, stop func(), err error) {
	ports := [2]int{}
	for i := range ports {
		if ports[i], err = local.FreePort(); err != nil {
			return "", nil, err
		}
	}
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return "", nil, err
	}
	target, err := strconv.Atoi(port)
	if err != nil {
		return "", nil, err
	}
	spec, err := json.Marshal(workload.Spec{
		Schema: workload.Schema, Name: "replicas", Image: "probe", Source: workload.Source{Kind: "image", Ref: "probe"},
		Transport: workload.StreamableHTTP, TargetHost: host, TargetPort: target, Proxy: workload.Proxy{Host: "127.0.0.1", Port: ports[0], Mode: "streamable-http"},
	})
	if err != nil {
		return "", nil, err
	}
	config := filepath.Join(b.dir, fmt.Sprintf("replica-%d.json", ports[0]))
	if err := os.WriteFile(config, spec, 0o600); err != nil {
		return "", nil, err
	}
	cmd := b.command(ctx, "gateway", "--config", config, "--key", key, "--peer-port", strconv.Itoa(ports[1]))
	cmd.Env = append(cmd.Env, "POD_IP=127.0.0.1")
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	url = fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(5 * time.Millisecond) {
		resp, err := http.Get(url + "/readiness")
		if err != nil {
			continue
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return url + "/mcp", stop, nil
		}
	}
	stop()
	return "", nil, fmt.Errorf("the gateway is not ready")
}
