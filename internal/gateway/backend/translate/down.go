package translate

import (
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/subscribe"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Down serves clients of the session era at a server of the stateless era. Such a server
// has no sessions, so Down keeps the state of each client's session. The sessions of one
// principal share a [principalSession].
type Down struct {
	stateless wire.Stateless
	http      bool
	log       *slog.Logger
	lastID    atomic.Int64 // of the gateway's own requests
	refused   func(context.Context) bool
	forget    func()

	mu         sync.Mutex
	closed     bool
	principals map[string]*principalSession // by principal
}

// NewDown returns a Down that sends requests through m. http is set when requests to the
// server have headers. refused reports whether the server refused server/discover. It
// caches the outcome until forget is called.
func NewDown(m wire.Stateless, http bool, refused func(context.Context) bool, forget func(), log *slog.Logger) *Down {
	return &Down{stateless: m, http: http, refused: refused, forget: forget, log: log, principals: map[string]*principalSession{}}
}

// newID returns an id for a request of the gateway's own. A client's request has the same
// id only if the client copies the format.
func (s *Down) newID() mcp.ID {
	return mcp.StringID("toolhaven-" + strconv.FormatInt(s.lastID.Add(1), 10))
}

// enter returns what the sessions of a principal share. The caller must call leave.
func (s *Down) enter(principal string) (*principalSession, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, wire.ErrStopped
	}
	r := s.principals[principal]
	if r == nil {
		r = newPrincipalSession(s, principal)
		s.principals[principal] = r
	}
	r.users++
	return r, nil
}

// leave ends one use of r and closes r after the last.
func (s *Down) leave(r *principalSession) {
	s.mu.Lock()
	r.users--
	last := r.users == 0
	if last && s.principals[r.principal] == r {
		delete(s.principals, r.principal)
	}
	s.mu.Unlock()
	if last {
		r.close()
	}
}

// Close ends what the sessions share and rejects new sessions. Each session is closed by
// its front.
func (s *Down) Close() {
	s.mu.Lock()
	s.closed = true
	principals := s.principals
	s.principals = map[string]*principalSession{}
	s.mu.Unlock()
	for _, r := range principals {
		r.close()
	}
}

// downConn is the session of one client.
type downConn struct {
	clients      *Down
	principal    *principalSession
	client       *exchange.Client
	session      exchange.Peer
	introduction wire.ClientMeta
	info         json.RawMessage                    // InitializeResult
	declared     declared                           // by the server
	subscription *subscribe.Subscription[*downConn] // guarded by principal.mu; nil before the first change

	ctx  context.Context // ends with the session
	stop context.CancelCauseFunc
	once sync.Once

	mu    sync.Mutex
	level string // log level that the client set, "" for none
}

// errSessionClosed is the error of requests that are pending when their session closes.
var errSessionClosed = &mcp.Error{Code: mcp.CodeServerGone, Message: "the session was closed"}

// Open begins a session for a client of the session era. info is the server's
// DiscoverResult.
func (s *Down) Open(ctx context.Context, info json.RawMessage, client *exchange.Client, session exchange.Peer) (exchange.Conn, error) {
	c := &downConn{clients: s, client: client, session: wire.OrNoPeer(session)}
	var err error
	if c.info, c.declared, err = initializeResult(info, client.Version); err != nil {
		return nil, wire.ServerGone("the server's answer to server/discover cannot be read: %v", err)
	}
	// A client of the session era cannot read the results of tasks of 2026-07-28.
	capabilities, err := mcp.Without(client.Capabilities, func(key string) bool { return key == "io.modelcontextprotocol/tasks" }, "extensions")
	if err != nil {
		return nil, err
	}
	c.introduction = wire.NewClientMeta(&exchange.Client{Capabilities: capabilities, Info: client.Info})
	if c.principal, err = s.enter(client.Principal); err != nil {
		return nil, err
	}
	c.principal.callers.Attach(ctx)
	c.ctx, c.stop = context.WithCancelCause(context.Background())
	return c, nil
}

// declared holds the server's capabilities that determine how Down handles requests.
type declared struct {
	logging, subscribe bool
	lists              subscribe.Filter // the lists with listChanged
}

