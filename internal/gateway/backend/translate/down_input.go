package translate

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

const (
	// maxRounds bounds how often one request is sent because the server requires input
	// again. The official Go SDK has the same limit, so servers work within it.
	maxRounds = 10
	// maxSheds bounds how often in a row a server may postpone a request: it returns
	// input_required without input requests.
	maxSheds  = 3
	firstShed = 500 * time.Millisecond // the first pause after that; it doubles
)

// roundTrip sends a request to the server and returns its response. While the result is
// input_required, it sends the input requests to the client, and then the request with the
// client's responses to the server (MCP 2026-07-28, Multi Round-Trip Requests).
func (c *downConn) roundTrip(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	method := x.Request.Method
	level := c.logLevel()
	base, err := c.introduction.Into(x.Request.Params, level)
	if err != nil {
		return nil, err
	}
	mayAsk := mcp.IsMultiRound(method)
	if mayAsk {
		// A client of the session era received no input requests that these could answer.
		base, err = mcp.Without(base, func(key string) bool { return key == "inputResponses" || key == "requestState" })
		if err != nil {
			return nil, err
		}
	}
	// The first request has the client's id. Each later one has an id of the gateway's own.
	request := &mcp.Message{ID: x.Request.ID, Method: method, Params: base}
	sent := func() {}
	defer func() { sent() }()
	for round, sheds := 1, 0; ; round++ {
		answer, err := c.send(ctx, request, mcp.Meta{ProgressToken: x.Meta.ProgressToken, LogLevel: level}, x.Peer)
		sent()
		if err != nil {
			return nil, err
		}
		answer = &mcp.Message{ID: x.Request.ID, Result: answer.Result, Error: answer.Error}
		if answer.Error != nil {
			return answer, nil
		}
		kind, found, err := mcp.LookupString(answer.Result, "resultType")
		switch {
		case err != nil:
			return nil, wire.ServerGone("the server's answer to %s cannot be read: %v", wire.Printable(method), err)
		case !found || kind == mcp.ResultComplete:
			return answer, nil
		case kind != mcp.ResultInputRequired || !mayAsk:
			return nil, wire.ServerGone("the server answered %s with a result of type %q, which the protocol does not have there", wire.Printable(method), wire.Printable(kind))
		case round >= maxRounds:
			return nil, wire.ServerGone("the server asked for more input %d times in one request; it is given up", maxRounds)
		}
		required, err := readInputRequired(answer.Result)
		if err != nil {
			return nil, wire.ServerGone("the server asks for input in a way that cannot be read: %v", err)
		}
		if len(required.requests) == 0 {
			if sheds++; sheds > maxSheds {
				return nil, wire.ServerGone("the server has deferred the request %d times; try again later", maxSheds)
			}
			if wire.Sleep(ctx, firstShed<<(sheds-1)) != nil {
				return nil, context.Cause(ctx)
			}
		} else {
			sheds = 0
		}
		var responses map[string]json.RawMessage
		if responses, sent, err = c.ask(ctx, wire.OrNoPeer(x.Peer), &required); err != nil {
			return nil, err
		}
		// The client may have set another log level meanwhile.
		level = c.logLevel()
		if base, err = c.introduction.Into(base, level); err != nil {
			return nil, err
		}
		request = &mcp.Message{ID: c.clients.newID(), Method: method}
		if request.Params, err = required.again(base, responses); err != nil {
			return nil, err
		}
	}
}

// inputRequired is an InputRequiredResult.
type inputRequired struct {
	requests []inputRequest
	state    json.RawMessage // a JSON string, nil for none
}

type inputRequest struct {
	key, method string
	params      json.RawMessage
}

func readInputRequired(result json.RawMessage) (inputRequired, error) {
	var in inputRequired
	state, stated, err := mcp.LookupString(result, "requestState")
	if err != nil {
		return in, err
	}
	if stated {
		if in.state, err = json.Marshal(state); err != nil {
			return in, err
		}
	}
	requests, found, err := mcp.Lookup(result, "inputRequests")
	if err != nil {
		return in, err
	}
	if !found && !stated {
		return in, wire.ServerGone("it has neither inputRequests nor requestState")
	}
	var fault error
	err = mcp.Members(requests, func(key string, value json.RawMessage) bool {
		q := inputRequest{key: key}
		if q.method, _, fault = mcp.LookupString(value, "method"); fault == nil {
			q.params, _, fault = mcp.Lookup(value, "params")
			q.params = bytes.Clone(q.params) // the rest of the result is freed while the client is waited for
		}
		if in.requests = append(in.requests, q); fault == nil && len(in.requests) > wire.MaxServerRequests {
			fault = wire.ServerGone("it has more than %d inputRequests", wire.MaxServerRequests)
		}
		return fault == nil
	})
	if err == nil {
		err = fault
	}
	return in, err
}

