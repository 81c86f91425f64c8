package owner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/credential"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/serve"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// How a watch paces itself.
const (
	pingTimeout = 15 * time.Second
	minBackoff  = 250 * time.Millisecond
	maxBackoff  = 30 * time.Second
	// maxRemoteBackoff is shorter: nothing is started to try a remote server again.
	maxRemoteBackoff = 5 * time.Second
	// lookGap is what lies between two looks at a server that calls do not reach,
	// and between two attempts because a call reached it again.
	lookGap = time.Second
	// endNews is how long it may take until the end of a server is reported from its
	// container.
	endNews = 500 * time.Millisecond
)

// watch keeps one connection of the owner's own to the server. That the server
// answered it is what "running" means; when the connection is lost the workload
// is degraded until the server answers again. It never ends the workload.
type watch struct {
	owner   *owner
	backend exchange.Backend
	conn    exchange.Conn
	// minWait and maxWait bound the interval of attempts to reach a lost server.
	minWait, maxWait time.Duration
	looked           time.Time // when the server was pinged last because a call failed
}

func newWatch(o *owner, b exchange.Backend) *watch {
	w := &watch{owner: o, backend: b, minWait: minBackoff, maxWait: maxBackoff}
	if o.instance == nil {
		w.maxWait = maxRemoteBackoff
	}
	return w
}

// first starts the server and waits for its first response. A server that has
// ended cannot respond any more; one that refuses the connection may still be
// starting. A remote server that was reached in an earlier life may be down for a
// while: that is no error, and keep goes on trying.
func (w *watch) first(ctx context.Context) error {
	err := w.tryFirst(ctx)
	if err == nil || ctx.Err() != nil || !w.owner.again || w.owner.instance != nil || w.owner.cfg.Foreground {
		return err
	}
	w.owner.log.Warn("the server does not answer yet", "error", err)
	w.owner.set(workload.Degraded, err.Error())
	return nil
}

