package bridge

import (
	"context"
	"errors"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// initialize begins the client's session and returns the response.
func (b *Bridge) initialize(ctx context.Context, m *mcp.Message) *mcp.Message {
	client, err := exchange.Declared(m.Params)
	if err != nil {
		return mcp.ErrorResponse(m.ID, mcp.CodeInvalidParams, err)
	}
	b.opening.Lock()
	defer b.opening.Unlock()
	b.mu.Lock()
	old := b.conn
	b.client, b.conn = nil, nil
	b.mu.Unlock()
	if old != nil {
		_ = old.Close() // the client begins anew
	}
	conn, err := b.open(ctx, client)
	if err != nil {
		return mcp.ErrorResponse(m.ID, mcp.CodeServerGone, err)
	}
	return mcp.NewResult(m.ID, conn.InitializeResult())
}

// open begins a session at the server. The caller holds opening.
func (b *Bridge) open(ctx context.Context, client *exchange.Client) (exchange.Conn, error) {
	conn, err := b.backend.Open(ctx, client, &peer{bridge: b, ended: b.ctx})
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.client, b.conn = client, conn
	b.mu.Unlock()
	b.work.Go(conn.Listen)
	return conn, nil
}

// session returns the client's session. It begins another one if the server has lost it.
func (b *Bridge) session(ctx context.Context) (*exchange.Client, exchange.Conn, error) {
	b.opening.Lock()
	defer b.opening.Unlock()
	b.mu.Lock()
	client, conn := b.client, b.conn
	b.mu.Unlock()
	if client == nil {
		return nil, nil, &mcp.Error{Code: mcp.CodeInvalidRequest, Message: "initialize must be the first request"}
	}
	select {
	case <-conn.Done():
	default:
		return client, conn, nil
	}
	_ = conn.Close()
	again, err := b.open(ctx, client)
	if err != nil {
		return nil, nil, err
	}
	b.log.Info("the server had lost the session; another one was begun")
	b.announce(again)
	return client, again, nil
}

// announce notifies the client that the lists of a server may differ, which was restarted.
func (b *Bridge) announce(conn exchange.Conn) {
	for capability, method := range map[string]string{
		"tools": mcp.NotificationToolsChanged, "prompts": mcp.NotificationPromptsChanged, "resources": mcp.NotificationResourcesChanged,
	} {
		if value, _, err := mcp.Lookup(conn.InitializeResult(), "capabilities", capability, "listChanged"); err == nil && string(value) == "true" {
			b.write(&mcp.Message{Method: method})
		}
	}
}

// doInSession sends a request in the client's session. A request that fails because the
// server has lost the session is sent again in another one; not a tools/call, which the
// server may have executed.
func (b *Bridge) doInSession(ctx context.Context, m *mcp.Message, meta mcp.Meta) (*mcp.Message, error) {
	for again := true; ; again = false {
		client, conn, err := b.session(ctx)
		if err != nil {
			return nil, err
		}
		x := &exchange.Exchange{Client: client, Request: m, Meta: meta, Peer: &peer{bridge: b, ended: ctx}, Conn: conn}
		response, err := conn.Do(ctx, x)
		var rpc *mcp.Error
		if err == nil || !errors.As(err, &rpc) || rpc.Code != mcp.CodeSessionNotFound {
			return response, err
		}
		if m.Method == mcp.MethodToolsCall {
			return nil, errLostCall
		}
		if !again {
			return nil, err
		}
	}
}

// peer sends messages of the server to the client.
type peer struct {
	exchange.PeerDefaults
	bridge *Bridge
	ended  context.Context // of what the messages belong to
}

// Notify implements [exchange.Peer].
func (p *peer) Notify(m *mcp.Message) { p.bridge.write(m) }

// Ask implements [exchange.Peer].
func (p *peer) Ask(ctx context.Context, m *mcp.Message) (*mcp.Message, error) {
	b := p.bridge
	b.mu.Lock()
	b.lastID++
	id := mcp.IntID(b.lastID)
	answer := make(chan *mcp.Message, 1)
	b.questions[id] = answer
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.questions, id)
		b.mu.Unlock()
	}()
	b.write(&mcp.Message{ID: id, Method: m.Method, Params: m.Params})
	var err error
	select {
	case a := <-answer:
		return &mcp.Message{ID: m.ID, Result: a.Result, Error: a.Error}, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-p.ended.Done():
		err = context.Cause(p.ended)
	}
	b.write(mcp.Cancelled(id, "the server no longer waits for the answer"))
	return nil, err
}

// answered handles a response of the client.
func (b *Bridge) answered(m *mcp.Message) {
	b.mu.Lock()
	answer := b.questions[m.ID]
	delete(b.questions, m.ID)
	b.mu.Unlock()
	if answer == nil {
		b.log.Debug("a response that belongs to no request was dropped", "id", m.ID.String())
		return
	}
	answer <- m
}
