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
// bridge.mu.
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

// opened records the outcome of an attempt to begin a session in version asked. The
// version of the response is recorded if asked is the newest one, or if none is recorded
// yet: to an older client a server may respond with less than it supports. A refusal
// discards the cached refusal of server/discover, since a server of the session era would
// have accepted.
func (b *bridge) opened(asked mcp.Version, conn exchange.Conn, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	newest := asked == mcp.LatestSession
	if err != nil {
		if !wire.IsRefusal(err) {
			return
		}
		b.refused = nil
		if newest {
			b.observed.session = exchange.EraUnsupported
		}
		return
	}
	if b.silent && !sessionless(conn) {
		// The server responds to initialize and not to server/discover.
		b.refused, b.until, b.silent = errSilent, time.Now().Add(eraTime), false
	}
	before, info := b.observed, conn.InitializeResult()
	b.observed.implementation(info, "serverInfo")
	b.observed.sessionless = sessionless(conn)
	if v, _, _ := mcp.LookupString(info, "protocolVersion"); newest || !before.session.IsVersion() {
		b.observed.session = exchange.EraVersion(v)
	}
	// The server was replaced by another one: the cached outcome of server/discover is
	// that of the earlier one.
	if before.session != "" && (before.session == exchange.EraUnsupported || before.name != b.observed.name ||
		before.version != b.observed.version || before.sessionless != b.observed.sessionless) {
		b.discovered, b.refused = nil, nil
	}
}

// introduced records a DiscoverResult that a client has requested.
func (b *bridge) introduced(result json.RawMessage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.observed.implementation(result, "_meta", mcp.MetaServerInfo)
}

// ServerInfo implements [exchange.Backend].
func (b *bridge) ServerInfo() exchange.ServerInfo {
	b.mu.Lock()
	defer b.mu.Unlock()
	var processes exchange.Processes
	if pool, ok := b.sessions.(interface{ Processes() exchange.Processes }); ok {
		processes = pool.Processes()
	}
	s := exchange.ServerInfo{Processes: processes, Name: b.observed.name, Version: b.observed.version, Stateless: exchange.EraUnknown}
	s.Session = cmp.Or(b.observed.session, exchange.EraUnknown)
	switch {
	case b.discovered != nil:
		s.Stateless = exchange.EraVersion(mcp.LatestStateless)
	case b.stateless == nil, b.refused != nil:
		s.Stateless = exchange.EraUnsupported
	}
	// A refusal of initialize shows that the session era is unsupported only if the server
	// supports the other era.
	if s.Session == exchange.EraUnsupported && !s.Stateless.IsVersion() {
		s.Session = exchange.EraUnknown
	}
	s.SessionTranslated = s.Stateless.IsVersion() && !b.asIs && (s.Session == exchange.EraUnsupported || b.observed.sessionless)
	s.StatelessTranslated = s.Stateless == exchange.EraUnsupported && s.Session.IsVersion()
	return s
}
