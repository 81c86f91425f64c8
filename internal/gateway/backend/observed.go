package backend

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// observed is what a server last reported about itself, to any client. It is guarded by
// eraProbe.mu.
type observed struct {
	name, version string
	session       exchange.EraVersion
	// sessionless: the server accepts initialize without a session id.
	sessionless bool
}

// maxName bounds the stored name and the stored version of a server, each in bytes.
const maxName = 256

// implementation records the name and version in the Implementation at path of info.
func (h *observed) implementation(info json.RawMessage, path ...string) {
	own, found, err := mcp.Lookup(info, path...)
	if err != nil || !found {
		return
	}
	name, _, _ := mcp.LookupString(own, "name")
	version, _, _ := mcp.LookupString(own, "version")
	h.name, h.version = shortened(name), shortened(version)
}

// shortened returns at most maxName bytes of s, without a partial character.
func shortened(s string) string {
	if len(s) <= maxName {
		return s
	}
	return strings.ToValidUTF8(s[:maxName], "")
}

// errSilent is the error of server/discover without a response in time. It is cached when
// the server begins a session afterwards.
var errSilent = wire.ServerGone("the server did not respond to %s in time", mcp.MethodDiscover)

// opened records the outcome of an attempt to begin a session in version requested. The
// version of the response is recorded if requested is the newest one, or if none is recorded
// yet: to an older client a server may respond with less than it supports. A refusal
// discards the cached refusal of server/discover, since a server of the session era would
// have accepted.
func (p *eraProbe) opened(requested mcp.Version, conn exchange.Conn, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	newest := requested == mcp.LatestSession
	if err != nil {
		if !wire.IsRefusal(err) {
			return
		}
		p.refused = nil
		if newest {
			p.observed.session = exchange.EraUnsupported
		}
		return
	}
	if p.silent && !sessionless(conn) {
		// The server responds to initialize and not to server/discover.
		p.refused, p.until, p.silent = errSilent, time.Now().Add(eraTime), false
	}
	before, info := p.observed, conn.InitializeResult()
	p.observed.implementation(info, "serverInfo")
	p.observed.sessionless = sessionless(conn)
	if v, _, _ := mcp.LookupString(info, "protocolVersion"); newest || !before.session.IsVersion() {
		p.observed.session = exchange.EraVersion(v)
	}
	// The server was replaced by another one: the cached outcome of server/discover is
	// that of the earlier one.
	if before.session != "" && (before.session == exchange.EraUnsupported || before.name != p.observed.name ||
		before.version != p.observed.version || before.sessionless != p.observed.sessionless) {
		p.discovered, p.refused = nil, nil
	}
}

// introduced records a DiscoverResult that a client has requested.
func (p *eraProbe) introduced(result json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.observed.implementation(result, "_meta", mcp.MetaServerInfo)
}

// ServerInfo implements [exchange.Backend].
func (b *bridge) ServerInfo() exchange.ServerInfo {
	s, sessionless := b.probe.info()
	if pool, ok := b.sessions.(interface{ Processes() exchange.Processes }); ok {
		s.Processes = pool.Processes()
	}
	s.SessionTranslated = s.Stateless.IsVersion() && !b.asIs && (s.Session == exchange.EraUnsupported || sessionless)
	s.StatelessTranslated = s.Stateless == exchange.EraUnsupported && s.Session.IsVersion()
	return s
}

// info returns what the server last reported about itself. sessionless is set when it
// accepts initialize without a session id.
func (p *eraProbe) info() (s exchange.ServerInfo, sessionless bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s = exchange.ServerInfo{Name: p.observed.name, Version: p.observed.version, Stateless: exchange.EraUnknown}
	s.Session = cmp.Or(p.observed.session, exchange.EraUnknown)
	switch {
	case p.discovered != nil:
		s.Stateless = exchange.EraVersion(mcp.LatestStateless)
	case p.server == nil, p.refused != nil:
		s.Stateless = exchange.EraUnsupported
	}
	// A refusal of initialize shows that the session era is unsupported only if the server
	// supports the other era.
	if s.Session == exchange.EraUnsupported && !s.Stateless.IsVersion() {
		s.Session = exchange.EraUnknown
	}
	return s, p.observed.sessionless
}
