// Package owner is the process that owns a running workload: it holds the
// workload's lock, answers on its control socket, keeps its container (or its
// connection to a remote server) and serves its gateway. There is one for each
// running workload, started by manager.Manager or, for `run -f`, in the
// command's own process.
//
// Its life is one function, [Main], read from top to bottom: own, listen, start,
// wait for the server's first response, report it, watch, tear down.
package owner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/credential"
	"github.com/toolhaven/toolhaven/internal/egress"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/oauthclient"
	"github.com/toolhaven/toolhaven/internal/owner/hidden"
	"github.com/toolhaven/toolhaven/internal/serve"
	"github.com/toolhaven/toolhaven/internal/serve/embedded"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// DefaultStartTimeout is how long a server may take to its first response.
const DefaultStartTimeout = 60 * time.Second

// DefaultPingEvery is the interval between pings of a server.
const DefaultPingEvery = 30 * time.Second

// Config is what an owner works with.
type Config struct {
	Name    string
	Store   *manager.Store
	Engine  func(ctx context.Context) (container.Engine, error)
	Secrets func(ref string) (string, error)
	// SignIns holds the logins at remote servers.
	SignIns *oauthclient.Store
	// Hidden is how paths in mounts are hidden.
	Hidden hidden.Paths
	// Notices receives the way to readiness: progress, then ready or failed.
	Notices func(manager.Notice)
	// Starter, when not nil, is read until manager.Detach arrives; an end of
	// input before that stops the start.
	Starter io.Reader
	// Console, when not nil, also receives the server's standard error.
	Console      io.Writer
	StartTimeout time.Duration // 0 is DefaultStartTimeout
	PingEvery    time.Duration // 0 is DefaultPingEvery
	// Build makes the image of the Spec's package and notes its name in the Spec. It is
	// called when the engine has lost the image; nil is an error then.
	Build func(ctx context.Context, spec *workload.Spec, progress func(manager.Event)) error
	// Foreground ends the workload when its server ends, instead of starting it
	// again.
	Foreground bool
	// Log receives the gateway's log; nil is the workload's proxy log, at
	// LogLevel.
	Log      *slog.Logger
	LogLevel slog.Level
}

// owner is the state of a running Main.
type owner struct {
	cfg      Config
	spec     *workload.Spec
	log      *slog.Logger
	last     tail // of the server's output
	instance *instance
	hold     *manager.Ownership
	// again: the workload ran before.
	again bool
	// reach observes requests to an HTTP server; nil for stdio, whose end is seen at once.
	reach *serve.Reach
	tools *toolWatch
	// authServer is nil without an embedded authorization server.
	authServer *embedded.Server

	mu       sync.Mutex
	state    workload.State
	reason   string
	server   exchange.Backend // nil until there is a backend
	exposed  string
	login    *credential.Login // nil without a login
	tokens   *loginTokens      // of login
	started  time.Time
	restarts int
	gateway  *gateway.Gateway
	stages   *serve.Stages // nil until the gateway is configured
}

// Main runs the workload until ctx ends or a stop is requested. It reports
// readiness through cfg.Notices. It returns nil after a requested stop, which is a
// notice too when the workload was not ready yet, and otherwise what went wrong, with
// the server's last output when the cause is there. In either case nothing of the
// workload runs any more.
func Main(ctx context.Context, cfg Config) error {
	if cfg.StartTimeout == 0 {
		cfg.StartTimeout = DefaultStartTimeout
	}
	if cfg.PingEvery == 0 {
		cfg.PingEvery = DefaultPingEvery
	}
	if cfg.Notices == nil {
		cfg.Notices = func(manager.Notice) {}
	}
	if cfg.Log == nil {
		file, err := openLog(cfg.Store.ProxyLog(cfg.Name))
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("workload %q was %w", cfg.Name, manager.ErrRemovedEarly)
		}
		if err != nil {
			cfg.Notices(manager.Notice{Failed: err.Error()})
			return err
		}
		defer file.Close()
		cfg.Log = slog.New(slog.NewJSONHandler(file, &slog.HandlerOptions{Level: cfg.LogLevel}))
	}
	report, ready := cfg.Notices, false
	cfg.Notices = func(n manager.Notice) {
		if n.Ready {
			ready = true
		}
		report(n)
	}
	err := run(ctx, cfg)
	switch {
	case errors.Is(err, manager.ErrAlreadyRunning):
		cfg.Notices(manager.Notice{Taken: true})
	case err != nil:
		cfg.Log.Error("workload failed", "workload", cfg.Name, "error", err)
		cfg.Notices(manager.Notice{Failed: err.Error()})
	case !ready:
		cfg.Notices(manager.Notice{Stopped: true})
	}
	return err
}

