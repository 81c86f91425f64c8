package gateway

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"github.com/toolhaven/toolhaven/internal/endpoint"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// ticket is what a session's id says to the one who can open it: everything
// that a gateway needs to take the session up again which another one with the
// same key began. It is sealed, so that only we can make one, and only for the
// principal it was made for; to everybody else the id is random.
type ticket struct {
	// serial makes the id unique; it names the session among those that ended.
	serial serial
	// issuer is the gateway that began the session. It knows itself what became
	// of that, so the ticket is for others only.
	issuer [8]byte
	issued time.Time
	// revivable: what follows suffices to take the session up again.
	revivable bool
	// version, capabilities and info are the client's declarations. A long info
	// is left out: it only tells a server's log who was there.
	version            mcp.Version
	capabilities, info json.RawMessage
	// handle is the connection's own: [exchange.Conn].
	handle []byte
}

// serial is random.
type serial [16]byte

// reviveAge is how long after its beginning a session can be taken up again. An
// older one is not found, and its client begins another.
const reviveAge = 7 * 24 * time.Hour

func newSerial() (s serial) {
	rand.Read(s[:]) // never fails
	return s
}

// sessionPurpose is what session ids are sealed for: an id of another workload
// or another principal does not open.
func (g *Gateway) sessionPurpose(principal string) string {
	return "session\x00" + g.cfg.Name + "\x00" + principal
}

// issue makes the id of a session whose connection is conn, nil when it is not
// open yet: such a session cannot be revived. The id is base64url, which is visible
// ASCII (MCP 2025-11-25, basic/transports, Session Management).
func (g *Gateway) issue(number serial, principal string, client *exchange.Client, conn exchange.Conn) string {
	t := ticket{serial: number, issuer: g.issuer, issued: time.Now()}
	if conn != nil && g.cfg.Endpoint.Mode == endpoint.Streamable {
		var ok bool
		if t.handle, ok = conn.Handle(); ok {
			t.revivable, t.version, t.capabilities, t.info = true, client.Version, client.Capabilities, client.Info
		}
	}
	purpose := g.sessionPurpose(principal)
	id := g.sealer.Close(purpose, t.pack())
	if len(id) > maxSessionID {
		t.info = nil
		id = g.sealer.Close(purpose, t.pack())
	}
	if len(id) > maxSessionID {
		t = ticket{serial: t.serial, issuer: t.issuer, issued: t.issued}
		id = g.sealer.Close(purpose, t.pack())
	}
	return id
}

// redeem opens an id that was sealed for the principal, here or before us.
func (g *Gateway) redeem(id, principal string) (*ticket, bool) {
	if len(id) > maxSessionID {
		return nil, false
	}
	plain, err := g.sealer.Open(g.sessionPurpose(principal), id)
	if err != nil {
		return nil, false
	}
	t, err := unpackTicket(plain)
	return t, err == nil
}

// pack writes: serial, issuer, seconds since 1970, and, when revivable, the
// other fields, each after its length.
func (t *ticket) pack() []byte {
	b := append(t.serial[:], t.issuer[:]...)
	b = binary.AppendUvarint(b, uint64(t.issued.Unix()))
	if !t.revivable {
		return b
	}
	for _, field := range [][]byte{[]byte(t.version), t.capabilities, t.info, t.handle} {
		b = binary.AppendUvarint(b, uint64(len(field)))
		b = append(b, field...)
	}
	return b
}

var errTicket = errors.New("it is not a ticket of this version")

func unpackTicket(b []byte) (*ticket, error) {
	var t ticket
	if len(b) < len(t.serial)+len(t.issuer) {
		return nil, errTicket
	}
	b = b[copy(t.serial[:], b):]
	b = b[copy(t.issuer[:], b):]
	seconds, n := binary.Uvarint(b)
	if n <= 0 {
		return nil, errTicket
	}
	t.issued, b = time.Unix(int64(seconds), 0), b[n:]
	if len(b) == 0 {
		return &t, nil
	}
	var fields [4][]byte
	for i := range fields {
		length, n := binary.Uvarint(b)
		if n <= 0 || length > uint64(len(b)-n) {
			return nil, errTicket
		}
		fields[i], b = b[n:n+int(length)], b[n+int(length):]
	}
	if len(b) > 0 || !mcp.Version(fields[0]).IsSession() {
		return nil, errTicket
	}
	t.revivable, t.version, t.handle = true, mcp.Version(fields[0]), fields[3]
	t.capabilities, t.info = declared(fields[1]), declared(fields[2])
	return &t, nil
}

// declared is a declaration, or an empty one.
func declared(raw []byte) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage(`{}`)
	}
	return raw
}
