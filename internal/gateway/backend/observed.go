package backend

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// observed is what a server has said of itself, to whichever client, guarded by bridge.mu.
type observed struct {
	name, version string
	session       exchange.EraVersion
	// sessionless: it takes initialize, but keeps no session.
	sessionless bool
}

// maxName bounds, in bytes, what is kept of a server's name, and of its version.
const maxName = 256

// implementation notes who the server says it is.
func (h *observed) implementation(info json.RawMessage, path ...string) {
	own, found, err := mcp.Lookup(info, path...)
	if err != nil || !found {
		return
	}
	name, _, _ := mcp.LookupString(own, "name")
	version, _, _ := mcp.LookupString(own, "version")
	h.name, h.version = shortened(name), shortened(version)
}

// shortened is at most maxName bytes of s, in whole characters.
func shortened(s string) string {
	if len(s) <= maxName {
		return s
	}
	return strings.ToValidUTF8(s[:maxName], "")
}

// opened notes what came of an attempt to begin a session in version asked. What a
// server says to a client of an older version is not all that it can. One that refused
// what a server of the session era does not is not believed any more to be of that era.
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
	before, info := b.observed, conn.InitializeResult()
	b.observed.implementation(info, "serverInfo")
	b.observed.sessionless = sessionless(conn)
	if v, _, _ := mcp.LookupString(info, "protocolVersion"); newest || !before.session.IsVersion() {
		b.observed.session = exchange.EraVersion(v)
	}
	// Another server than before, whatever that one said of the other era.
	if before.session != "" && (before.session == exchange.EraUnsupported || before.name != b.observed.name ||
		before.version != b.observed.version || before.sessionless != b.observed.sessionless) {
		b.discovered, b.refused = nil, nil
	}
}

// introduced notes a DiscoverResult that a client has asked for.
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
	case b.stateless == nil, b.refused != nil && !b.until.IsZero():
		s.Stateless = exchange.EraUnsupported
	}
	// A refusal of initialize is its word on the era only if it speaks the other one.
	if s.Session == exchange.EraUnsupported && !s.Stateless.IsVersion() {
		s.Session = exchange.EraUnknown
	}
	s.SessionTranslated = s.Stateless.IsVersion() && !b.asIs && (s.Session == exchange.EraUnsupported || b.observed.sessionless)
	s.StatelessTranslated = s.Stateless == exchange.EraUnsupported && s.Session.IsVersion()
	return s
}
