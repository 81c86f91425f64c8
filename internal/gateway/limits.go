package gateway

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Bounds on what one client can make us keep. Sizes of messages are in
// mcp/limits.go.
const (
	maxSessions     = 20_000    // sessions of one gateway; past it the ones idle longest go
	maxBuried       = 20_000    // ended sessions of earlier gateways that are remembered
	maxSessionID    = 2 << 10   // bytes of a session id
	maxCalls        = 1_000     // requests in flight of one session
	maxDeclarations = 64 << 10  // bytes of a client's capabilities and information
	maxPending      = 4 << 20   // bytes that wait on a stream before notifications are dropped
	maxUnread       = 32 << 20  // bytes that wait on a stream before the client is given up
	maxParked       = 1_000     // calls of stateless clients that wait for answers
	maxQuestions    = 64        // questions of one such call
	maxUsed         = 100_000   // used states that are remembered
	maxBacklog      = 64        // notifications kept for a session without a stream
	maxBacklogBytes = 256 << 10 // and their bytes
)

// body reads the JSON body of a POST. A fault has been answered when ok is
// false.
func (g *Gateway) body(w http.ResponseWriter, r *http.Request) (b []byte, ok bool) {
	if !isJSON(r.Header.Get("Content-Type")) {
		protocolFault(w, http.StatusUnsupportedMediaType, "the Content-Type of a POST must be application/json")
		return nil, false
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		protocolFault(w, http.StatusUnsupportedMediaType, "compressed bodies are not accepted; send it without Content-Encoding")
		return nil, false
	}
	b, err := g.read(w, r)
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		return b, true
	case errors.As(err, &tooLarge):
		protocolFault(w, http.StatusRequestEntityTooLarge, "the body is larger than 8 MiB")
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		protocolFault(w, http.StatusRequestTimeout, "the body did not arrive in time")
	default:
		w.Header().Set("Connection", "close")
		protocolFault(w, http.StatusBadRequest, "the body could not be read to its end")
	}
	return nil, false
}

// read reads the whole body into memory of its own: the message that is parsed
// from it points into it.
func (g *Gateway) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > mcp.MaxBody {
		w.Header().Set("Connection", "close") // do not wait for all of it
		return nil, &http.MaxBytesError{Limit: mcp.MaxBody}
	}
	// A ResponseWriter of a test has no deadlines, which is fine.
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(g.pace.readBody))
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	// The announced length is a promise, not a reason to set megabytes aside.
	size := min(max(int(r.ContentLength)+1, 512), 64<<10)
	src := http.MaxBytesReader(w, r.Body, mcp.MaxBody)
	for b := make([]byte, 0, size); ; {
		n, err := src.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return nil, err
		}
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
	}
}

func isJSON(contentType string) bool {
	if contentType == mcp.TypeJSON {
		return true
	}
	t, _, err := mime.ParseMediaType(contentType)
	return err == nil && t == mcp.TypeJSON
}

// accepts tells which of our two answers a client takes. A client that says
// nothing takes both.
func accepts(r *http.Request) (json, events bool) {
	values := r.Header["Accept"]
	if len(values) == 0 {
		return true, true
	}
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			t, _, _ := strings.Cut(part, ";")
			switch strings.ToLower(strings.TrimSpace(t)) {
			case "*/*":
				json, events = true, true
			case mcp.TypeJSON, "application/*":
				json = true
			case mcp.TypeEventStream, "text/*":
				events = true
			}
		}
	}
	return json, events
}
