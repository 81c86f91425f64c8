package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// This file is the front for the stateless era: streamable HTTP of MCP
// 2026-07-28 (basic/transports/streamable-http), on the same path as the session
// era's. Every POST stands alone: it says who the client is and what it can do,
// and closing it cancels it. What a server asks meanwhile ends the POST with an
// input_required result, and the call waits for the next one: modern_call.go,
// modern_again.go.

// modern answers one POST of the stateless era. It has one message.
func (g *Gateway) modern(p *post, k marks) {
	m := p.messages[0]
	switch {
	case p.batch:
		g.fail(p.w, http.StatusBadRequest, mcp.ID{}, errNoBatches)
		return
	case m.Kind() == mcp.Response:
		g.fail(p.w, http.StatusBadRequest, mcp.ID{}, &mcp.Error{Code: mcp.CodeInvalidRequest,
			Message: "clients send no responses in protocol version 2026-07-28; answers to questions go into inputResponses"})
		return
	}
	client, err := introduced(p.r, m, k)
	if err != nil {
		g.fail(p.w, modernStatus(err), p.id(), err)
		return
	}
	if m.Kind() == mcp.Notification {
		// There is none that means anything here: closing a POST is what cancels
		// it, and nothing is kept that could change.
		p.w.WriteHeader(http.StatusAccepted)
		return
	}
	if slices.Contains(removedMethods, m.Method) {
		err := &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "protocol version 2026-07-28 has no " + m.Method}
		g.fail(p.w, modernStatus(err), m.ID, err)
		return
	}
	if !g.calls.enter() {
		g.fail(p.w, http.StatusServiceUnavailable, m.ID, errStopping)
		return
	}
	defer g.calls.leave()
	x := &exchange.Exchange{Client: client, Request: m, Meta: k.meta, Headers: mirrored(p.r.Header)}
	x.Open = func(ctx context.Context) (*mcp.Message, error) { return g.cfg.Backend.Do(ctx, x) }
	if m.Method == mcp.MethodSubscriptionsListen {
		g.subscription(p, x)
		return
	}
	c, err := g.callOf(x, p.loan)
	if err != nil {
		g.fail(p.w, modernStatus(err), m.ID, err)
		return
	}
	g.carry(p, c, m)
}

// removedMethods are requests of the session era that must not be taken for
// anything in this one, even where the server behind us knows them.
var removedMethods = []string{
	mcp.MethodInitialize, mcp.MethodPing, mcp.MethodSetLevel, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe,
}

// introduced reads who sends a message, and holds it to the rules that whoever
// reads a body must check its headers by (same page, Standard Headers). The
// error is an *mcp.Error.
func introduced(r *http.Request, m *mcp.Message, k marks) (*exchange.Client, error) {
	err := k.metaErr
	if err == nil {
		err = k.meta.Check()
	}
	switch {
	case err != nil:
		return nil, err
	case k.header == "":
		return nil, mismatch("the %s header is missing; it must repeat _meta's %s", mcp.HeaderVersion, mcp.MetaVersion)
	case k.meta.Versioned && k.meta.Version != k.header:
		return nil, mismatch("the %s header is %.32q, and _meta's %s %.32q", mcp.HeaderVersion, k.header, mcp.MetaVersion, k.meta.Version)
	case !slices.Contains(mcp.StatelessVersions(), mcp.Version(k.header)):
		return nil, unsupported(k.header, mcp.Versions())
	case !k.meta.Versioned && m.Kind() == mcp.Request:
		return nil, &mcp.Error{Code: mcp.CodeInvalidParams, Message: "params._meta needs " + mcp.MetaVersion}
	}
	client := &exchange.Client{Principal: principalOf(r), Version: mcp.Version(k.header)}
	if k.meta.Capabilities == nil && m.Kind() == mcp.Request {
		return nil, &mcp.Error{Code: mcp.CodeInvalidParams, Message: "params._meta needs " + mcp.MetaCapabilities}
	}
	client.Capabilities, client.Info = k.meta.Capabilities, k.meta.ClientInfo
	if err := checkDeclaration(client.Capabilities, "_meta's "+mcp.MetaCapabilities); err != nil {
		return nil, err
	}
	if err := checkDeclaration(client.Info, "_meta's "+mcp.MetaClientInfo); err != nil {
		return nil, err
	}
	return client, checkMirrors(r, m)
}

// checkMirrors compares Mcp-Method and Mcp-Name with the body. Mcp-Param-* need
// the tool's schema, so whoever has it compares them.
func checkMirrors(r *http.Request, m *mcp.Message) error {
	method, err := mirror(r, mcp.HeaderMethod)
	if err != nil {
		return err
	}
	if method != m.Method {
		return mismatch("the %s header is %.64q, and the method %.64q", mcp.HeaderMethod, method, m.Method)
	}
	member := mcp.MirroredName(m.Method)
	if member == "" {
		return nil
	}
	want, found, err := mcp.LookupName(m.Method, m.Params)
	if err != nil || !found {
		return err // without it, the server says what is wrong with the params
	}
	name, err := mirror(r, mcp.HeaderName)
	if err != nil {
		return err
	}
	if name != want {
		return mismatch("the %s header is %.64q, and params.%s %.64q", mcp.HeaderName, name, member, want)
	}
	return nil
}

// mirror is the decoded value of a header that must be there, once.
func mirror(r *http.Request, header string) (string, error) {
	values := r.Header[header]
	if len(values) != 1 || values[0] == "" {
		return "", mismatch("the %s header must be there, once", header)
	}
	value, ok := mcp.DecodeHeader(values[0])
	if !ok {
		return "", mismatch("the %s header is not what its encoding says", header)
	}
	return value, nil
}

func mismatch(format string, args ...any) error {
	return &mcp.Error{Code: mcp.CodeHeaderMismatch, Message: fmt.Sprintf(format, args...)}
}

// mirrored are the Mcp-Param-* headers. They go on as they are, known or not
// (same page, Intermediaries).
func mirrored(h http.Header) http.Header {
	var out http.Header
	for name, values := range h {
		if strings.HasPrefix(name, mcp.HeaderParamPrefix) {
			if out == nil {
				out = http.Header{}
			}
			out[name] = values
		}
	}
	return out
}

// subscription serves subscriptions/listen, which lives until its client closes
// it, or we end: then with a result, so that the client knows that it is over.
func (g *Gateway) subscription(p *post, x *exchange.Exchange) {
	if !p.events {
		// Nothing of it could be told, and it may never end.
		g.fail(p.w, http.StatusNotAcceptable, x.Request.ID, &mcp.Error{Code: mcp.CodeInvalidRequest,
			Message: "the Accept header of subscriptions/listen must allow text/event-stream"})
		return
	}
	ctx, cancel := context.WithCancelCause(p.r.Context())
	defer cancel(nil)
	defer context.AfterFunc(g.draining, func() { cancel(errStopping) })()
	reply := p.reply(g, nil)
	x.Peer = reply
	reply.start()
	response := g.outcome(ctx, x)
	if errors.Is(context.Cause(ctx), errStopping) {
		response = mcp.SubscriptionEnded(x.Request.ID)
	}
	reply.finish(statusOf(response), []*mcp.Message{response}, false)
}
