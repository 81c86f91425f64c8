// Package bridge serves one MCP client on a pair of streams (MCP, Transports, stdio) by a
// server that is reached through an [exchange.Backend]: `thv connect` does so with the
// gateway of a workload.
//
// It is a front like those of the gateway, in both eras. The era of a message follows from
// its _meta (MCP 2026-07-28, Versioning). A client of the session era has one session at
// the server, begun by its initialize; when the server has lost it, the bridge begins
// another one on behalf of the client, which does not notice. Only messages of the protocol
// are written to the output.
package bridge

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/paramheader"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Bounds on waiting.
const (
	// drainTime is how long pending requests have after the end of the input.
	drainTime = 30 * time.Second
	// noticeTime is how long the server may take to accept a notification.
	noticeTime = 10 * time.Second
)

var (
	errCancelled = errors.New("the client cancelled the request")
	errEnded     = &mcp.Error{Code: mcp.CodeServerGone, Message: "the client has closed its input"}
	errLostCall  = &mcp.Error{Code: mcp.CodeServerGone, Message: "the server has lost the session, and may or may not have worked on the call; check, then make it again"}
)

// Bridge serves one client.
type Bridge struct {
	backend exchange.Backend
	log     *slog.Logger
	out     io.Writer
	tools   *paramheader.Cache

	writing sync.Mutex // orders messages on out

	opening sync.Mutex // held while a session is begun

	mu     sync.Mutex
	client *exchange.Client // of the session era; nil before initialize
	conn   exchange.Conn    // of client
	calls  map[mcp.ID]*call // requests of the client that are pending
	// questions are the requests of the server that wait for the client's response.
	questions map[mcp.ID]chan *mcp.Message
	lastID    int64
	failed    error // of out

	work sync.WaitGroup
	ctx  context.Context // of Run
	stop context.CancelCauseFunc
}

// call is a pending request of the client.
type call struct {
	cancel context.CancelCauseFunc
	method string
}

// New returns a Bridge that writes to out. It closes the backend.
func New(backend exchange.Backend, out io.Writer, log *slog.Logger) *Bridge {
	return &Bridge{
		backend: backend, log: log, out: out, tools: paramheader.NewCache(log),
		calls: map[mcp.ID]*call{}, questions: map[mcp.ID]chan *mcp.Message{},
	}
}

// Run serves the client until the end of in, of ctx, or of the output. After the end of in
// the requests that are pending are answered.
func (b *Bridge) Run(ctx context.Context, in io.Reader) error {
	ctx, b.stop = context.WithCancelCause(ctx)
	defer b.stop(nil)
	b.ctx = ctx
	lines := make(chan []byte)
	ended := make(chan error, 1)
	go func() { ended <- readLines(ctx, in, lines) }()
	var err error
	for reading := true; reading; {
		select {
		case line := <-lines:
			b.receive(ctx, line)
		case err = <-ended:
			reading = false
		case <-ctx.Done():
			reading = false
		}
	}
	b.drain(ctx)
	b.stop(errEnded)
	b.work.Wait()
	closing := b.backend.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	return errors.Join(err, b.failed, closing)
}

