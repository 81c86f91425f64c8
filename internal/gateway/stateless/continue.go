package stateless

import (
	"encoding/json"
	"fmt"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// continuation is a POST that continues a call which waits for its client (MCP 2026-07-28,
// Multi Round-Trip Requests). It is a request of its own: its id, progress token and log
// level replace those of the POST before.
type continuation struct {
	round   int // that it answers
	answers map[string]json.RawMessage
	token   json.RawMessage // progress token; nil for none
	level   string          // log level; "" for none
	body    *httpd.Reservation
}

// callOf finds the call that the request x of the POST p continues, or begins one.
func (f *Front) callOf(p *httpd.Post, x *exchange.Exchange) (*call, error) {
	if !mcp.IsMultiRound(x.Request.Method) || !mcp.Mentions(x.Request.Params, "requestState") {
		return f.begin(p.R.Context(), x, p.Body), nil
	}
	token, found, err := mcp.LookupString(x.Request.Params, "requestState")
	if err != nil {
		return nil, err
	}
	if !found {
		return f.begin(p.R.Context(), x, p.Body), nil
	}
	state, err := f.unseal(x, token)
	if err != nil {
		return nil, err
	}
	if state.Call == "" { // the server's own
		value, err := json.Marshal(state.Server)
		if err != nil {
			return nil, err
		}
		if x.Request.Params, err = mcp.Replace(x.Request.Params, value, "requestState"); err != nil {
			return nil, err
		}
		return f.begin(p.R.Context(), x, p.Body), nil
	}
	next, err := continuationOf(x)
	if err != nil {
		return nil, err
	}
	c := f.parked.get(state.Call)
	if c == nil {
		return nil, errNoLonger
	}
	next.round, next.body = state.Round, p.Body
	return c, c.resume(next)
}

// continuationOf reads the answers in the request x. The error is an *mcp.Error.
func continuationOf(x *exchange.Exchange) (*continuation, error) {
	next := &continuation{answers: map[string]json.RawMessage{}, token: x.Meta.ProgressToken, level: x.Meta.LogLevel}
	raw, found, err := mcp.Lookup(x.Request.Params, "inputResponses")
	if err != nil {
		return nil, err
	}
	if found {
		if raw[0] != '{' {
			return nil, &mcp.Error{Code: mcp.CodeInvalidParams, Message: "inputResponses must be an object"}
		}
		if err := mcp.Members(raw, func(key string, value json.RawMessage) bool {
			next.answers[key] = value
			return len(next.answers) <= exchange.MaxQuestions
		}); err != nil {
			return nil, err
		}
	}
	for key, answer := range next.answers {
		if answer[0] != '{' {
			return nil, &mcp.Error{Code: mcp.CodeInvalidParams, Message: fmt.Sprintf("inputResponses[%.32q] must be an object", key)}
		}
	}
	return next, nil
}

// resume passes the answers to the server. A request without an answer is sent to the
// client again (MCP 2026-07-28, MRTR, Server Requirements).
func (c *call) resume(next *continuation) error {
	onLevel, err := c.unpark(next)
	if err != nil {
		return err
	}
	if onLevel != nil {
		onLevel(next.level)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, answer := range next.answers {
		if q := c.open[key]; q != nil {
			delete(c.open, key)
			q.answered <- httpd.Answer{Result: answer, Body: next.body.Retain()}
		}
	}
	if len(c.open) > 0 {
		c.signal()
	}
	return nil
}

// unpark makes next the POST of the call, and returns the function of OnLogLevel.
func (c *call) unpark(next *continuation) (onLevel func(string), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if next.round != c.round {
		return nil, errState
	}
	if !c.front.parked.resume(c) {
		return nil, errNoLonger
	}
	c.round++ // each requestState is valid once
	c.token, c.level = next.token, next.level
	return c.onLevel, nil
}
