package httpd

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// buffers keeps memory that messages are written into.
type buffers struct{ pool sync.Pool }

// maxKeptBuffer bounds a buffer that is kept for the next message.
const maxKeptBuffer = 256 << 10

func (b *buffers) get() *[]byte {
	if buf, ok := b.pool.Get().(*[]byte); ok {
		return buf
	}
	buf := make([]byte, 0, 4<<10)
	return &buf
}

func (b *buffers) put(buf *[]byte) {
	if cap(*buf) > maxKeptBuffer {
		return
	}
	*buf = (*buf)[:0]
	b.pool.Put(buf)
}

// WriteMessages writes a response of one message, or of all of them as a batch.
func (c *Core) WriteMessages(w http.ResponseWriter, status int, messages []*mcp.Message, batch bool) {
	buf := c.buffers.get()
	defer c.buffers.put(buf)
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
	WriteJSON(w, status, b)
}

// Fail responds to a POST with an error.
func (c *Core) Fail(w http.ResponseWriter, status int, id mcp.ID, err error) {
	c.WriteMessages(w, status, []*mcp.Message{mcp.ErrorResponse(id, mcp.CodeServerGone, err)}, false)
}

// WriteJSON writes a response of JSON.
func WriteJSON(w http.ResponseWriter, status int, b []byte) {
	h := w.Header()
	h.Set("Content-Type", mcp.TypeJSON)
	h.Set("Content-Length", strconv.Itoa(len(b)))
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(b) // the client is gone if it fails
}

// ProtocolFault responds to an HTTP request that is not a valid MCP message with a JSON-RPC
// error without id.
func ProtocolFault(w http.ResponseWriter, status int, message string) {
	WriteJSON(w, status, mcp.NewError(mcp.ID{}, mcp.CodeInvalidRequest, message).Encode())
}

// Refuse responds to a request with an error that is not one of MCP; name is for programs.
func Refuse(w http.ResponseWriter, status int, name, message string) {
	b, err := json.Marshal(map[string]string{"error": name, "message": message})
	if err != nil {
		panic(err) // two strings
	}
	WriteJSON(w, status, b)
}

// RefuseMethod responds with 405; allow is a list of the methods that are served.
func RefuseMethod(w http.ResponseWriter, allow string) {
	w.Header().Set("Allow", allow)
	Refuse(w, http.StatusMethodNotAllowed, "method_not_allowed", "this path accepts "+allow)
}