// drain waits for the pending requests; those that do not end by themselves are cancelled.
func (b *Bridge) drain(ctx context.Context) {
	b.mu.Lock()
	for _, c := range b.calls {
		if c.method == mcp.MethodSubscriptionsListen {
			c.cancel(errCancelled)
		}
	}
	b.mu.Unlock()
	done := make(chan struct{})
	go func() {
		b.work.Wait()
		close(done)
	}()
	timer := time.NewTimer(drainTime)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// readLines sends the lines of in, without line ends. A line that is too long is sent up to
// the limit, so that it is refused. It returns nil at the end of in.
func readLines(ctx context.Context, in io.Reader, lines chan<- []byte) error {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		var line []byte
		var err error
		for more := true; more; {
			var part []byte
			part, err = r.ReadSlice('\n')
			more = errors.Is(err, bufio.ErrBufferFull)
			line = append(line, part[:min(len(part), mcp.MaxEvent+1-len(line))]...)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			select {
			case lines <- line:
			case <-ctx.Done():
				return nil
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the client's messages: %w", err)
		}
	}
}

// receive handles one line of the client: a message, or a batch (MCP 2025-03-26).
func (b *Bridge) receive(ctx context.Context, line []byte) {
	if len(line) > mcp.MaxEvent {
		b.write(mcp.NewError(mcp.ID{}, mcp.CodeInvalidRequest, fmt.Sprintf("a message is larger than %d bytes", mcp.MaxEvent)))
		return
	}
	messages, batch, err := mcp.ParseBatch(line)
	if err != nil {
		b.write(mcp.ErrorResponse(mcp.ParseID(line), mcp.CodeParse, err))
		return
	}
	if !batch {
		b.dispatch(ctx, messages[0], b.write)
		return
	}
	var mu sync.Mutex
	var responses []*mcp.Message
	var pending sync.WaitGroup
	for _, m := range messages {
		if m.Method == mcp.MethodInitialize {
			b.write(mcp.NewError(m.ID, mcp.CodeInvalidRequest, "initialize must not be part of a batch"))
			continue
		}
		pending.Add(1)
		b.dispatch(ctx, m, func(response *mcp.Message) {
			defer pending.Done()
			if response != nil {
				mu.Lock()
				responses = append(responses, response)
				mu.Unlock()
			}
		})
	}
	b.work.Go(func() {
		pending.Wait()
		b.writeBatch(responses)
	})
}

// dispatch handles one message. respond is called once, with nil if there is no response.
func (b *Bridge) dispatch(ctx context.Context, m *mcp.Message, respond func(*mcp.Message)) {
	switch m.Kind() {
	case mcp.Response:
		b.answered(m)
		respond(nil)
	case mcp.Notification:
		b.notified(ctx, m)
		respond(nil)
	case mcp.Request:
		if m.Method == mcp.MethodInitialize {
			// What follows, which may be in the pipe already, needs the session.
			respond(b.initialize(ctx, m))
			return
		}
		ctx, c, err := b.enter(ctx, m)
		if err != nil {
			respond(mcp.ErrorResponse(m.ID, mcp.CodeInvalidRequest, err))
			return
		}
		b.work.Go(func() {
			defer c.cancel(nil)
			response, err := b.do(ctx, m)
			b.leave(m.ID, c)
			switch cause := context.Cause(ctx); {
			case errors.Is(cause, errCancelled):
				// A cancelled request has no response (MCP, Cancellation).
				respond(nil)
				return
			case err != nil && cause != nil && errors.Is(err, context.Canceled):
				err = cause
			}
			if err != nil {
				response = mcp.ErrorResponse(m.ID, mcp.CodeServerGone, err)
			}
			respond(response)
		})
	}
}

// enter registers a request of the client.
func (b *Bridge) enter(ctx context.Context, m *mcp.Message) (context.Context, *call, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.calls[m.ID] != nil {
		return nil, nil, errors.New("a request with this id is pending")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	c := &call{cancel: cancel, method: m.Method}
	b.calls[m.ID] = c
	return ctx, c, nil
}

func (b *Bridge) leave(id mcp.ID, c *call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.calls[id] == c {
		delete(b.calls, id)
	}
}

// do sends a request in the era of its _meta.
func (b *Bridge) do(ctx context.Context, m *mcp.Message) (*mcp.Message, error) {
	meta, err := mcp.ReadMeta(m.Params)
	if err != nil {
		return nil, err
	}
	if meta.Versioned && !mcp.Version(meta.Version).IsSession() {
		return b.doStateless(ctx, m, meta)
	}
	return b.doInSession(ctx, m, meta)
}

// notified handles a notification of the client.
func (b *Bridge) notified(ctx context.Context, m *mcp.Message) {
	switch m.Method {
	case mcp.NotificationInitialized: // the backend sent it when it opened the session
		return
	case mcp.NotificationCancelled:
		id, ok := mcp.CancelledID(m)
		b.mu.Lock()
		c := b.calls[id]
		b.mu.Unlock()
		if ok && c != nil {
			c.cancel(errCancelled)
		}
		return
	}
	b.mu.Lock()
	conn := b.conn
	b.mu.Unlock()
	if conn == nil {
		return // the stateless era has no others
	}
	ctx, cancel := context.WithTimeout(ctx, noticeTime)
	defer cancel()
	if err := conn.Notify(ctx, m); err != nil {
		b.log.Warn("a notification did not reach the server", "method", m.Method, "error", err)
	}
}

// write writes one message; nil is none.
func (b *Bridge) write(m *mcp.Message) {
	if m != nil {
		b.writeLine(m.Encode())
	}
}

// writeBatch writes the responses to a batch.
func (b *Bridge) writeBatch(responses []*mcp.Message) {
	if len(responses) == 0 {
		return
	}
	line := []byte{'['}
	for i, m := range responses {
		if i > 0 {
			line = append(line, ',')
		}
		line = m.Append(line)
	}
	b.writeLine(append(line, ']'))
}

// writeLine writes a line. It blocks while the client does not read, which holds the server
// back. When the client is gone, the bridge ends.
func (b *Bridge) writeLine(line []byte) {
	b.writing.Lock()
	defer b.writing.Unlock()
	if _, err := b.out.Write(append(line, '\n')); err != nil {
		b.mu.Lock()
		if b.failed == nil {
			b.failed = fmt.Errorf("write to the client: %w", err)
		}
		b.mu.Unlock()
		b.stop(errEnded)
	}
}
