package owner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolhaven/toolhaven/internal/audit"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/serve"
	"github.com/toolhaven/toolhaven/internal/toolset"
)

const (
	// listTime bounds the reading of all tools.
	listTime = 30 * time.Second
	// checkTime bounds it at a start that waits for it.
	checkTime = 10 * time.Second
	// maxDescription bounds the description of a tool in a list, in characters.
	maxDescription = 500
)

// toolWatch compares the tools of the server with the tools configuration and with what is
// remembered of them. It reads the server's own list, before any filter, through the session
// of the watch. A nil toolWatch does nothing.
type toolWatch struct {
	owner *owner
	set   *toolset.Set
	// changed holds a token when the tools may have changed.
	changed chan struct{}
	running sync.WaitGroup // comparisons in the background
	busy    atomic.Bool    // one is running
	seed    maphash.Seed   // of seen
	lastID  atomic.Int64   // of the last request
	// recorder records changes, nil without an audit.
	recorder *audit.Recorder

	comparing sync.Mutex // held during a comparison, before mu
	pinned    bool       // the pins were set; guarded by comparing

	mu      sync.Mutex
	conn    exchange.Conn // nil until the server has responded
	faults  []string      // of the configuration
	changes []toolset.Change
	logged  map[string]bool // changes that have been logged
	seen    map[uint64]bool // hashes of the lists that clients received
}

// maxSeen bounds the lists that are recognized.
const maxSeen = 1000

func newToolWatch(o *owner) *toolWatch {
	return &toolWatch{
		owner: o, set: toolset.New(o.spec.Tools.Config(), o.log),
		changed: make(chan struct{}, 1), seed: maphash.MakeSeed(), logged: map[string]bool{}, seen: map[uint64]bool{},
	}
}

// stage is the gateway's stage for tools: that of the configuration, if there is one, around
// the look at the server's lists.
func (t *toolWatch) stage(next exchange.Handler) exchange.Handler {
	if t.owner.spec.Tools.Config().IsZero() {
		return t.look(next)
	}
	return t.set.Stage(t.look(next))
}

// look notes that the tools may have changed when a client receives a list that none has
// received before. It does not change or delay the list.
func (t *toolWatch) look(next exchange.Handler) exchange.Handler {
	return func(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
		m, err := next(ctx, x)
		if x.Request.Method == mcp.MethodToolsList && err == nil && m.Error == nil && t.isNew(m.Result) {
			t.note()
		}
		return m, err
	}
}

func (t *toolWatch) isNew(list []byte) bool {
	sum := maphash.Bytes(t.seed, list)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen[sum] {
		return false
	}
	if len(t.seen) >= maxSeen {
		clear(t.seen)
	}
	t.seen[sum] = true
	return true
}

// note notes that the tools may have changed.
func (t *toolWatch) note() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// toolPeer is the peer of the owner's own session. It notes that the list of tools has
// changed.
type toolPeer struct {
	serve.NoPeer
	tools *toolWatch
}

// Notify implements [exchange.Peer].
func (p toolPeer) Notify(m *mcp.Message) {
	if p.tools != nil && m.Method == mcp.NotificationToolsChanged {
		p.tools.note()
	}
}

// signal receives when the tools may have changed.
func (t *toolWatch) signal() <-chan struct{} {
	if t == nil {
		return nil
	}
	return t.changed
}

// start compares the tools of a server that has just responded. With a configuration of the
// tools the caller waits for it, so that clients are not served before. Otherwise it happens
// in the background. A list that cannot be read is logged: the server runs, and its clients
// receive that error themselves.
func (t *toolWatch) start(ctx context.Context, conn exchange.Conn) {
	if t == nil {
		return
	}
	t.mu.Lock()
	t.conn = conn
	t.mu.Unlock()
	if t.owner.spec.Tools.Config().IsZero() {
		t.again(ctx, conn)
		return
	}
	if t.owner.spec.Tools.Pin {
		conn.Listen()
	}
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	t.compare(ctx, conn)
	for _, fault := range t.faultsNow() {
		t.owner.cfg.Notices(manager.Notice{Progress: &manager.Event{Stage: manager.NoteStage, Message: fault}})
	}
}

// again compares the tools in the background. It returns false when a comparison is running
// already.
func (t *toolWatch) again(ctx context.Context, conn exchange.Conn) bool {
	if !t.busy.CompareAndSwap(false, true) {
		return false
	}
	t.running.Go(func() {
		defer t.busy.Store(false)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), listTime)
		defer cancel()
		t.compare(ctx, conn)
	})
	return true
}

// compare reads the tools and compares them, and logs why it cannot.
func (t *toolWatch) compare(ctx context.Context, conn exchange.Conn) {
	t.comparing.Lock()
	defer t.comparing.Unlock()
	if _, err := t.read(ctx, conn); err != nil {
		t.owner.log.Info("the tools of the server were not compared with what is remembered of them", "error", err)
		if !t.pinned && t.owner.spec.Tools.Pin {
			t.record(nil, []string{"no tool is shown, because there are no pins yet: " + err.Error()})
		}
	}
}

