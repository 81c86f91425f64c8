// Package pod is the process that serves a workload in a pod of a cluster: the gateway for a
// server in another container of the pod, or elsewhere. It starts no container, and keeps
// nothing on disk.
//
// Everything comes from files that the cluster mounts: the run configuration (a
// [workload.Spec]), the secrets that it refers to, which are read at use because the cluster
// replaces them while the process runs, and the key that all replicas of the workload share.
// With that key and an address, replicas pass requests of each other's sessions on (package
// peers).
//
// What is wrong with the run configuration ends the process. What is not there yet, such as a
// secret or the server, is retried, and /readiness states the reason meanwhile.
package pod

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway"
	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/pod/peers"
	"github.com/toolhaven/toolhaven/internal/seal"
	"github.com/toolhaven/toolhaven/internal/serve"
	"github.com/toolhaven/toolhaven/internal/serve/embedded"
	"github.com/toolhaven/toolhaven/internal/toolset"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// Defaults of a Config.
const (
	// DefaultPeerPort is the TCP port for other replicas.
	DefaultPeerPort = 8081
	// DefaultNotice is how long the gateway goes on to serve after it has stopped being
	// ready: until the cluster sends it no more requests.
	DefaultNotice = 5 * time.Second
	// DefaultDrain is how long calls in flight may take to end after that.
	DefaultDrain = 30 * time.Second
	// DefaultPingEvery is the interval between pings of the server.
	DefaultPingEvery = 30 * time.Second
)

// Config is what a pod's gateway works with.
type Config struct {
	// File is the run configuration.
	File string
	// SecretsDir has the value of the secret NAME/KEY in the file NAME/KEY.
	SecretsDir string
	// GuestSocket is the Unix socket of the guest that runs a stdio server.
	GuestSocket string
	// KeyFile has the key that all replicas share ([seal.KeySize] bytes); "" is a random one.
	KeyFile string
	// Listen is the address to listen on; "" is that of the run configuration.
	Listen string
	// PodIP is the pod's own address, and PeerPort the port for other replicas. There are
	// none without PodIP or KeyFile.
	PodIP    string
	PeerPort int
	// Notice, Drain and PingEvery are zero for their defaults; a negative Notice is none.
	Notice, Drain, PingEvery time.Duration
	// AuditOut receives audit records if the run configuration names no file.
	AuditOut io.Writer
	Log      *slog.Logger
}

// maxConfig bounds a run configuration, in bytes. A ConfigMap has at most 1 MiB.
const maxConfig = 2 << 20