func (w *watch) tryFirst(ctx context.Context) error {
	if s := w.owner.instance; s != nil {
		// What an image takes to be pulled or built is not the server's time.
		if _, err := s.image.get(ctx); err != nil {
			return err
		}
	}
	late := fmt.Errorf("the server did not answer within %s%s", w.owner.cfg.StartTimeout, w.transportHint())
	ctx, cancel := context.WithTimeoutCause(ctx, w.owner.cfg.StartTimeout, late)
	defer cancel()
	if s := w.owner.instance; s != nil {
		if err := s.start(ctx); err != nil {
			return err
		}
	}
	w.owner.cfg.Notices(manager.Notice{Progress: &manager.Event{Stage: "server", Message: "waiting for the server to answer"}})
	ended := make(<-chan struct{})
	if s := w.owner.instance; s != nil {
		ended = s.ended()
		waiting, giveUp := context.WithCancelCause(ctx)
		var patient sync.WaitGroup
		patient.Go(func() { w.owner.reportSlowStart(waiting, giveUp) })
		defer func() { giveUp(nil); patient.Wait() }() // nothing is reported after the return
		ctx = waiting
	}
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := w.open(ctx)
		if err == nil {
			return nil
		}
		if errors.Is(err, backend.ErrNoProtocolOutput) {
			return fmt.Errorf("%w; if it serves HTTP, run it with --transport streamable-http or sse; if it is slow to start, set THV_START_TIMEOUT higher than %s",
				err, w.owner.cfg.StartTimeout)
		}
		if !w.mayBeStarting() && ctx.Err() == nil {
			return fmt.Errorf("the server did not answer: %w", err)
		}
		select {
		case <-ended:
			return errors.New(w.owner.instance.why(ctx) + " before it answered")
		case <-ctx.Done():
			if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
				if !errors.Is(cause, late) || errors.Is(err, cause) || strings.Contains(err.Error(), cause.Error()) {
					return cause
				}
				return fmt.Errorf("%w (%v)", cause, err)
			}
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// transportHint is what may be wrong with a server that runs and does not respond.
func (w *watch) transportHint() string {
	o := w.owner
	switch {
	case o.instance == nil:
		return ""
	case o.spec.Transport == workload.Stdio:
		return "; if it serves HTTP, run it with --transport streamable-http or sse"
	}
	return fmt.Sprintf("; it must listen on port %d in its container, or on the one that --target-port names", o.spec.TargetPort)
}

// mayBeStarting: only a server that listens on a port can refuse a connection because it
// is still starting. A stdio process is there or has failed, and a remote server is up or
// is not.
func (w *watch) mayBeStarting() bool {
	return w.owner.instance != nil && w.owner.spec.Transport != workload.Stdio
}

// open performs the handshake and notes that the server has responded.
func (w *watch) open(ctx context.Context) error {
	conn, err := w.own().Connect(ctx)
	if err != nil {
		return err
	}
	w.conn = conn
	w.backend.Unresponsive(nil)
	o := w.owner
	if !serve.Callerless(conn) {
		o.tools.start(credential.Anonymous(ctx), conn)
	}
	exposed := o.instance.exposed(ctx)
	if exposed != "" {
		o.log.Warn("the server can be reached past the gateway by programs on this machine; it should listen on its loopback address only", "address", exposed)
	}
	o.set(workload.Running, "")
	o.mu.Lock()
	defer o.mu.Unlock()
	o.exposed = exposed
	if o.started.IsZero() {
		o.started = time.Now().UTC()
	}
	return nil
}

// keep watches until ctx ends, and starts the server again whenever it is lost. In
// the foreground it returns when the server is lost, with the reason.
func (w *watch) keep(ctx context.Context) error {
	defer func() {
		if w.conn != nil {
			w.conn.Close()
		}
	}()
	w.mark(false) // what was reported while the server started is old
	if w.conn == nil {
		w.mark(true)
		w.recover(ctx)
		w.mark(false)
	}
	for ctx.Err() == nil {
		reason := w.lost(ctx)
		if ctx.Err() != nil {
			break
		}
		w.owner.log.Warn("server lost", "reason", reason)
		if w.owner.cfg.Foreground {
			return errors.New(reason)
		}
		w.owner.set(workload.Degraded, reason)
		w.conn.Close()
		w.mark(true)
		w.recover(ctx)
		w.mark(false)
	}
	return ctx.Err()
}

// mark notes in reach whether the server is considered lost.
func (w *watch) mark(lost bool) {
	if r := w.owner.reach; r != nil {
		r.Mark(lost)
	}
}

// signals are the notifications of reach: a call did not reach the server, and a call
// did although it was considered lost. Both are nil for a stdio server.
func (w *watch) signals() (failed, answered <-chan struct{}) {
	if r := w.owner.reach; r != nil {
		return r.Failed, r.Answered
	}
	return nil, nil
}

// lost waits until the server is no longer there, and returns the reason.
func (w *watch) lost(ctx context.Context) string {
	ended := make(<-chan struct{})
	if s := w.owner.instance; s != nil {
		ended = s.ended()
	}
	ping := time.NewTicker(w.owner.cfg.PingEvery)
	defer ping.Stop()
	failed, _ := w.signals()
	var look, list <-chan time.Time // set while a ping, or a list of the tools, is due
	for {
		select {
		case <-ctx.Done():
			return ""
		case <-ended:
			return w.owner.instance.why(ctx)
		case <-w.conn.Done():
			return "the server ended its connection"
		case <-ping.C:
			if err := w.ping(ctx); err != nil {
				return w.verdict(ctx, ended, err)
			}
		case <-failed:
			// However many calls fail, there is one ping, and lookGap between two.
			if look == nil {
				look = time.After(time.Until(w.looked.Add(lookGap)))
			}
		case <-w.owner.tools.signal():
			if list == nil {
				list = time.After(lookGap) // a change of several tools is several notifications
			}
		case <-list:
			list = nil
			if !w.owner.tools.again(credential.Anonymous(ctx), w.conn) {
				list = time.After(lookGap)
			}
		case <-look:
			look = nil
			err := w.ping(ctx)
			w.looked = time.Now()
			if err != nil {
				return w.verdict(ctx, ended, err)
			}
		}
	}
}

// verdict is why a server that does not respond is lost: how it ended, if it did. Calls
// may fail before the news of that end has come.
func (w *watch) verdict(ctx context.Context, ended <-chan struct{}, err error) string {
	if w.owner.instance == nil {
		return err.Error()
	}
	news := time.NewTimer(endNews)
	defer news.Stop()
	select {
	case <-ended:
		return w.owner.instance.why(ctx)
	case <-news.C:
	case <-ctx.Done():
	}
	return err.Error()
}

// own is the owner's own session.
func (w *watch) own() *serve.Own {
	return &serve.Own{Spec: w.owner.spec, Backend: w.backend, Reach: w.owner.reach, Peer: toolPeer{tools: w.owner.tools}}
}

// ping checks that the server responds, in bounded time.
func (w *watch) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	err := w.own().Ping(ctx, w.conn)
	if err == nil {
		return nil
	}
	reason := ""
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		reason = fmt.Sprintf("it did not answer a ping within %s", pingTimeout)
	case timedOut(err): // to connect takes less time than a ping may take
		reason = "a connection to it timed out"
	}
	if reason != "" && w.frozen() {
		w.backend.Unresponsive(&mcp.Error{Code: mcp.CodeServerGone, Message: "the server does not respond: " + reason})
	}
	return fmt.Errorf("the server does not answer: %w", err)
}

