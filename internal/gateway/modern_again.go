package gateway

import (
	"encoding/json"
	"fmt"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// This file is for the POSTs that go on with a call which waits for its client (MCP
// 2026-07-28, Multi Round-Trip Requests). Each is a request of its own: it has its
// own id, token of progress and log level, and the first one's mean nothing any more.

// continuation is a POST that goes on with a call.
type continuation struct {
	round   int // that it is the answer to
	answers map[string]json.RawMessage
	token   json.RawMessage // of progress, nil for none
	level   string          // of log messages, "" for none
	loan    *loan           // of its body
}

// resume gives the answers to the server's questions. What is not answered is
// asked again (MCP 2026-07-28, MRTR, Server Requirements).
func (c *modernCall) resume(next *continuation) error {
	onLevel, err := c.goOn(next)
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
			q.answered <- clientAnswer{result: answer, loan: next.loan.keep()}
		}
	}
	if len(c.open) > 0 {
		c.signal()
	}
	return nil
}

// goOn makes the POST the one that the call is for, and returns who cares for its log
// level.
func (c *modernCall) goOn(next *continuation) (onLevel func(string), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if next.round != c.round {
		return nil, errState
	}
	if !c.g.parked.resume(c) {
		return nil, errNoLonger
	}
	c.round++ // once
	c.token, c.level = next.token, next.level
	return c.onLevel, nil
}

// callOf finds the call that a request goes on with, or begins one. l is the loan
// of the request's body.
func (g *Gateway) callOf(x *exchange.Exchange, l *loan) (*modernCall, error) {
	if !mcp.IsMultiRound(x.Request.Method) || !mcp.Mentions(x.Request.Params, "requestState") {
		return g.begin(x, l), nil
	}
	token, found, err := mcp.LookupString(x.Request.Params, "requestState")
	if err != nil {
		return nil, err
	}
	if !found {
		return g.begin(x, l), nil
	}
	st, err := g.unseal(x, token)
	if err != nil {
		return nil, err
	}
	if st.Call == "" { // the server's own
		value, err := json.Marshal(st.Server)
		if err != nil {
			return nil, err
		}
		if x.Request.Params, err = mcp.Replace(x.Request.Params, value, "requestState"); err != nil {
			return nil, err
		}
		return g.begin(x, l), nil
	}
	next, err := continuationOf(x)
	if err != nil {
		return nil, err
	}
	c := g.parked.get(st.Call)
	if c == nil {
		return nil, errNoLonger
	}
	next.round, next.loan = st.Round, l
	return c, c.resume(next)
}

// continuationOf reads what the request x adds to a call that waits. The error is an
// *mcp.Error.
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
			return len(next.answers) <= maxQuestions
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
