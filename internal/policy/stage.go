package policy

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/plaintext"
)

// open are the requests that need no decision. They carry no data of tools, prompts or
// resources, or only of calls that were permitted.
var open = map[string]bool{
	mcp.MethodInitialize: true, mcp.MethodPing: true, mcp.MethodDiscover: true, mcp.MethodSetLevel: true,
	mcp.MethodResourcesUnsubscribe: true,
	"tasks/get":                    true, "tasks/list": true, "tasks/result": true, "tasks/cancel": true, "tasks/update": true,
}

// Stage is an [exchange.Stage]: it denies requests with [exchange.Forbid], and filters
// the results of list requests. A method that it does not know does not exist for the client.
func (p *Policy) Stage(next exchange.Handler) exchange.Handler {
	return func(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
		if open[x.Request.Method] {
			return next(ctx, x)
		}
		if _, ok := listed[x.Request.Method]; ok {
			return p.list(ctx, x, next)
		}
		requests, err := p.requests(x)
		if err != nil {
			return nil, err
		}
		who := p.principalOf(x.Caller)
		for _, r := range requests {
			if p.usesHints && r.Action == CallTool {
				if r.Hints, err = p.hintsOf(ctx, x, next, r.Name); err != nil {
					return nil, err
				}
			}
			decision, err := p.decide(who, r)
			if err != nil {
				return nil, err
			}
			if !decision.Allow {
				return nil, denied(r)
			}
		}
		return next(ctx, x)
	}
}

func denied(r Request) error {
	return exchange.Forbid("not authorized: %s %s", strings.ReplaceAll(r.Action, "_", " "), plaintext.Excerpt(r.Name, 256))
}

// requests are the decisions that the request of x needs; all must be permitted.
func (p *Policy) requests(x *exchange.Exchange) ([]Request, error) {
	params := x.Request.Params
	switch x.Request.Method {
	case mcp.MethodToolsCall:
		r, err := target(params, CallTool, "name")
		if err == nil {
			r.Arguments, _, err = mcp.Lookup(params, "arguments")
		}
		return []Request{r}, err
	case mcp.MethodPromptsGet:
		r, err := target(params, GetPrompt, "name")
		if err == nil {
			r.Arguments, _, err = mcp.Lookup(params, "arguments")
		}
		return []Request{r}, err
	case mcp.MethodResourcesRead, mcp.MethodResourcesSubscribe:
		r, err := target(params, ReadResource, "uri")
		return []Request{r}, err
	case mcp.MethodComplete:
		return completion(params)
	case mcp.MethodSubscriptionsListen:
		return subscription(params)
	}
	// A server must respond so to a method that it does not have (JSON-RPC 2.0 section 5.1).
	return nil, &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "method not found: " + plaintext.Excerpt(x.Request.Method, 64) + "; the authorization permits only methods of MCP"}
}

// target is the request for the name at path in params.
func target(params json.RawMessage, action string, path ...string) (Request, error) {
	name, found, err := mcp.LookupString(params, path...)
	if err == nil && !found {
		err = &mcp.Error{Code: mcp.CodeInvalidParams, Message: "params." + strings.Join(path, ".") + " is missing"}
	}
	return Request{Action: action, Name: name}, err
}

// completion is about a prompt or a resource template (MCP, Completion).
func completion(params json.RawMessage) ([]Request, error) {
	kind, _, err := mcp.LookupString(params, "ref", "type")
	if err != nil {
		return nil, err
	}
	action, member := GetPrompt, "name"
	switch kind {
	case "ref/prompt":
	case "ref/resource":
		action, member = ReadResource, "uri"
	default:
		return nil, &mcp.Error{Code: mcp.CodeInvalidParams, Message: "params.ref.type must be ref/prompt or ref/resource"}
	}
	r, err := target(params, action, "ref", member)
	return []Request{r}, err
}

// subscription is about the resources of a subscriptions/listen (MCP 2026-07-28).
func subscription(params json.RawMessage) ([]Request, error) {
	raw, found, err := mcp.Lookup(params, "notifications", "resourceSubscriptions")
	if err != nil || !found || string(raw) == "null" {
		return nil, err
	}
	var uris []string
	if err := json.Unmarshal(raw, &uris); err != nil {
		return nil, &mcp.Error{Code: mcp.CodeInvalidParams, Message: "notifications.resourceSubscriptions must be an array of strings"}
	}
	requests := make([]Request, 0, len(uris))
	for _, uri := range uris {
		requests = append(requests, Request{Action: ReadResource, Name: uri})
	}
	return requests, nil
}

// list sends a list request and removes from the result what the caller may not use.
func (p *Policy) list(ctx context.Context, x *exchange.Exchange, next exchange.Handler) (*mcp.Message, error) {
	of := listed[x.Request.Method]
	m, err := next(ctx, x)
	if err != nil || m.Error != nil {
		return m, err
	}
	l, err := p.read(x.Request.Method, m.Result)
	if err != nil {
		return nil, err
	}
	e := p.evaluation(p.principalOf(x.Caller), of.action)
	permitted := make([]json.RawMessage, 0, len(l.list.Items))
	for i, item := range l.list.Items {
		if allow, _ := e.authorize(item.Name, l.attributes[i]); allow {
			permitted = append(permitted, item.Raw)
		}
	}
	if len(permitted) == len(l.list.Items) {
		return m, nil
	}
	return mcp.NewResult(m.ID, l.list.With(permitted)), nil
}
