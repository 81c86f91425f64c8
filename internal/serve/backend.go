package serve

import (
	"log/slog"
	"net/http"

	"github.com/toolhaven/toolhaven/internal/credential"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend"
	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/serve/embedded"
	"github.com/toolhaven/toolhaven/internal/telemetry"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// Remote returns the transport to the remote server of spec. The person gave its URL, so it
// may have a private address.
func Remote(spec *workload.Spec) (http.RoundTripper, error) {
	return netguard.Transport(netguard.Options{AllowPrivate: true, AllowLoopback: true, AllowHTTP: true, CAFiles: spec.CAFiles()})
}

// HTTPServer is a server that is reached over HTTP.
type HTTPServer struct {
	Spec   *workload.Spec
	Target string // its URL
	Reach  *Reach // the way to it
	// Login is the credential of a login at the server; nil without one.
	Login *credential.Login
	// Secrets returns the value of a reference.
	Secrets func(ref string) (string, error)
	// AuthServer has the upstream tokens of the callers; nil without one.
	AuthServer *embedded.Server
	Log        *slog.Logger
}

// Backend makes the backend of the server. A request whose credential fails is not sent, so
// Reach does not observe it.
func (s HTTPServer) Backend() (exchange.Backend, error) {
	var own credential.Credential // an interface that holds a nil *Login is not nil
	if s.Login != nil {
		own = s.Login
	}
	credentials, err := s.Spec.Credentials(s.Secrets, own, s.AuthServer.UpstreamTokens(), s.Log)
	if err != nil {
		return nil, err
	}
	rt := http.RoundTripper(s.Reach)
	if t := s.Spec.Telemetry; t != nil && t.SendsTraces() {
		rt = telemetry.Propagate(rt)
	}
	rt = credential.Transport(rt, credentials...)
	if s.Spec.Transport == workload.SSE {
		return backend.NewSSE(backend.SSEConfig{URL: s.Target, Transport: rt, Log: s.Log}), nil
	}
	return backend.NewStreamable(backend.StreamableConfig{URL: s.Target, Transport: rt, Stateless: s.Spec.Proxy.Stateless, Log: s.Log}), nil
}