// timedOut reports whether err is, or wraps, the error of an operation that timed out.
func timedOut(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

// frozen reports whether a server that answers no ping cannot run. A server in a container
// may be at work on a call instead, which then goes on: many run a tool on the thread that
// reads. Of a remote server nothing but its answers is visible.
func (w *watch) frozen() bool {
	i := w.owner.instance
	if i == nil {
		return true
	}
	i.mu.Lock()
	server := i.http
	i.mu.Unlock()
	if server == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return server.Frozen(ctx)
}

// recover tries until the server responds again or ctx ends: at growing intervals, and
// soon when a call has reached it.
func (w *watch) recover(ctx context.Context) {
	var logged string
	var tried time.Time
	for wait := w.minWait; ; wait = min(2*wait, w.maxWait) {
		if !w.pause(ctx, wait, tried) {
			return
		}
		err := w.again(ctx)
		tried = time.Now()
		if err != nil {
			w.mark(true) // the attempt may have got a response; it is no call
			// A server may be away for days; each reason is logged once.
			if err.Error() != logged {
				logged = err.Error()
				w.owner.log.Warn("server not back yet", "error", err)
			}
			w.owner.set(workload.Degraded, err.Error())
			continue
		}
		w.owner.mu.Lock()
		w.owner.restarts++
		w.owner.mu.Unlock()
		w.owner.log.Info("server is back")
		return
	}
}

// pause waits before the next attempt, and less when a call has reached the server.
// tried is when the last one was. It is false when ctx has ended.
func (w *watch) pause(ctx context.Context, wait time.Duration, tried time.Time) bool {
	_, answered := w.signals()
	due := time.NewTimer(wait)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-due.C:
			return true
		case <-answered:
			answered = nil // one is enough
			if tried.IsZero() || lookGap < wait {
				due.Reset(time.Until(tried.Add(lookGap)))
			}
		}
	}
}

// again starts the container if that is missing, and connects.
func (w *watch) again(ctx context.Context) error {
	s := w.owner.instance
	if s != nil && !s.alive() {
		if _, err := s.image.get(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, w.owner.cfg.StartTimeout)
	defer cancel()
	if s == nil {
		return w.open(ctx)
	}
	if s.alive() {
		return w.open(ctx)
	}
	if err := s.tearDown(ctx); err != nil {
		// start looks again, and decides about what is left.
		w.owner.log.Warn("the old container cannot be removed", "error", err)
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	ended := s.ended()
	for {
		err := w.open(ctx)
		if err == nil || !w.mayBeStarting() {
			return err
		}
		select {
		case <-ended:
			return errors.New(s.why(ctx) + " before it answered")
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}
