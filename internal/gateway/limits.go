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
	maxNotices      = 100       // and notifications on their way to the server, which most take at once
	maxDeclarations = 64 << 10  // bytes of a client's capabilities and information
	maxPending      = 4 << 20   // bytes that wait on a stream before notifications are dropped
	maxUnread       = 32 << 20  // bytes that wait on a stream before the client is given up
	maxParked       = 1_000     // calls of stateless clients that wait for answers
	maxQuestions    = 64        // questions of one such call
	maxUsed         = 100_000   // used states that are remembered, twice: used.go
	maxBacklog      = 64        // notifications kept for a session without a stream, or a call that waits
	maxBacklogBytes = 256 << 10 // and their bytes
	// tightBacklogBytes are theirs when the budget for them is used up.
	tightBacklogBytes = 16 << 10
)

// Budgets of bytes for all clients of a gateway together. Counts alone do not
// bound its memory: a thousand calls of 8 MiB are one session's right.
const (
	// maxInbound is for bodies of requests, from their first byte until the last
	// call of them ends, and the last answer in them to a question of the server has
	// gone on: 32 of the largest there may be. What is made of them on
	// their way to the server (another _meta, the line that is written) comes on
	// top, each once or twice as large, but for a short time.
	maxInbound = 256 << 20
	// maxSessionInbound is how much of it one session may have: a server that does not
	// read holds what its client sends for as long as that cares to wait.
	maxSessionInbound = 64 << 20
	// maxOutbound is for answers and events that wait for their client to read
	// them: 16 answers of the largest size. Who reads them frees them at once.
	maxOutbound = 256 << 20
	// maxWaiting is how much of these two the calls may hold that wait for their client:
	// of both together as much as a quarter of one. Most are never come back to, and
	// those who call now must find room; the one that has waited longest makes it.
	maxWaiting = 64 << 20
	// maxBacklogs is for notifications that no stream is there for. It is none of
	// maxOutbound: who never opens one would leave no room for answers.
	maxBacklogs = 64 << 20
	// maxAsked is for what servers ask, until their clients have answered, or it is
	// taken back: 4 of the largest questions. It is none of maxOutbound: a question may
	// wait for as long as a person needs, or nobody comes back, and answers go on
	// meanwhile. A session has few enough that smallQuestion is its right.
	maxAsked      = 64 << 20
	smallQuestion = 4 << 10
	// maxDeclared is for what the clients of open sessions say of themselves, as
	// far as that is more than smallDeclarations each, which SDKs stay far below.
	maxDeclared       = 64 << 20
	smallDeclarations = 4 << 10
	// smallSize is what a body or an answer, or what waits on one stream, may
	// always have. Nearly all messages are smaller, and never touch a budget.
	smallSize = 64 << 10
)

// body reads the JSON body of a POST. It may be used for as long as the loan is
// held. A fault has been answered when ok is false.
func (g *Gateway) body(w http.ResponseWriter, r *http.Request) (b []byte, l *loan, ok bool) {
	if !isJSON(r.Header.Get("Content-Type")) {
		protocolFault(w, http.StatusUnsupportedMediaType, "the Content-Type of a POST must be application/json")
		return nil, nil, false
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		protocolFault(w, http.StatusUnsupportedMediaType, "compressed bodies are not accepted; send it without Content-Encoding")
		return nil, nil, false
	}
	b, l, err := g.read(w, r)
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		return b, l, true
	case errors.Is(err, errBodyRoom):
		g.fail(w, http.StatusServiceUnavailable, mcp.ID{}, errBodyRoom)
	case errors.As(err, &tooLarge):
		w.Header().Set("Connection", "close") // do not wait for all of it
		protocolFault(w, http.StatusRequestEntityTooLarge, "the body is larger than 8 MiB")
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		protocolFault(w, http.StatusRequestTimeout, "the body did not arrive in time")
	default:
		w.Header().Set("Connection", "close")
		protocolFault(w, http.StatusBadRequest, "the body could not be read to its end")
	}
	return nil, nil, false
}

// read reads the whole body into memory of its own: the message that is parsed
// from it points into it.
func (g *Gateway) read(w http.ResponseWriter, r *http.Request) ([]byte, *loan, error) {
	if r.ContentLength > mcp.MaxBody {
		return nil, nil, &http.MaxBytesError{Limit: mcp.MaxBody}
	}
	whole := false
	defer func() {
		if whole { // else the deadline of [Gateway.patient] stays: net/http reads what is left
			_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		}
	}()
	// The announced length is a promise, not a reason to set megabytes aside: room
	// doubles as it comes, up to that.
	announced := int(r.ContentLength) + 1 // with room to see its end
	src := http.MaxBytesReader(w, r.Body, mcp.MaxBody)
	taken := 0
	for b := make([]byte, 0, min(max(announced, 512), smallSize)); ; {
		n, err := src.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if errors.Is(err, io.EOF) {
			whole = true
			return b, g.inbound.loan(taken), nil
		}
		if err == nil && len(b) == cap(b) {
			size := 2 * cap(b)
			if announced > cap(b) {
				size = min(size, announced)
			}
			if b, err = g.grow(b, size, &taken); err != nil {
				g.inbound.give(taken)
				taken = 0
				// The rest is read, so that the connection can be used again.
				_, lost := io.Copy(io.Discard, src)
				if whole = lost == nil; !whole {
					w.Header().Set("Connection", "close")
				}
			}
		}
		if err != nil {
			g.inbound.give(taken)
			return nil, nil, err
		}
	}
}

// grow makes b as large as size. Beyond [smallSize] that is taken from the
// budget, of which the body has taken some already.
func (g *Gateway) grow(b []byte, size int, taken *int) ([]byte, error) {
	if size > smallSize {
		if !g.inbound.take(size - *taken) {
			return nil, errBodyRoom
		}
		*taken = size
	}
	return append(make([]byte, 0, size), b...), nil
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
			t, parameters, _ := strings.Cut(part, ";")
			if isRefused(parameters) {
				continue
			}
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

// isRefused: the weight 0 means "not acceptable" (RFC 9110 section 12.4.2).
func isRefused(parameters string) bool {
	for p := range strings.SplitSeq(parameters, ";") {
		name, weight, _ := strings.Cut(strings.TrimSpace(p), "=")
		if strings.EqualFold(name, "q") {
			return weight != "" && strings.Trim(weight, "0.") == ""
		}
	}
	return false
}