func run(ctx context.Context, cfg Config) (err error) {
	hold, err := cfg.Store.Own(ctx, cfg.Name)
	if err != nil {
		return err
	}
	defer hold.Release()
	// In this order: a removal takes the Spec away before the note.
	if cfg.Store.StopNoted(cfg.Name) {
		return nil
	}
	spec, err := cfg.Store.Get(cfg.Name)
	if errors.Is(err, manager.ErrNotFound) {
		return fmt.Errorf("workload %q was %w", cfg.Name, manager.ErrRemovedEarly)
	}
	if err != nil {
		return err
	}
	if err := workload.Validate(spec); err != nil {
		return err
	}
	o := &owner{cfg: cfg, spec: spec, hold: hold, log: cfg.Log.With("workload", cfg.Name), state: workload.Starting}
	o.tools = newToolWatch(o)

	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	control := &http.Server{
		Handler: manager.Control{Nonce: hold.Nonce, Spec: spec, Status: o.status, Tools: o.tools.response, AcceptTools: o.tools.accept, Connections: o.connections, Stop: func() {
			o.set(workload.Stopping, "")
			stop(errStopped)
		}}.Handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ErrorLog:          slog.NewLogLogger(o.log.Handler(), slog.LevelDebug),
	}
	// It serves until the workload has been taken down.
	serving, endServing := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := hold.Serve(serving, control, o.log); err != nil {
			o.set(workload.Stopping, "")
			stop(err)
		}
	}()
	defer func() { endServing(); <-served }()
	detached := o.watchStarter(cfg.Starter, stop)

	o.again = cfg.Store.Last(cfg.Name).State != ""
	// Noted before anything runs: if this process is killed, the note remains, and
	// means that the end was not reported.
	if err := cfg.Store.SetLast(cfg.Name, workload.Running, ""); err != nil {
		return fmt.Errorf("note that workload %q starts: %w", cfg.Name, err)
	}
	defer func() {
		if !hold.Held() {
			return // another owner's note may be there
		}
		state, reason := workload.Stopped, ""
		if err != nil {
			state, reason = workload.Failed, err.Error()
		}
		// A full disk: the log is all that is left.
		if noteErr := cfg.Store.SetLast(cfg.Name, state, reason); noteErr != nil {
			o.log.Error("cannot note how the workload ended", "error", noteErr)
		}
	}()

	err = o.serve(ctx, detached)
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errStopped):
		return nil
	case errors.Is(cause, errStarterGone), errors.Is(cause, manager.ErrLost):
		return cause
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // a signal is a requested stop
	}
	return err
}

// Why a workload ends before its server does.
var (
	errStopped     = errors.New("stopped")
	errStarterGone = errors.New("interrupted while starting")
)

// watchStarter stops the workload when the process that started it goes away before it
// was ready. The returned function reports that it is ready and waits until the
// starter has received that.
func (o *owner) watchStarter(starter io.Reader, stop func(error)) (ready func()) {
	if starter == nil {
		return func() { o.cfg.Notices(manager.Notice{Ready: true}) }
	}
	seen := make(chan struct{})
	go func() {
		defer close(seen)
		text, _ := io.ReadAll(io.LimitReader(starter, 64))
		if string(text) != manager.Detach {
			stop(errStarterGone)
		}
	}()
	return func() {
		o.cfg.Notices(manager.Notice{Ready: true})
		<-seen
	}
}

