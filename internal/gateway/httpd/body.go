package httpd

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

// Post is one POST of a client, and what was read of it.
type Post struct {
	W http.ResponseWriter
	R *http.Request
	// JSON and Events are the media types that the client accepts for the response.
	JSON, Events bool
	Messages     []*mcp.Message
	Batch        bool
	// Body is the reservation for the body, which the messages point into.
	Body *Reservation
}

// Parse reads the messages of the POST. After false it has written a response; otherwise
// the caller releases p.Body.
func (c *Core) Parse(p *Post) bool {
	b, reserved, ok := c.readBody(p.W, p.R)
	if !ok {
		return false
	}
	var err error
	if p.Messages, p.Batch, err = mcp.ParseBatch(b); err == nil {
		p.Body = reserved
		return true
	}
	defer reserved.Release()
	id := mcp.ID{}
	if !p.Batch {
		id = mcp.ParseID(b)
	}
	c.Fail(p.W, http.StatusBadRequest, id, err)
	return false
}

// ID is the id for an error about the whole POST.
func (p *Post) ID() mcp.ID {
	if m := p.Messages[0]; !p.Batch && m.Kind() == mcp.Request {
		return m.ID
	}
	return mcp.ID{}
}

// readBody reads the JSON body of a POST. After false it has written a response.
func (c *Core) readBody(w http.ResponseWriter, r *http.Request) (b []byte, reserved *Reservation, ok bool) {
	if !isJSON(r.Header.Get("Content-Type")) {
		ProtocolFault(w, http.StatusUnsupportedMediaType, "the Content-Type of a POST must be application/json")
		return nil, nil, false
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		ProtocolFault(w, http.StatusUnsupportedMediaType, "compressed bodies are not accepted; send it without Content-Encoding")
		return nil, nil, false
	}
	b, reserved, err := c.read(w, r)
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		return b, reserved, true
	case errors.Is(err, errBodyRoom):
		c.Fail(w, http.StatusServiceUnavailable, mcp.ID{}, errBodyRoom)
	case errors.As(err, &tooLarge):
		w.Header().Set("Connection", "close") // the rest of it is not read
		ProtocolFault(w, http.StatusRequestEntityTooLarge, "the body is larger than 8 MiB")
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		ProtocolFault(w, http.StatusRequestTimeout, "the body did not arrive in time")
	default:
		w.Header().Set("Connection", "close")
		ProtocolFault(w, http.StatusBadRequest, "the body could not be read to its end")
	}
	return nil, nil, false
}

// read reads the whole body into memory of its own: the parsed message points into it.
func (c *Core) read(w http.ResponseWriter, r *http.Request) ([]byte, *Reservation, error) {
	if r.ContentLength > mcp.MaxBody {
		return nil, nil, &http.MaxBytesError{Limit: mcp.MaxBody}
	}
	whole := false
	defer func() {
		if whole { // otherwise the deadline of [Core.Deadlines] stays: net/http reads the rest
			_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		}
	}()
	// The announced length is not trusted: the buffer doubles as bytes arrive, up to it.
	announced := int(r.ContentLength) + 1 // with room to see its end
	src := http.MaxBytesReader(w, r.Body, mcp.MaxBody)
	taken := 0
	for b := make([]byte, 0, min(max(announced, 512), SmallSize)); ; {
		n, err := src.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if errors.Is(err, io.EOF) {
			whole = true
			return b, newReservation(&c.Inbound, taken), nil
		}
		if err == nil && len(b) == cap(b) {
			size := 2 * cap(b)
			if announced > cap(b) {
				size = min(size, announced)
			}
			if b, err = c.grow(b, size, &taken); err != nil {
				c.Inbound.Give(taken)
				taken = 0
				// The rest is read, so that the connection can be used again.
				_, lost := io.Copy(io.Discard, src)
				if whole = lost == nil; !whole {
					w.Header().Set("Connection", "close")
				}
			}
		}
		if err != nil {
			c.Inbound.Give(taken)
			return nil, nil, err
		}
	}
}

// grow moves b to a buffer of size bytes. Beyond [SmallSize] they are taken from the
// budget, less those that the body has taken before.
func (c *Core) grow(b []byte, size int, taken *int) ([]byte, error) {
	if size > SmallSize {
		if !c.Inbound.Take(size - *taken) {
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

// Accepts reports which of the two media types of responses a client accepts. Without an
// Accept header it accepts both.
func Accepts(r *http.Request) (json, events bool) {
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

// isRefused reports a weight of 0, which means "not acceptable" (RFC 9110 section 12.4.2).
func isRefused(parameters string) bool {
	for p := range strings.SplitSeq(parameters, ";") {
		name, weight, _ := strings.Cut(strings.TrimSpace(p), "=")
		if strings.EqualFold(name, "q") {
			return weight != "" && strings.Trim(weight, "0.") == ""
		}
	}
	return false
}

// ErrNoBatches refuses a batch.
var ErrNoBatches = &mcp.Error{Code: mcp.CodeInvalidRequest, Message: "batches exist in protocol version 2025-03-26 only; send one message per POST"}
