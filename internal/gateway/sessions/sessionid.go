package sessions

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"github.com/toolhaven/toolhaven/internal/endpoint"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// sessionToken is the content of a session's id: all that another gateway with the same key
// needs to resume the session. It is sealed: only a gateway can make one, for one principal,
// and to everyone else the id is random.
type sessionToken struct {
	// serial makes the id unique; tombstones refer to it.
	serial serial
	// issuer is the gateway that began the session. It resumes none of its own.
	issuer [8]byte
	issued time.Time
	// holder is the address of the replica that began the session ([httpd.Core.Self]).
	holder string
	// resumable is set when the following is enough to resume the session.
	resumable bool
	// version, capabilities and info are the client's declarations. A long info is left
	// out: servers only log it.
	version            mcp.Version
	capabilities, info json.RawMessage
	// handle is of [exchange.Conn].
	handle []byte
}

// serial is random.
type serial [16]byte

const (
	// resumeAge is how long after its beginning a session can be resumed.
	resumeAge = 7 * 24 * time.Hour
	// maxSessionID bounds an id, in bytes.
	maxSessionID = 2 << 10
)

func newSerial() (s serial) {
	rand.Read(s[:]) // never fails
	return s
}

// ids issues and opens the ids of sessions.
type ids struct {
	core   *httpd.Core
	issuer [8]byte // of this gateway
}

func newIDs(core *httpd.Core) ids {
	i := ids{core: core}
	rand.Read(i.issuer[:]) // never fails
	return i
}

// purpose binds an id to its workload and principal.
func (i *ids) purpose(principal string) string {
	return "session\x00" + i.core.Name + "\x00" + principal
}

// issue makes the id of a session with the connection conn. While that is nil the session
// is not resumable. The id is base64url, which is visible ASCII (MCP 2025-11-25,
// basic/transports, Session Management).
func (i *ids) issue(number serial, principal string, client *exchange.Client, conn exchange.Conn) string {
	t := sessionToken{serial: number, issuer: i.issuer, issued: time.Now(), holder: i.core.Self}
	if conn != nil && i.core.Endpoint.Mode == endpoint.Streamable {
		var ok bool
		if t.handle, ok = conn.Handle(); ok {
			t.resumable, t.version, t.capabilities, t.info = true, client.Version, client.Capabilities, client.Info
		}
	}
	purpose := i.purpose(principal)
	id := i.core.Sealer.Close(purpose, t.pack())
	if len(id) > maxSessionID {
		t.info = nil
		id = i.core.Sealer.Close(purpose, t.pack())
	}
	if len(id) > maxSessionID {
		t = sessionToken{serial: t.serial, issuer: t.issuer, issued: t.issued, holder: t.holder}
		id = i.core.Sealer.Close(purpose, t.pack())
	}
	return id
}

// open opens an id that this gateway, or an earlier one, issued for the principal.
func (i *ids) open(id, principal string) (*sessionToken, bool) {
	if len(id) > maxSessionID {
		return nil, false
	}
	plain, err := i.core.Sealer.Open(i.purpose(principal), id)
	if err != nil {
		return nil, false
	}
	t, err := unpackSessionToken(plain)
	return t, err == nil
}

// canResume reports whether the session can be resumed here.
func (i *ids) canResume(t *sessionToken, now time.Time) bool {
	return t.resumable && t.issuer != i.issuer && now.Sub(t.issued) < resumeAge
}

// pack writes serial, issuer, seconds since 1970, and then the other fields, each after its
// length. At the end, empty ones are left out: those of a session that is not resumable, and
// the holder.
func (t *sessionToken) pack() []byte {
	b := append(t.serial[:], t.issuer[:]...)
	b = binary.AppendUvarint(b, uint64(t.issued.Unix()))
	var fields [][]byte
	if t.resumable || t.holder != "" {
		fields = [][]byte{[]byte(t.version), t.capabilities, t.info, t.handle}
	}
	if t.holder != "" {
		fields = append(fields, []byte(t.holder))
	}
	for _, field := range fields {
		b = binary.AppendUvarint(b, uint64(len(field)))
		b = append(b, field...)
	}
	return b
}

var errSessionToken = errors.New("not a session token of this version")

func unpackSessionToken(b []byte) (*sessionToken, error) {
	var t sessionToken
	if len(b) < len(t.serial)+len(t.issuer) {
		return nil, errSessionToken
	}
	b = b[copy(t.serial[:], b):]
	b = b[copy(t.issuer[:], b):]
	seconds, n := binary.Uvarint(b)
	if n <= 0 {
		return nil, errSessionToken
	}
	t.issued, b = time.Unix(int64(seconds), 0), b[n:]
	if len(b) == 0 {
		return &t, nil
	}
	var fields [][]byte
	for len(b) > 0 {
		length, n := binary.Uvarint(b)
		if n <= 0 || length > uint64(len(b)-n) || len(fields) == 5 {
			return nil, errSessionToken
		}
		fields, b = append(fields, b[n:n+int(length)]), b[n+int(length):]
	}
	if len(fields) == 5 {
		t.holder = string(fields[4])
		if len(fields[0]) == 0 {
			return &t, nil // not resumable
		}
	}
	if len(fields) < 4 || !mcp.Version(fields[0]).IsSession() {
		return nil, errSessionToken
	}
	t.resumable, t.version, t.handle = true, mcp.Version(fields[0]), fields[3]
	t.capabilities, t.info = orEmptyObject(fields[1]), orEmptyObject(fields[2])
	return &t, nil
}

func orEmptyObject(raw []byte) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage(`{}`)
	}
	return raw
}
