package owner

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/toolhaven/toolhaven/internal/credential"
	"github.com/toolhaven/toolhaven/internal/egress"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway"
	"github.com/toolhaven/toolhaven/internal/gateway/backend"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/telemetry"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// backend makes the backend of the server that the Spec describes. For a container
// it prepares the instance; nothing runs yet.
func (o *owner) backend(ctx context.Context, serverLog io.Writer) (exchange.Backend, error) {
	if o.spec.Remote != nil {
		return o.remote()
	}
	engine, err := o.cfg.Engine(ctx)
	if err != nil {
		return nil, err
	}
	outputs := []io.Writer{serverLog, &o.last}
	if o.cfg.Console != nil {
		outputs = append(outputs, o.cfg.Console)
	}
	notify := func(e manager.Event) { o.cfg.Notices(manager.Notice{Progress: &e}) }
	o.instance = &instance{
		spec: o.spec, store: o.cfg.Store, held: o.hold.Held, engine: engine, secrets: o.cfg.Secrets,
		image:  &imageSource{spec: o.spec, store: o.cfg.Store, engine: engine, build: o.cfg.Build, notify: notify, ref: o.spec.Image},
		stderr: io.MultiWriter(outputs...), log: o.log, notify: notify, hidden: o.cfg.Hidden,
		connections: &egress.Log{},
	}
	if o.spec.Transport == workload.Stdio {
		return backend.NewStdio(backend.StdioConfig{Spawn: o.instance.spawn, MaxProcesses: o.spec.Container.MaxProcesses, Stray: o.instance.stderr, Log: o.log}), nil
	}
	// Whatever host the URL has, the transport dials the server's port inside its
	// container. Servers that guard against DNS rebinding see their own address.
	target := url.URL{
		Scheme: "http",
		Host:   net.JoinHostPort(o.spec.TargetHost, strconv.Itoa(o.spec.TargetPort)),
		Path:   o.spec.TargetPath,
	}
	return o.overHTTP(target.String(), &http.Transport{
		DialContext:           o.instance.dial,
		MaxIdleConnsPerHost:   64,
		IdleConnTimeout:       90 * time.Second,
		DisableCompression:    true,
		ResponseHeaderTimeout: 0, // a tool may take its time
	})
}

// remote is the backend of a server at a URL. The person gave the URL, so it may have
// a private address.
func (o *owner) remote() (exchange.Backend, error) {
	transport, err := netguard.Transport(netguard.Options{AllowPrivate: true, AllowLoopback: true, AllowHTTP: true, CAFiles: o.spec.CAFiles()})
	if err != nil {
		return nil, err
	}
	return o.overHTTP(o.spec.Remote.URL, transport)
}

// overHTTP makes the backend of a server at a URL. A request whose credential fails is not
// sent, so reach, which observes the server, does not see it.
func (o *owner) overHTTP(target string, rt http.RoundTripper) (exchange.Backend, error) {
	o.reach = newReach(rt)
	login, err := o.newLogin()
	if err != nil {
		return nil, err
	}
	var own credential.Credential // an interface that holds a nil *Login is not nil
	if login != nil {
		own = login
	}
	o.mu.Lock()
	o.login = login
	o.mu.Unlock()
	credentials, err := o.spec.Credentials(o.cfg.Secrets, own, o.authServer.UpstreamTokens(), o.log)
	if err != nil {
		return nil, err
	}
	rt = o.reach
	if t := o.spec.Telemetry; t != nil && t.SendsTraces() {
		rt = telemetry.Propagate(rt)
	}
	rt = credential.Transport(rt, credentials...)
	if o.spec.Transport == workload.SSE {
		return backend.NewSSE(backend.SSEConfig{URL: target, Transport: rt, Log: o.log}), nil
	}
	return backend.NewStreamable(backend.StreamableConfig{URL: target, Transport: rt, Stateless: o.spec.Proxy.Stateless, Log: o.log}), nil
}

func (o *owner) gatewayConfig(b exchange.Backend) (gateway.Config, error) {
	key, err := o.cfg.Store.Key(o.spec.Name)
	if err != nil {
		return gateway.Config{}, err
	}
	return gateway.Config{
		Key:      key,
		Backend:  b,
		Name:     o.spec.Name,
		Endpoint: o.spec.Endpoint(),

		TrustProxyHeaders: o.spec.Proxy.TrustProxyHeaders,
		Status: func() (string, string) {
			o.mu.Lock()
			defer o.mu.Unlock()
			state, reason, _ := o.condition(b)
			return string(state), reason
		},
		Stages: o.stages.Stages,
		Log:    o.log,
	}, nil
}