// serve listens, starts the server and keeps it until ctx ends.
func (o *owner) serve(ctx context.Context, ready func()) (err error) {
	listener, err := (&proxyPort{store: o.cfg.Store, spec: o.spec, again: o.again, log: o.log}).listen(ctx)
	if err != nil {
		return err
	}
	defer listener.Close()
	serverLog, err := openLog(o.cfg.Store.ServerLog(o.spec.Name))
	if err != nil {
		return err
	}
	defer serverLog.Close()

	key, err := o.cfg.Store.Key(o.spec.Name)
	if err != nil {
		return err
	}
	if o.authServer, err = embedded.New(o.spec, o.cfg.Secrets, key, o.log); err != nil {
		return err
	}
	defer o.authServer.Close()
	backend, err := o.backend(ctx, serverLog)
	if err != nil {
		return err
	}
	defer o.tearDown()
	ctx, settle := o.boundDisk(ctx)
	defer func() { err = settle(err) }()
	stages, err := serve.NewStages(serve.StagesConfig{
		Spec: o.spec, Secrets: o.cfg.Secrets, AuthServer: o.authServer, Tools: o.tools.stage,
		AuditFile: o.cfg.Store.AuditLog(o.spec.Name), Log: o.log,
	})
	if err != nil {
		return err
	}
	defer stages.Close()
	o.tools.recorder = stages.Recorder
	if o.instance != nil && stages.Recorder != nil {
		o.instance.connections.Ended = func(r egress.Record) { stages.Recorder.Connected(auditConnection(r)) }
	}
	o.mu.Lock()
	o.stages = stages
	o.mu.Unlock()
	defer o.tools.running.Wait() // its requests end with the backend, which o.close closes
	cfg, err := o.gatewayConfig(backend)
	if err != nil {
		return err
	}
	front, err := gateway.New(cfg)
	if err != nil {
		return err
	}
	if stages.Measured != nil {
		stages.Measured.SetSessions(front.Sessions)
	}
	o.mu.Lock()
	o.gateway = front
	o.server = backend
	o.mu.Unlock()
	server := serve.HTTP(front, o.log)
	defer server.Close()
	defer o.close(front)

	watch := newWatch(o, backend)
	if err := watch.first(ctx); err != nil {
		return o.explain(err)
	}
	if err := ctx.Err(); err != nil {
		return err // it responded just when a stop came
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	for _, caution := range o.spec.GatewayCautions() {
		o.log.Warn(caution)
	}
	o.log.Info("ready", "url", o.spec.URL(), "server", o.status().Server)
	ready()
	watchCtx, endWatch := context.WithCancel(ctx)
	watching := make(chan struct{})
	var ended error
	go func() { ended = watch.keep(watchCtx); close(watching) }()
	// The watch ends first: it must start nothing while the rest is taken down.
	defer func() { endWatch(); <-watching }()
	select {
	case <-watching:
		return ended
	case <-ctx.Done():
		return ctx.Err()
	case err := <-served:
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	}
}

// explain adds the server's last output to an error of starting it. All of that
// output has come in only when the container is gone.
func (o *owner) explain(err error) error {
	o.tearDown()
	if output := o.last.lines(15); output != "" {
		return fmt.Errorf("%w; its last output:%s", err, output)
	}
	return err
}

// set notes what the workload is doing. One that is stopping does nothing else any
// more.
func (o *owner) set(state workload.State, reason string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state != workload.Stopping {
		o.state, o.reason = state, reason
	}
}

// status is the response of the control socket.
func (o *owner) status() *workload.Status {
	st := o.spec.Status()
	st.Created = o.cfg.Store.Created(o.spec.Name)
	o.mu.Lock()
	defer o.mu.Unlock()
	st.Restarts, st.Exposed = o.restarts, o.exposed
	cautions, changes := o.tools.cautions()
	st.Cautions, st.ToolChanges = append(st.Cautions, cautions...), changes
	if o.tokens != nil {
		if caution := o.tokens.caution(o.spec.Name); caution != "" {
			st.Cautions = append(st.Cautions, caution)
		}
	}
	st.Server, st.Speaks = speaks(o.server)
	st.State, st.Reason, st.Processes = o.condition(o.server)
	if !o.started.IsZero() {
		started := o.started
		st.Started = &started
	}
	if o.gateway != nil {
		st.Sessions = o.gateway.Sessions()
	}
	return st
}

// Detached runs Main for a process started by manager.Manager: notices go to
// stdout as lines of JSON, and the end of stdin means that the starter has gone.
func Detached(ctx context.Context, cfg Config, stdin io.Reader, stdout *os.File) error {
	var mu sync.Mutex
	enc := json.NewEncoder(stdout)
	open := true
	cfg.Starter = stdin
	cfg.Notices = func(n manager.Notice) {
		mu.Lock()
		defer mu.Unlock()
		if !open {
			return
		}
		if n.Ready {
			// Starting took memory that serving does not need.
			debug.FreeOSMemory()
		}
		_ = enc.Encode(n) // fails when the starter is gone, which stdin shows
		if n.Ready || n.Failed != "" || n.Stopped || n.Taken {
			open = false
			stdout.Close()
		}
	}
	return Main(ctx, cfg)
}
