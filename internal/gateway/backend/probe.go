package backend

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// eraTime is how long server/discover is not sent again to a server that refused it.
const eraTime = 10 * time.Minute

// discoverTime bounds the wait for an answer to server/discover. A server of the
// session era may never send one.
const discoverTime = 10 * time.Second

// eraProbe determines the eras of a server by server/discover, and records what the server
// reported about itself in either era.
type eraProbe struct {
	server wire.Stateless // nil when the transport does not exist in that era
	flight singleflight.Group

	mu sync.Mutex
	// discovered is the server's DiscoverResult; nil if server/discover was not sent or
	// failed.
	discovered json.RawMessage
	refused    error // of the last server/discover
	until      time.Time
	silent     bool // there was no response to the last server/discover in time
	observed   observed
}

// discover returns the server's DiscoverResult, or the reason why the server is not of
// the stateless era. It sends server/discover, bounded by patience, unless the outcome is
// cached.
func (p *eraProbe) discover(ctx context.Context, patience time.Duration) (json.RawMessage, error) {
	if info, known, err := p.known(); known {
		return info, err
	}
	return wire.Shared(ctx, &p.flight, "", patience, func(ctx context.Context) (json.RawMessage, error) {
		if info, known, err := p.known(); known {
			return info, err
		}
		return p.sendAndCache(ctx)
	})
}

// rediscover is discover, but a cached DiscoverResult is not used: the response shows that
// the server is there.
func (p *eraProbe) rediscover(ctx context.Context) (json.RawMessage, error) {
	if info, known, err := p.known(); known && info == nil {
		return nil, err
	}
	return wire.Shared(ctx, &p.flight, "", wire.ProbeTimeout, p.sendAndCache)
}

// mayBeStateless reports whether a server may be of the stateless era although its response
// to server/discover is missing with err: the server was not reached, or is known to be of
// that era.
func (p *eraProbe) mayBeStateless(err error) bool {
	if _, ok := errors.AsType[*wire.NotConnectedError](err); ok {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.discovered != nil
}

// sendAndCache sends server/discover and caches what the server responded. The
// outcome is not cached if there was no response of the server.
func (p *eraProbe) sendAndCache(ctx context.Context) (json.RawMessage, error) {
	info, err := p.send(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && !wire.IsRefusal(err) {
		if p.silent = ctx.Err() != nil; p.silent {
			err = errSilent
		}
		return nil, err
	}
	p.discovered, p.refused, p.until, p.silent = info, err, time.Now().Add(eraTime), false
	p.observed.implementation(info, "_meta", mcp.MetaServerInfo)
	return info, err
}

func (p *eraProbe) known() (info json.RawMessage, known bool, refused error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.discovered, p.discovered != nil || p.refused != nil && time.Now().Before(p.until), p.refused
}

// refuses reports whether the server refused server/discover.
func (p *eraProbe) refuses(ctx context.Context) bool {
	_, err := p.discover(ctx, discoverTime)
	return err != nil && wire.IsRefusal(err)
}

// forget discards the result of server/discover, so that it is sent again.
func (p *eraProbe) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.discovered, p.refused = nil, nil
}

// forgetRefusal discards the refusal of server/discover: the server may support the
// stateless era by now.
func (p *eraProbe) forgetRefusal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = nil
}

// send sends server/discover, and once more when the server refuses the version
// and lists one that the gateway supports (MCP 2026-07-28, Versioning, Protocol Version
// Negotiation).
func (p *eraProbe) send(ctx context.Context) (json.RawMessage, error) {
	answer, err := p.sendIn(ctx, mcp.LatestStateless)
	if err == nil && answer.Error != nil {
		listed, _ := wire.SupportedVersions(answer.Error)
		for _, v := range mcp.StatelessVersions() {
			if slices.Contains(listed, v) {
				answer, err = p.sendIn(ctx, v)
				break
			}
		}
	}
	if err != nil {
		return nil, err
	}
	if answer.Error != nil {
		return nil, &wire.OtherEraError{Err: answer.Error}
	}
	supported, ok := wire.VersionsIn(answer.Result, "supportedVersions")
	if !ok {
		return nil, &wire.OtherEraError{Err: wire.ServerGone("the server answered server/discover with something else")}
	}
	if !slices.Contains(supported, mcp.LatestStateless) {
		return nil, &wire.OtherEraError{Err: wire.ServerGone("the server speaks no version of the stateless era that we do")}
	}
	return answer.Result, nil
}

// sendIn sends server/discover in version v.
func (p *eraProbe) sendIn(ctx context.Context, v mcp.Version) (*mcp.Message, error) {
	x, err := wire.DiscoverRequest(v)
	if err != nil {
		return nil, err
	}
	return p.server.Do(ctx, x)
}
