package sessions

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/endpoint"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/seal"
)

func TestIDs_ShortVisibleASCII(t *testing.T) {
	core := newCore()
	core.Endpoint.Mode = endpoint.Streamable
	var err error
	if core.Sealer, err = seal.New(seal.NewKey()); err != nil {
		t.Fatal(err)
	}
	ids := newIDs(core)
	for name, tt := range map[string]struct {
		capabilities, info string
		resumable          bool
		wantInfo           string
	}{
		"an ordinary client":     {`{"roots":{}}`, `{"name":"c","version":"1"}`, true, `{"name":"c","version":"1"}`},
		"long information":       {`{"roots":{}}`, `{"name":"` + strings.Repeat("c", 3000) + `"}`, true, `{}`},
		"capabilities too large": {`{"experimental":{"x":"` + strings.Repeat("c", 3000) + `"}}`, `{"name":"c"}`, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			client := &exchange.Client{Version: mcp.V20250618, Capabilities: json.RawMessage(tt.capabilities), Info: json.RawMessage(tt.info)}
			id := ids.issue(newSerial(), "", client, &idleConn{handle: []byte("handle")})
			if len(id) < 26 || len(id) > maxSessionID {
				t.Errorf("%d bytes", len(id))
			}
			for _, c := range []byte(id) {
				if c < 0x21 || c > 0x7e {
					t.Fatalf("%q in %s", c, id)
				}
			}
			token, ok := ids.open(id, "")
			if !ok || token.resumable != tt.resumable {
				t.Fatalf("%+v, %v", token, ok)
			}
			if tt.resumable && (string(token.capabilities) != tt.capabilities || string(token.info) != tt.wantInfo ||
				token.version != mcp.V20250618 || string(token.handle) != "handle") {
				t.Errorf("%+v", token)
			}
			if ids.canResume(token, time.Now()) {
				t.Error("a gateway resumes a session of its own")
			}
		})
	}
}

func FuzzSessionToken(f *testing.F) {
	f.Add((&sessionToken{serial: newSerial(), issued: time.Now()}).pack())
	f.Add((&sessionToken{resumable: true, version: mcp.V20251125, capabilities: json.RawMessage(`{}`), handle: []byte("h")}).pack())
	f.Fuzz(func(t *testing.T, b []byte) {
		token, err := unpackSessionToken(b)
		if err != nil {
			return
		}
		again, err := unpackSessionToken(token.pack())
		if err != nil || !bytes.Equal(again.pack(), token.pack()) {
			t.Errorf("%+v becomes %+v, %v", token, again, err)
		}
	})
}