// again returns the params of the next request: those of the first request, the client's
// responses and the server's requestState.
func (in *inputRequired) again(base json.RawMessage, responses map[string]json.RawMessage) (json.RawMessage, error) {
	params := base
	if len(responses) > 0 {
		raw, err := json.Marshal(responses)
		if err != nil {
			return nil, wire.ServerGone("the client's answers cannot be written: %v", err)
		}
		if params, err = mcp.Set(params, raw, "inputResponses"); err != nil {
			return nil, err
		}
	}
	if in.state == nil {
		return params, nil
	}
	return mcp.Set(params, in.state, "requestState")
}

// ask sends all input requests to the client concurrently and returns the responses by
// key. The first failure cancels the other requests. The caller calls sent when the server
// has received the responses, and also after an error. Until then the responses and the
// server's requestState count as memory that the gateway holds.
func (c *downConn) ask(ctx context.Context, peer exchange.Peer, required *inputRequired) (responses map[string]json.RawMessage, sent func(), err error) {
	asking, withdraw := context.WithCancelCause(ctx)
	release, err := peer.Hold(len(required.state))
	if err != nil {
		return nil, func() { withdraw(nil) }, err
	}
	sent = sync.OnceFunc(func() {
		withdraw(nil)
		release()
	})
	questions := required.requests
	for i := range questions {
		if err := c.prepare(&questions[i]); err != nil {
			return nil, sent, err
		}
	}
	var mu sync.Mutex
	responses = make(map[string]json.RawMessage, len(questions))
	var all sync.WaitGroup
	for i, q := range questions {
		all.Go(func() {
			result, err := sendInputRequest(asking, peer, int64(i+1), q)
			if err != nil {
				withdraw(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			responses[q.key] = result
		})
	}
	all.Wait()
	if asking.Err() != nil {
		return nil, sent, context.Cause(asking)
	}
	return responses, sent, nil
}

func sendInputRequest(ctx context.Context, peer exchange.Peer, id int64, q inputRequest) (json.RawMessage, error) {
	answer, err := peer.Ask(ctx, &mcp.Message{ID: mcp.IntID(id), Method: q.method, Params: q.params})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, unanswered(q, err)
	case answer.Error != nil:
		return nil, unanswered(q, answer.Error)
	case len(answer.Result) == 0 || answer.Result[0] != '{':
		return nil, unanswered(q, wire.ServerGone("its answer is no object"))
	}
	return answer.Result, nil
}

func unanswered(q inputRequest, why error) error {
	return &mcp.Error{Code: mcp.CodeInternal,
		Message: "the server needs an answer to " + q.method + ", which the client did not give: " + wire.Printable(why.Error())}
}

// prepare checks that the client declared the capability that q needs, and converts q to
// the session era.
func (c *downConn) prepare(q *inputRequest) error {
	capability := mcp.NeededCapability(q.method)
	if capability == "" {
		return wire.ServerGone("the server asks for %q, which no client is asked for", wire.Printable(q.method))
	}
	undeclared := unanswered(*q, wire.ServerGone("it did not declare that it can be asked"))
	declared, found, err := mcp.Lookup(c.client.Capabilities, capability)
	if err != nil || !found || declared[0] != '{' {
		return undeclared
	}
	if q.method != mcp.MethodElicitation {
		return nil
	}
	mode, _, err := mcp.LookupString(q.params, "mode")
	switch {
	case err != nil:
		return wire.ServerGone("the server asks for input in a way that cannot be read: %v", err)
	case !canElicit(c.client.Capabilities, mode):
		return undeclared
	case mode == "url":
		// The session era requires an id, to which a notification of the completion could
		// refer. The stateless era has none.
		q.params, err = mcp.Set(q.params, json.RawMessage(strconv.Quote(rand.Text())), "elicitationId")
		return err
	}
	return nil
}

// canElicit reports whether a client with these capabilities accepts elicitation requests
// of that mode.
func canElicit(capabilities json.RawMessage, mode string) bool {
	declared, found, err := mcp.Lookup(capabilities, "elicitation")
	if err != nil || !found || declared[0] != '{' {
		return false
	}
	_, form, _ := mcp.Lookup(declared, "form")
	_, url, _ := mcp.Lookup(declared, "url")
	switch mode {
	case "", "form":
		return form || !url // an empty declaration means forms (MCP 2025-11-25, Elicitation)
	case "url":
		return url
	}
	return false // no version has another mode
}
