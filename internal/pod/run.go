package pod

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway"
	"github.com/toolhaven/toolhaven/internal/gateway/backend"
	"github.com/toolhaven/toolhaven/internal/serve"
	"github.com/toolhaven/toolhaven/internal/serve/embedded"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// How the process paces attempts at what is not there yet.
const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// run configures the gateway, when what it needs is there, and watches the server until ctx
// ends.
func (p *pod) run(ctx context.Context) {
	var made *serving
	var logged string
	for wait := minBackoff; ; wait = min(2*wait, maxBackoff) {
		var err error
		if made, err = p.configure(); err == nil {
			break
		}
		p.set(workload.Starting, err.Error())
		if err.Error() != logged {
			logged = err.Error()
			p.log.Error("the gateway cannot be configured yet", "error", err)
		}
		if !pause(ctx, wait, nil) {
			return
		}
	}
	defer made.close(p)
	p.serving.Store(made)
	p.watch(ctx, made)
}

// pause waits, or until early has something; false when ctx has ended.
func pause(ctx context.Context, wait time.Duration, early <-chan struct{}) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-early:
	case <-ctx.Done():
		return false
	}
	return true
}

// configure makes what serves. Its error is of what may come yet, such as a secret.
func (p *pod) configure() (_ *serving, err error) {
	s := &serving{}
	defer func() {
		if err != nil {
			s.close(p)
		}
	}()
	if s.authServer, err = embedded.New(p.spec, p.secrets.value, p.key, p.log); err != nil {
		return nil, err
	}
	if err := p.connect(s); err != nil {
		return nil, err
	}
	tools := func(next exchange.Handler) exchange.Handler { return next }
	if !p.spec.Tools.Config().IsZero() {
		tools = p.tools.Stage
	}
	if s.stages, err = serve.NewStages(serve.StagesConfig{
		Spec: p.spec, Secrets: p.secrets.value, AuthServer: s.authServer, Tools: tools, AuditOut: p.cfg.AuditOut, Log: p.log,
	}); err != nil {
		return nil, err
	}
	cfg := gateway.Config{
		Key: p.key, Backend: s.backend, Name: p.spec.Name, Endpoint: p.spec.Endpoint(),
		TrustProxyHeaders: p.spec.Proxy.TrustProxyHeaders,
		Status:            func() (string, string) { state, reason := p.condition(); return string(state), reason },
		Stages:            s.stages.Stages, Log: p.log,
	}
	if p.replicas != nil {
		cfg.Replicas = &gateway.Replicas{Self: p.replicas.Self(), Forward: p.replicas.Forward}
	}
	if s.gateway, err = gateway.New(cfg); err != nil {
		return nil, err
	}
	if s.stages.Measured != nil {
		s.stages.Measured.SetSessions(s.gateway.Sessions)
	}
	return s, nil
}

// close ends what serves. The gateway may have been closed before.
func (s *serving) close(p *pod) {
	switch {
	case s.gateway != nil:
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := s.gateway.Close(ctx); err != nil {
			p.log.Warn("calls were cut off at the end", "error", err)
		}
	case s.backend != nil:
		_ = s.backend.Close() // it has sent nothing
	}
	if s.line != nil {
		s.line.close()
	}
	if s.stages != nil {
		s.stages.Close()
	}
	s.authServer.Close()
}

// connect makes the backend of the server. Nothing is sent yet.
func (p *pod) connect(s *serving) error {
	switch {
	case p.spec.Remote != nil:
		rt, err := serve.Remote(p.spec)
		if err != nil {
			return err
		}
		return p.overHTTP(s, p.spec.Remote.URL, rt)
	case p.spec.Transport == workload.Stdio:
		s.line = &line{socket: p.cfg.GuestSocket, env: p.serverEnv}
		s.backend = backend.NewStdio(backend.StdioConfig{Spawn: s.line.spawn, MaxProcesses: p.spec.Container.MaxProcesses, Stray: strays{p.log}, Log: p.log})
		return nil
	}
	// The containers of a pod share their network. Servers that guard against DNS rebinding
	// see their own address.
	host := p.spec.TargetHost
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	address := net.JoinHostPort(host, strconv.Itoa(p.spec.TargetPort))
	target := url.URL{Scheme: "http", Host: address, Path: p.spec.TargetPath}
	var d net.Dialer
	return p.overHTTP(s, target.String(), &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "tcp", address) },
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true,
	})
}

func (p *pod) overHTTP(s *serving, target string, rt http.RoundTripper) (err error) {
	s.reach = serve.NewReach(rt)
	s.backend, err = serve.HTTPServer{
		Spec: p.spec, Target: target, Reach: s.reach, Secrets: p.secrets.value, AuthServer: s.authServer, Log: p.log,
	}.Backend()
	return err
}

// serverEnv is what the environment of a stdio server has beside that of its container.
func (p *pod) serverEnv() ([]string, error) {
	var env []string
	for name, value := range p.spec.Env {
		env = append(env, name+"="+value)
	}
	for name, ref := range p.spec.SecretEnv {
		value, err := p.secrets.value(ref)
		if err == nil {
			err = workload.ValidEnvValue(value)
		}
		if err != nil {
			return nil, fmt.Errorf("secret for %s: %w", name, err)
		}
		env = append(env, name+"="+value)
	}
	return env, nil
}
