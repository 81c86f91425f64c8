package owner

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/toolhaven/toolhaven/internal/egress"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway"
	"github.com/toolhaven/toolhaven/internal/gateway/backend"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/serve"
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

// remote is the backend of a server at a URL.
func (o *owner) remote() (exchange.Backend, error) {
	transport, err := serve.Remote(o.spec)
	if err != nil {
		return nil, err
	}
	return o.overHTTP(o.spec.Remote.URL, transport)
}

// overHTTP makes the backend of a server that is reached over HTTP by rt.
func (o *owner) overHTTP(target string, rt http.RoundTripper) (exchange.Backend, error) {
	o.reach = serve.NewReach(rt)
	login, err := o.newLogin()
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	o.login = login
	o.mu.Unlock()
	return serve.HTTPServer{
		Spec: o.spec, Target: target, Reach: o.reach, Login: login, Secrets: o.cfg.Secrets, AuthServer: o.authServer, Log: o.log,
	}.Backend()
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