// Load reads and checks a run configuration. The error joins all that is wrong with it.
func Load(file string) (*workload.Spec, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("run configuration: %w", err)
	}
	defer f.Close()
	text, err := netguard.ReadBounded(f, maxConfig)
	if err != nil {
		return nil, fmt.Errorf("run configuration %s: %w", file, err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var spec workload.Spec
	if err := dec.Decode(&spec); err != nil {
		return nil, fmt.Errorf("run configuration %s: %w", file, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("run configuration %s: more than one value", file)
	}
	if err := errors.Join(workload.Validate(&spec), unsupported(&spec)); err != nil {
		return nil, fmt.Errorf("run configuration %s: %w", file, err)
	}
	return &spec, nil
}

// unsupported reports what needs a person at this machine, or its disk.
func unsupported(s *workload.Spec) error {
	var errs []error
	if s.Remote != nil && s.Remote.Auth != nil {
		errs = append(errs, errors.New("a login at the remote server (remote.auth) needs a person at a browser; use a bearer token, a token exchange or an embedded authorization server"))
	}
	if s.Tools.Pin {
		errs = append(errs, errors.New("pinned tools (tools.pin) are remembered on disk, and a pod keeps nothing there"))
	}
	return errors.Join(errs...)
}

// pod is a running Main.
type pod struct {
	cfg      Config
	spec     *workload.Spec
	log      *slog.Logger
	key      []byte
	secrets  *secretFiles
	replicas *peers.Network // nil without other replicas
	tools    *toolset.Set

	// serving is nil until the gateway has been configured.
	serving atomic.Pointer[serving]
	ending  atomic.Bool // the process was requested to end

	mu     sync.Mutex
	state  workload.State
	reason string
	was    bool // the server has responded
}

// serving is what is made from the run configuration and its secrets.
type serving struct {
	gateway    *gateway.Gateway
	backend    exchange.Backend
	reach      *serve.Reach // nil for stdio
	stages     *serve.Stages
	authServer *embedded.Server
	line       *line // nil for HTTP
}

// Main serves until ctx ends, and then until the calls in flight have ended. The error is what
// the process cannot start with.
func Main(ctx context.Context, cfg Config) error {
	p, err := newPod(cfg)
	if err != nil {
		return err
	}
	address := cfg.Listen
	if address == "" {
		address = net.JoinHostPort(p.spec.Proxy.Host, strconv.Itoa(p.spec.Proxy.Port))
	}
	front, err := p.listen(ctx, address, http.HandlerFunc(p.serveHTTP), nil)
	if err != nil {
		return err
	}
	defer front.close()
	if p.replicas != nil {
		peer, err := p.listen(ctx, p.replicas.Self(), peers.Handler(http.HandlerFunc(p.servePeer)), p.replicas.Listener)
		if err != nil {
			return err
		}
		defer p.replicas.Close()
		defer peer.close()
	}
	for _, caution := range p.spec.GatewayCautions() {
		p.log.Warn(caution)
	}
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	var work sync.WaitGroup
	work.Go(func() { p.run(running) })
	defer work.Wait()
	defer end()
	select {
	case <-ctx.Done():
		p.drain()
		return nil
	case err := <-front.failed:
		return err
	}
}

func newPod(cfg Config) (*pod, error) {
	if cfg.PeerPort == 0 {
		cfg.PeerPort = DefaultPeerPort
	}
	for d, value := range map[*time.Duration]time.Duration{&cfg.Notice: DefaultNotice, &cfg.Drain: DefaultDrain, &cfg.PingEvery: DefaultPingEvery} {
		if *d == 0 {
			*d = value
		}
	}
	spec, err := Load(cfg.File)
	if err != nil {
		return nil, err
	}
	if spec.Remote == nil && spec.Transport == workload.Stdio && cfg.GuestSocket == "" {
		return nil, errors.New("the server of transport stdio needs --guest-socket, at which its container's guest listens")
	}
	p := &pod{
		cfg: cfg, spec: spec, log: cfg.Log.With("workload", spec.Name), secrets: &secretFiles{dir: cfg.SecretsDir},
		state: workload.Starting, reason: "the gateway is starting",
	}
	p.tools = toolset.New(spec.Tools.Config(), p.log)
	if cfg.KeyFile == "" {
		p.key = seal.NewKey()
		return p, nil
	}
	if p.key, err = readKey(cfg.KeyFile); err != nil {
		return nil, err
	}
	if cfg.PodIP == "" {
		return p, nil
	}
	self := net.JoinHostPort(cfg.PodIP, strconv.Itoa(cfg.PeerPort))
	p.replicas, err = peers.New(p.key, spec.Name, self, p.log)
	return p, err
}

func readKey(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	defer f.Close()
	key, err := netguard.ReadBounded(f, seal.KeySize)
	if err != nil || len(key) != seal.KeySize {
		return nil, fmt.Errorf("key: %s must have %d bytes; all replicas of the workload need the same", file, seal.KeySize)
	}
	return key, nil
}

// set notes what the workload is doing.
func (p *pod) set(state workload.State, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state, p.reason = state, reason
	if state == workload.Running {
		p.was = true
	}
}

// condition is the workload's state and the reason for any other than running.
func (p *pod) condition() (workload.State, string) {
	if p.ending.Load() {
		return workload.Stopping, "the pod is ending"
	}
	p.mu.Lock()
	state, reason := p.state, p.reason
	p.mu.Unlock()
	if s := p.serving.Load(); s != nil && state == workload.Running {
		if busy := s.backend.ServerInfo().Processes.Busy; busy != "" {
			return workload.Degraded, busy
		}
		if fault := s.stages.Fault(); fault != "" {
			return workload.Degraded, fault
		}
	}
	return state, reason
}

// ready reports whether clients should be sent here. A server in this pod that is lost serves
// no one. One elsewhere is lost to all replicas alike: their clients receive an error that
// names the cause, which is more than no connection.
func (p *pod) ready() bool {
	if p.ending.Load() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state == workload.Running || p.was && p.spec.Remote != nil
}