// initializeResult returns an InitializeResult made from the server's DiscoverResult, and
// the capabilities in it that matter to Down.
func initializeResult(discovered json.RawMessage, version mcp.Version) (json.RawMessage, declared, error) {
	var d declared
	capabilities, found, err := mcp.Lookup(discovered, "capabilities")
	if err != nil {
		return nil, d, err
	}
	if !found {
		capabilities = json.RawMessage(`{}`)
	}
	if _, d.logging, err = mcp.Lookup(capabilities, "logging"); err != nil {
		return nil, d, err
	}
	for _, flag := range []struct {
		value         *bool
		feature, name string
	}{
		{&d.subscribe, "resources", "subscribe"},
		{&d.lists.ToolsListChanged, "tools", "listChanged"},
		{&d.lists.PromptsListChanged, "prompts", "listChanged"},
		{&d.lists.ResourcesListChanged, "resources", "listChanged"},
	} {
		raw, _, err := mcp.Lookup(capabilities, flag.feature, flag.name)
		if err != nil {
			return nil, d, err
		}
		*flag.value = string(raw) == "true"
	}
	server, found, err := mcp.Lookup(discovered, "_meta", mcp.MetaServerInfo)
	if err != nil {
		return nil, d, err
	}
	if !found {
		server = wire.OwnClient().Info // SHOULD in the stateless era, required in the session era
	}
	if !version.IsSession() {
		version = mcp.LatestSession
	}
	out := append([]byte(`{"protocolVersion":"`+string(version)+`","capabilities":`), capabilities...)
	out = append(append(out, `,"serverInfo":`...), server...)
	instructions, found, err := mcp.Lookup(discovered, "instructions")
	if err != nil {
		return nil, d, err
	}
	if found && instructions[0] == '"' {
		out = append(append(out, `,"instructions":`...), instructions...)
	}
	return append(out, '}'), d, nil
}

func (c *downConn) InitializeResult() json.RawMessage { return c.info }

// Done is closed by Close, and when the server no longer supports the stateless era.
func (c *downConn) Done() <-chan struct{} { return c.ctx.Done() }

// Notify drops the notifications of the client: the stateless era has none of them. The
// server keeps no roots of a client that could change, and sends no requests that the
// client could report progress of.
func (c *downConn) Notify(context.Context, *mcp.Message) error { return nil }

// Close ends the session and its pending requests.
func (c *downConn) Close() error {
	c.once.Do(func() {
		c.stop(errSessionClosed)
		c.principal.remove(c)
		c.clients.leave(c.principal)
	})
	return nil
}

// Handle returns an empty handle. ok is true when the session has no state here, that is no
// log level and no subscribed resources. Another process can continue such a session.
func (c *downConn) Handle() ([]byte, bool) {
	return nil, c.logLevel() == "" && !c.principal.hasResources(c)
}

// Leave is Close: the server has no session that could be kept.
func (c *downConn) Leave() error { return c.Close() }

// Do returns the response to a request of the session era. It handles the requests about
// the session itself and sends all others to the server.
func (c *downConn) Do(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	ctx, cancel := context.WithCancelCause(c.principal.callers.Attach(ctx))
	defer cancel(nil)
	defer context.AfterFunc(c.ctx, func() { cancel(context.Cause(c.ctx)) })()
	if c.ctx.Err() != nil { // AfterFunc runs asynchronously: the response could come first
		return nil, context.Cause(c.ctx)
	}
	var err error
	switch x.Request.Method {
	case mcp.MethodPing:
	case mcp.MethodSetLevel:
		err = c.setLevel(x.Request.Params)
	case mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		err = c.watch(ctx, x.Request)
	case mcp.MethodDiscover, mcp.MethodSubscriptionsListen:
		err = notFound(x.Request.Method) // not of the client's era
	default:
		if c.clients.refused(ctx) {
			c.stop(errEraChanged)
			return nil, errEraChanged
		}
		return c.roundTrip(ctx, x)
	}
	if err != nil {
		return nil, err
	}
	return mcp.NewResult(x.Request.ID, json.RawMessage(`{}`)), nil
}

func notFound(method string) error {
	return &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "the server does not offer " + wire.Printable(method)}
}

// setLevel sets the log level of later requests (MCP 2025-11-25, Logging).
func (c *downConn) setLevel(params json.RawMessage) error {
	if !c.declared.logging {
		return notFound(mcp.MethodSetLevel)
	}
	level, _, err := mcp.LookupString(params, "level")
	if err != nil {
		return err
	}
	if mcp.LogRank(level) < 0 {
		return &mcp.Error{Code: mcp.CodeInvalidParams, Message: "params.level is none of the log levels"}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.level = level
	return nil
}

func (c *downConn) logLevel() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.level
}

// maxURI bounds the URI of a subscribed resource, in bytes.
const maxURI = 4 << 10

// watch handles resources/subscribe and resources/unsubscribe.
func (c *downConn) watch(ctx context.Context, m *mcp.Message) error {
	if !c.declared.subscribe {
		return notFound(m.Method)
	}
	uri, found, err := mcp.LookupString(m.Params, "uri")
	switch {
	case err != nil:
		return err
	case !found || uri == "":
		return &mcp.Error{Code: mcp.CodeInvalidParams, Message: "params.uri is missing"}
	case len(uri) > maxURI:
		return &mcp.Error{Code: mcp.CodeInvalidParams, Message: "params.uri is too long"}
	case m.Method == mcp.MethodResourcesUnsubscribe:
		c.principal.unsubscribe(c, uri)
		return nil
	}
	return c.principal.subscribe(ctx, c, uri)
}

// Listen subscribes the session to the list changes that the server declared.
func (c *downConn) Listen() { c.principal.listen(c) }
