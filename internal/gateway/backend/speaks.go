package backend

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/toolhaven/toolhaven/internal/gateway"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// heard is what a server has said of itself, to whichever client, guarded by bridge.mu.
type heard struct {
	name, version string
	session       gateway.Speech
	// sessionless: it takes initialize, but keeps no session.
	sessionless bool
}

// maxName bounds, in bytes, what is kept of a server's name, and of its version.
const maxName = 256

// implementation notes who the server says it is.
func (h *heard) implementation(info json.RawMessage, path ...string) {
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
func (b *bridge) opened(asked mcp.Version, conn gateway.Conn, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	newest := asked == mcp.LatestSession
	if err != nil {
		if !refusedByServer(err) {
			return
		}
		b.refused = nil
		if newest {
			b.heard.session = gateway.SpeechNo
		}
		return
	}
	before, info := b.heard, conn.ServerInfo()
	b.heard.implementation(info, "serverInfo")
	b.heard.sessionless = sessionless(conn)
	if v, _, _ := mcp.LookupString(info, "protocolVersion"); newest || !before.session.IsVersion() {
		b.heard.session = gateway.Speech(v)
	}
	// Another server than before, whatever that one said of the other era.
	if before.session != "" && (before.session == gateway.SpeechNo || before.name != b.heard.name ||
		before.version != b.heard.version || before.sessionless != b.heard.sessionless) {
		b.discovered, b.refused = nil, nil
	}
}

// introduced notes a DiscoverResult that a client has asked for.
func (b *bridge) introduced(result json.RawMessage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.heard.implementation(result, "_meta", mcp.MetaServerInfo)
}

// Speaks implements [gateway.Speaker].
func (b *bridge) Speaks() gateway.Speaks {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := gateway.Speaks{Name: b.heard.name, Version: b.heard.version, Stateless: gateway.SpeechUnknown}
	s.Session = cmp.Or(b.heard.session, gateway.SpeechUnknown)
	switch {
	case b.discovered != nil:
		s.Stateless = gateway.Speech(mcp.LatestStateless)
	case b.modern == nil, b.refused != nil && !b.until.IsZero():
		s.Stateless = gateway.SpeechNo
	}
	// A refusal of initialize is its word on the era only if it speaks the other one.
	if s.Session == gateway.SpeechNo && !s.Stateless.IsVersion() {
		s.Session = gateway.SpeechUnknown
	}
	s.SessionTranslated = s.Stateless.IsVersion() && !b.asIs && (s.Session == gateway.SpeechNo || b.heard.sessionless)
	s.StatelessTranslated = s.Stateless == gateway.SpeechNo && s.Session.IsVersion()
	return s
}
