package owner

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

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
		stderr: io.MultiWriter(outputs...), log: o.log, notify: notify,
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
	}), nil
}

// remote is the backend of a server at a URL. The person gave the URL, so it may have
// a private address.
func (o *owner) remote() (exchange.Backend, error) {
	transport, err := netguard.Transport(netguard.Options{AllowPrivate: true, AllowLoopback: true, AllowHTTP: true, CAFiles: o.spec.CAFiles()})
	if err != nil {
		return nil, err
	}
	headers := http.Header{}
	for name, value := range o.spec.Remote.Headers {
		headers.Set(name, value)
	}
	for name, ref := range o.spec.Remote.SecretHeaders {
		value, err := o.cfg.Secrets(ref)
		if err != nil {
			return nil, err
		}
		headers.Set(name, value)
	}
	rt := transport
	if len(headers) > 0 {
		rt = &withHeaders{headers: headers, next: transport}
	}
	return o.overHTTP(o.spec.Remote.URL, rt), nil
}

func (o *owner) overHTTP(target string, rt http.RoundTripper) exchange.Backend {
	o.reach = newReach(rt)
	rt = o.reach
	if t := o.spec.Telemetry; t != nil && t.SendsTraces() {
		rt = telemetry.Propagate(rt)
	}
	if o.spec.Transport == workload.SSE {
		return backend.NewSSE(backend.SSEConfig{URL: target, Transport: rt, Log: o.log})
	}
	return backend.NewStreamable(backend.StreamableConfig{URL: target, Transport: rt, Stateless: o.spec.Proxy.Stateless, Log: o.log})
}

// withHeaders adds fixed headers to every request.
type withHeaders struct {
	headers http.Header
	next    http.RoundTripper
}

func (w *withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context()) // a RoundTripper must not change its request
	for name, values := range w.headers {
		r.Header[name] = values
	}
	return w.next.RoundTrip(r)
}

// CloseIdleConnections is as that of reach.
func (w *withHeaders) CloseIdleConnections() {
	(&http.Client{Transport: w.next}).CloseIdleConnections()
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