// read reads the tools and compares them. What is read first is remembered. The caller holds
// comparing.
func (t *toolWatch) read(ctx context.Context, conn exchange.Conn) ([]toolset.Tool, error) {
	store, name := t.owner.cfg.Store, t.owner.spec.Name
	pins, err := store.Pins(name)
	if err != nil {
		t.record(nil, []string{err.Error()})
		return nil, err
	}
	if pins != nil {
		t.pin(pins) // also when the list cannot be read
	}
	tools, err := t.list(ctx, conn)
	if err != nil {
		return nil, err
	}
	now, err := toolset.PinsOf(tools)
	if err != nil {
		return nil, err
	}
	if pins == nil {
		if err := store.SetPins(name, now); err != nil {
			return nil, err
		}
		pins = now
		t.pin(pins)
	}
	t.record(pins.Compare(now), t.set.Observe(tools))
	return tools, nil
}

// pin sets the pins once: a tool that a client was shown differently stays hidden until it is
// accepted. The caller holds comparing.
func (t *toolWatch) pin(pins toolset.Pins) {
	if !t.pinned {
		t.pinned = true
		t.set.Pin(pins)
	}
}

// list reads the server's own list of tools.
func (t *toolWatch) list(ctx context.Context, conn exchange.Conn) ([]toolset.Tool, error) {
	tools, err := toolset.ReadAll(func(params json.RawMessage) (*mcp.Message, error) {
		return conn.Do(ctx, &exchange.Exchange{
			Client:  serve.Self(),
			Request: &mcp.Message{ID: mcp.IntID(1 + t.lastID.Add(1)), Method: mcp.MethodToolsList, Params: params},
			Peer:    serve.NoPeer{},
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list the server's tools: %s", plaintext.Excerpt(err.Error(), maxDescription))
	}
	return tools, nil
}

// record keeps the outcome of a comparison. It logs and audits each change once.
func (t *toolWatch) record(changes []toolset.Change, faults []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changes, t.faults = changes, faults
	for _, c := range changes {
		if text := c.String(); !t.logged[text] {
			t.logged[text] = true
			t.owner.log.Warn(text)
			if t.recorder != nil {
				t.recorder.ToolChanged(c.Tool, text, t.owner.spec.Tools.Pin && c.Kind != "removed")
			}
		}
	}
}

func (t *toolWatch) faultsNow() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.faults
}

// cautions are what a person should know of the tools, in sentences, and the number of tools
// that have changed.
func (t *toolWatch) cautions() (sentences []string, changes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sentences = append(sentences, t.faults...)
	if len(t.changes) > 0 {
		sentences = append(sentences, fmt.Sprintf("tools have changed since they were first seen or accepted (%d); `thv tools diff %s` shows them, `thv tools accept %s` accepts them",
			len(t.changes), t.owner.spec.Name, t.owner.spec.Name))
	}
	return sentences, len(t.changes)
}

// request begins a request of the control socket, which holds comparing until end is called.
// It returns the owner's own session, which there is once the server has responded.
func (t *toolWatch) request(ctx context.Context) (_ context.Context, conn exchange.Conn, end func(), err error) {
	t.mu.Lock()
	conn = t.conn
	t.mu.Unlock()
	if conn == nil {
		return nil, nil, nil, errors.New("its server has not responded yet")
	}
	ctx, cancel := context.WithTimeout(ctx, listTime)
	t.comparing.Lock()
	return ctx, conn, func() { t.comparing.Unlock(); cancel() }, nil
}

// response is the response of the control socket with all tools.
func (t *toolWatch) response(ctx context.Context) (*toolset.List, error) {
	ctx, conn, end, err := t.request(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	tools, err := t.read(ctx, conn)
	if err != nil {
		return nil, err
	}
	list := &toolset.List{Workload: t.owner.spec.Name, Tools: []toolset.Listed{}}
	for _, tool := range tools {
		v, err := t.set.View(tool)
		if err != nil {
			return nil, fmt.Errorf("read tool %q: %w", plaintext.Excerpt(tool.Name, maxDescription), err)
		}
		shown := v.Hidden == toolset.Visible
		list.Tools = append(list.Tools, toolset.Listed{
			Name: tool.Name, VisibleName: v.Name, Shown: shown, Hidden: string(v.Hidden),
			Description: plaintext.Excerpt(v.Description, maxDescription), Tokens: v.Tokens(),
		})
		count(&list.All, v)
		if shown {
			count(&list.Shown, v)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	list.Changes = t.changes
	return list, nil
}

func count(total *toolset.Total, v toolset.View) {
	total.Tools++
	total.Tokens += v.Tokens()
}

// accept remembers the tools as they are now, and returns what had changed.
func (t *toolWatch) accept(ctx context.Context) ([]toolset.Change, error) {
	o := t.owner
	ctx, conn, end, err := t.request(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	tools, err := t.list(ctx, conn)
	if err != nil {
		return nil, err
	}
	now, err := toolset.PinsOf(tools)
	if err != nil {
		return nil, err
	}
	before, err := o.cfg.Store.Pins(o.spec.Name)
	if err != nil {
		o.log.Warn("the pins are replaced", "error", err)
	}
	if err := o.cfg.Store.SetPins(o.spec.Name, now); err != nil {
		return nil, err
	}
	o.log.Info("the tools of the server were accepted")
	t.pinned = true
	t.set.Pin(now)
	t.record(nil, t.set.Observe(tools))
	return before.Compare(now), nil
}
