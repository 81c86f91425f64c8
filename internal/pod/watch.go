package pod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/toolhaven/toolhaven/internal/credential"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/serve"
	"github.com/toolhaven/toolhaven/internal/toolset"
	"github.com/toolhaven/toolhaven/internal/workload"
)

const (
	// openTimeout bounds the handshake with the server.
	openTimeout = 60 * time.Second
	// pingTimeout bounds a ping.
	pingTimeout = 15 * time.Second
	// lookGap is what lies between two pings because calls did not reach the server.
	lookGap = time.Second
	// listTime bounds the reading of all tools.
	listTime = 10 * time.Second
	// maxReason bounds text of the server in a reason, in characters.
	maxReason = 500
)

// watch keeps one session of the process's own with the server: that the server answers it is
// what ready means. It retries without end.
func (p *pod) watch(ctx context.Context, s *serving) {
	own := &serve.Own{Spec: p.spec, Backend: s.backend, Reach: s.reach, Peer: serve.NoPeer{}}
	var logged string
	for wait := minBackoff; ctx.Err() == nil; wait = min(2*wait, maxBackoff) {
		conn, err := p.open(ctx, own)
		if err != nil {
			reason := plaintext.Excerpt(err.Error(), maxReason)
			p.lose(reason)
			if reason != logged { // a server may be away for days
				logged = reason
				p.log.Warn("the server does not answer yet", "error", reason)
			}
			mark(s.reach, true)
			if !pause(ctx, wait, answered(s.reach)) {
				return
			}
			continue
		}
		wait, logged = minBackoff, ""
		mark(s.reach, false)
		p.set(workload.Running, "")
		p.log.Info("ready", "server", s.backend.ServerInfo().Name)
		reason := p.lost(ctx, own, conn)
		_ = conn.Close() // it is lost
		if ctx.Err() == nil {
			p.lose(reason)
			p.log.Warn("server lost", "reason", reason)
		}
	}
}

// lose notes why the server does not answer.
func (p *pod) lose(reason string) {
	p.mu.Lock()
	was := p.was
	p.mu.Unlock()
	if was {
		p.set(workload.Degraded, reason)
	} else {
		p.set(workload.Starting, reason)
	}
}

func mark(r *serve.Reach, lost bool) {
	if r != nil {
		r.Mark(lost)
	}
}

func answered(r *serve.Reach) <-chan struct{} {
	if r == nil {
		return nil
	}
	return r.Answered
}

// open performs the handshake, and compares the tools with their configuration.
func (p *pod) open(ctx context.Context, own *serve.Own) (exchange.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	conn, err := own.Connect(ctx)
	if err != nil {
		return nil, err
	}
	own.Backend.Unresponsive(nil)
	if p.spec.Tools.Config().IsZero() || serve.Callerless(conn) {
		return conn, nil
	}
	listing, cancel := context.WithTimeout(credential.Anonymous(ctx), listTime)
	defer cancel()
	id := int64(1)
	tools, err := toolset.ReadAll(func(params json.RawMessage) (*mcp.Message, error) {
		id++
		return conn.Do(listing, &exchange.Exchange{
			Client: serve.Self(), Request: &mcp.Message{ID: mcp.IntID(id), Method: mcp.MethodToolsList, Params: params}, Peer: serve.NoPeer{},
		})
	})
	if err != nil {
		// The server runs, and its clients receive that error themselves.
		p.log.Warn("the tools of the server were not compared with their configuration", "error", plaintext.Excerpt(err.Error(), maxReason))
		return conn, nil
	}
	p.tools.Observe(tools) // it logs what does not fit
	return conn, nil
}

// lost waits until the server is no longer there, and returns the reason.
func (p *pod) lost(ctx context.Context, own *serve.Own, conn exchange.Conn) string {
	ping := time.NewTicker(p.cfg.PingEvery)
	defer ping.Stop()
	var failed <-chan struct{}
	if own.Reach != nil {
		failed = own.Reach.Failed
	}
	var look <-chan time.Time // set while a ping is due
	var looked time.Time
	for {
		select {
		case <-ctx.Done():
			return ""
		case <-conn.Done():
			return "the server ended its connection"
		case <-failed:
			if look == nil {
				look = time.After(time.Until(looked.Add(lookGap)))
			}
			continue
		case <-look:
			look, looked = nil, time.Now()
		case <-ping.C:
		}
		if err := p.ping(ctx, own, conn); err != nil {
			return err.Error()
		}
	}
}

// ping checks that the server responds. One in this pod that does not may be at work on a call;
// of one elsewhere nothing but its answers is visible, and pending calls fail until it answers.
func (p *pod) ping(ctx context.Context, own *serve.Own, conn exchange.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	err := own.Ping(ctx, conn)
	if err == nil {
		return nil
	}
	if p.spec.Remote != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		own.Backend.Unresponsive(&mcp.Error{Code: mcp.CodeServerGone, Message: fmt.Sprintf("the server does not respond: it did not answer a ping within %s", pingTimeout)})
	}
	return fmt.Errorf("the server does not answer: %s", plaintext.Excerpt(err.Error(), maxReason))
}
