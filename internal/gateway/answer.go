package gateway

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// buffers keeps memory that messages are written into.
type buffers struct{ pool sync.Pool }

// One large message should not pin its size.
const maxKeptBuffer = 256 << 10

func newBuffers() *buffers {
	return &buffers{pool: sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}}
}

func (b *buffers) get() *[]byte { return b.pool.Get().(*[]byte) }

func (b *buffers) put(buf *[]byte) {
	if cap(*buf) > maxKeptBuffer {
		return
	}
	*buf = (*buf)[:0]
	b.pool.Put(buf)
}

// writeMessages answers with one message, or with all of them as a batch.
func (g *Gateway) writeMessages(w http.ResponseWriter, status int, messages []*mcp.Message, batch bool) {
	buf := g.buffers.get()
	defer g.buffers.put(buf)
	b := (*buf)[:0]
	if batch {
		b = append(b, '[')
	}
	for i, m := range messages {
		if i > 0 {
			b = append(b, ',')
		}
		b = m.Append(b)
	}
	if batch {
		b = append(b, ']')
	}
	*buf = b
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	writeJSON(w, status, b)
}

func writeJSON(w http.ResponseWriter, status int, b []byte) {
	h := w.Header()
	h.Set("Content-Type", mcp.TypeJSON)
	h.Set("Content-Length", strconv.Itoa(len(b)))
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(b) // a client that is gone cannot be told
}

// protocolFault answers an HTTP request that is no proper MCP message with a
// JSON-RPC error without id.
func protocolFault(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, mcp.NewError(mcp.ID{}, mcp.CodeInvalidRequest, message).Encode())
}

// refuse answers what is not a matter of MCP: name is for programs.
func refuse(w http.ResponseWriter, status int, name, message string) {
	b, err := json.Marshal(map[string]string{"error": name, "message": message})
	if err != nil {
		panic(err) // two strings
	}
	writeJSON(w, status, b)
}

func refuseMethod(w http.ResponseWriter, allow string) {
	w.Header().Set("Allow", allow)
	refuse(w, http.StatusMethodNotAllowed, "method_not_allowed", "this path takes "+allow)
}
