package stdio

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/guest"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Defaults of [Config].
const (
	defaultMaxProcesses = 32
	defaultQueueTimeout = 30 * time.Second
	defaultLinger       = time.Second
	// defaultStatelessLinger is longer: clients of the stateless era have no session
	// that keeps their process between two calls. A process that lingers is reclaimed
	// at the cap.
	defaultStatelessLinger = time.Minute
)

// Config configures a [Pool].
type Config struct {
	// Spawn starts one process of the server.
	Spawn func(ctx context.Context) (guest.Process, error)
	// MaxProcesses bounds the processes that exist at any time; 0 means 32.
	MaxProcesses int
	// QueueTimeout is how long a session waits for a process when all are in
	// use; 0 means 30 seconds.
	QueueTimeout time.Duration
	// Linger is how long a shared process stays after its last session; 0 means
	// one second.
	Linger time.Duration
	// StatelessLinger is how long a process for clients of the stateless era stays
	// after its last exchange; 0 means one minute.
	StatelessLinger time.Duration
	// CheckAfter is how long a process with pending requests may send nothing before it
	// is checked (see liveness.go); 0 means 20 seconds.
	CheckAfter time.Duration
	// RoomTime is how long a process is held back because a client does not read (see
	// pacer.go); 0 means 10 seconds, and 2 for a process that clients share.
	RoomTime time.Duration
	// Stray receives the first lines of a process's standard output that are
	// not messages, as a diagnostic. It may be nil, and is written to by several
	// goroutines.
	Stray io.Writer
	// Log may be nil.
	Log *slog.Logger
}

// NewPool returns the pool of a server's processes. It starts none.
func NewPool(cfg Config) *Pool {
	if cfg.MaxProcesses <= 0 {
		cfg.MaxProcesses = defaultMaxProcesses
	}
	if cfg.QueueTimeout <= 0 {
		cfg.QueueTimeout = defaultQueueTimeout
	}
	if cfg.Linger <= 0 {
		cfg.Linger = defaultLinger
	}
	if cfg.StatelessLinger <= 0 {
		cfg.StatelessLinger = defaultStatelessLinger
	}
	if cfg.CheckAfter <= 0 {
		cfg.CheckAfter = defaultCheckAfter
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	b := &Pool{
		cfg:       cfg,
		shared:    map[sharing]*sharedProcess{},
		processes: map[*process]struct{}{},
	}
	b.slots = newSlots(&b.cfg, b.reclaim)
	b.ctx, b.stop = context.WithCancelCause(context.Background())
	return b
}

// Pool starts, shares and ends the processes of one server.
type Pool struct {
	exchange.BackendDefaults
	cfg   Config
	slots *slots

	ctx  context.Context // ends with Close
	stop context.CancelCauseFunc
	work wire.Group // one for each process, and for each start of a shared one

	// mu also guards the usage of the processes, and shared processes. It is taken before
	// the locks of slots and preferences.
	mu        sync.Mutex
	closed    bool
	shared    map[sharing]*sharedProcess
	processes map[*process]struct{}
}

// Open begins a session in a process of its own, or in a shared one.
func (b *Pool) Open(ctx context.Context, client *exchange.Client, session exchange.Peer) (exchange.Conn, error) {
	key, mayShare, err := sharingOf(client)
	if err != nil {
		return nil, err
	}
	c := newConn(b, client, session)
	var p *process
	if mayShare {
		p, err = b.join(ctx, key, client, func(p *process) { p.admit(c) })
	} else {
		p, err = b.begin(ctx, c)
	}
	if err != nil {
		c.cancel(err)
		return nil, err
	}
	c.assign(p)
	return c, nil
}

// begin starts a process for c alone.
func (b *Pool) begin(ctx context.Context, c *conn) (*process, error) {
	p, err := b.start(ctx, c.client, c.session, nil)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.over() {
		return nil, p.why()
	}
	p.admit(c)
	return p, nil
}

// start starts a process and performs the handshake on behalf of client, unless
// the process is of the stateless era, which has none. shared is nil for a process of one
// session, whose Peer is session.
func (b *Pool) start(ctx context.Context, client *exchange.Client, session exchange.Peer, shared *sharedProcess) (*process, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(b.ctx, func() { cancel(wire.ErrStopped) })()
	// Close also waits for a process that is being started.
	if !b.work.Enter() {
		return nil, wire.ErrStopped
	}
	defer b.work.Leave()
	if err := b.slots.acquire(ctx); err != nil {
		return nil, err
	}
	server, err := b.spawn(ctx)
	if err != nil {
		b.slots.release()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, wire.ServerGone("the server could not be started: %v", err)
	}
	p := newProcess(b, server, session, shared)
	if !b.work.Go(p.run) {
		p.serverRequests.Close()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			b.cfg.Log.Error("the server's process could not be stopped", "error", err)
		}
		b.slots.release()
		return nil, wire.ErrStopped
	}
	b.mu.Lock()
	b.processes[p] = struct{}{}
	if shared != nil {
		shared.starting = p
	}
	closed := b.closed
	b.mu.Unlock()
	if closed {
		p.end(wire.ErrStopped)
		return nil, wire.ErrStopped
	}
	if p.stateless != nil {
		return p, nil
	}
	err = wire.WithinHandshakeTimeout(ctx, "the server", func(ctx context.Context) (err error) {
		p.info, err = p.handshake(ctx, client, session, func(v mcp.Version) { p.version.Store(&v) })
		return err
	})
	if err != nil && !p.over() && !errors.Is(ctx.Err(), context.Canceled) && p.reader.strayOnly() {
		err = ErrNoProtocolOutput
	}
	if err != nil {
		p.end(err)
		return nil, err
	}
	return p, nil
}

// spawn starts a process within [wire.HandshakeTimeout]: in a paused container the start
// never completes.
func (b *Pool) spawn(ctx context.Context) (guest.Process, error) {
	late := wire.ServerGone("the server's process did not start within %s", wire.HandshakeTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, wire.HandshakeTimeout, late)
	defer cancel()
	server, err := b.cfg.Spawn(ctx)
	if err != nil && errors.Is(context.Cause(ctx), late) {
		return nil, late
	}
	return server, err
}

// Stateless returns the connection to the server in the stateless era.
func (b *Pool) Stateless() wire.Stateless { return stateless{b} }

// Waiting returns the number of callers that wait for a slot.
func (b *Pool) Waiting() int { return int(b.slots.waiting.Load()) }

// SetEvictor implements [exchange.Backend].
func (b *Pool) SetEvictor(evict func()) { b.slots.evictCall = evict }

// lost removes a process that is ending from the sharing table and ends its sessions.
func (b *Pool) lost(p *process) {
	b.mu.Lock()
	sessions := p.use.sessions
	p.use.sessions = nil
	if p.shared != nil {
		p.shared.withdraw()
	}
	b.mu.Unlock()
	for c := range sessions {
		c.lose(p)
	}
}

// ended frees the slot of a process that has exited.
func (b *Pool) ended(p *process) {
	b.mu.Lock()
	delete(b.processes, p)
	b.slots.release()
	b.slots.setBusy(false)
	b.mu.Unlock()
}

// Close ends every process and waits until they have exited.
func (b *Pool) Close() error {
	b.mu.Lock()
	b.closed = true
	all := make([]*process, 0, len(b.processes))
	for p := range b.processes {
		all = append(all, p)
	}
	b.mu.Unlock()
	b.stop(wire.ErrStopped)
	for _, p := range all {
		p.end(wire.ErrStopped)
	}
	b.work.Close()
	return nil
}
