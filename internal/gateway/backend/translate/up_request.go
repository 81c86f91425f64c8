package translate

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Members of results that the stateless era requires and a server of the session era does
// not send. The results are complete and must not be cached.
const (
	completeMember = `"resultType":"` + mcp.ResultComplete + `"`
	cacheMembers   = `"ttlMs":0,"cacheScope":"private"`
)

// cacheable are the methods whose results must contain how long they may be cached (MCP
// 2026-07-28, Caching).
var cacheable = []string{
	mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResourcesList, mcp.MethodResourceTemplatesList, mcp.MethodResourcesRead,
}

// discover returns the response to server/discover, made from the server's
// InitializeResult.
func (s *upSession) discover(id mcp.ID) (*mcp.Message, error) {
	capabilities := s.capabilities
	if len(capabilities) == 0 {
		capabilities = json.RawMessage(`{}`)
	}
	// The tasks of 2025-11-25 differ from the tasks extension of 2026-07-28.
	capabilities, err := mcp.Without(capabilities, func(key string) bool { return key == "tasks" })
	if err != nil {
		return nil, wire.ServerGone("the server's capabilities cannot be read: %v", err)
	}
	versions, err := json.Marshal(mcp.Versions())
	if err != nil {
		return nil, err
	}
	out := append([]byte(`{`+completeMember+`,`+cacheMembers+`,"supportedVersions":`), versions...)
	out = append(append(out, `,"capabilities":`...), capabilities...)
	if instructions, found, err := mcp.Lookup(s.InitializeResult(), "instructions"); err == nil && found {
		out = append(append(out, `,"instructions":`...), instructions...)
	}
	if len(s.introduction) > 0 {
		out = append(append(append(out, `,"_meta":{`...), s.introduction...), '}')
	}
	return mcp.NewResult(id, append(out, '}')), nil
}

// roundTrip sends a request that both eras have and returns the response in the stateless era.
// level is the lowest level of the log messages that it requests, "" for none.
func (s *upSession) roundTrip(ctx context.Context, x *exchange.Exchange, level string) (*mcp.Message, error) {
	request := *x.Request
	var err error
	if request.Params, err = wire.WithoutClientMeta(request.Params); err != nil {
		return nil, err
	}
	// inputResponses can only answer a result of urlElicitation. The server does not have
	// this member.
	if mcp.Mentions(request.Params, "inputResponses") {
		if request.Params, err = mcp.Without(request.Params, func(key string) bool { return key == "inputResponses" }); err != nil {
			return nil, err
		}
	}
	if level != "" {
		if err := s.logAt(ctx, x.Client, level, nil); err != nil {
			return nil, err
		}
	}
	peer := &upPeer{Peer: wire.OrNoPeer(x.Peer), session: s, client: x.Client, level: level}
	peer.call, peer.over = context.WithCancel(ctx)
	defer peer.end()
	wire.OrNoPeer(x.Peer).OnLogLevel(peer.logFrom)
	if s.alone {
		s.unattributed.read(peer)
		defer s.unattributed.read(nil)
	}
	answer, err := s.Do(ctx, &exchange.Exchange{Client: x.Client, Request: &request, Meta: x.Meta, Peer: peer})
	if err != nil {
		return nil, unknownMethod(x.Request.Method, err)
	}
	if s.alone && peer.logLevel() != "" {
		s.awaitLateLogs(ctx)
	}
	if answer.Error != nil {
		return s.statelessError(x, answer)
	}
	result, err := s.complete(x.Request.Method, answer.Result)
	if err != nil {
		return nil, wire.ServerGone("the server's answer to %s cannot be read: %v", wire.Printable(x.Request.Method), err)
	}
	return mcp.NewResult(answer.ID, result), nil
}

// unknownMethod turns err into an error for an unknown method if the protocol has no such
// method and the server refused it with HTTP 400 or 404: some servers do so without a
// JSON-RPC response. Otherwise it returns err.
func unknownMethod(method string, err error) error {
	var refused *wire.StatusError
	if !errors.As(err, &refused) || refused.Status != http.StatusBadRequest && refused.Status != http.StatusNotFound || slices.Contains(mcp.ClientMethods(), method) {
		return err
	}
	return &mcp.Error{Code: mcp.CodeMethodNotFound, Message: refused.Error()}
}

// complete adds to a result the members that the stateless era requires. They replace
// members of the same name.
func (s *upSession) complete(method string, result json.RawMessage) (json.RawMessage, error) {
	members := completeMember
	if slices.Contains(cacheable, method) {
		members += "," + cacheMembers
	}
	ours := func(key string) bool {
		return key == "resultType" || key == "ttlMs" || key == "cacheScope" || key == "inputRequests" || key == "requestState"
	}
	result, err := mcp.Without(result, ours)
	if err != nil {
		return nil, err
	}
	if len(s.introduction) > 0 {
		if result, err = mcp.Without(result, func(key string) bool { return key == mcp.MetaServerInfo }, "_meta"); err != nil {
			return nil, err
		}
		if result, err = mcp.Insert(result, s.introduction, "_meta"); err != nil {
			return nil, err
		}
	}
	return mcp.Insert(result, []byte(members))
}

// statelessError converts errors that only the session era has to what the stateless era
// has in their place (MCP 2026-07-28, Error Codes). It returns other errors unchanged.
func (s *upSession) statelessError(x *exchange.Exchange, answer *mcp.Message) (*mcp.Message, error) {
	switch answer.Error.Code {
	case mcp.CodeResourceNotFound:
		e := *answer.Error
		e.Code = mcp.CodeInvalidParams
		return &mcp.Message{ID: answer.ID, Error: &e}, nil
	case mcp.CodeURLElicitationRequired:
		if !mcp.IsMultiRound(x.Request.Method) {
			return nil, wire.ServerGone("the server asks for something at a URL, which it cannot in an answer to %s", wire.Printable(x.Request.Method))
		}
		if !canElicit(x.Client.Capabilities, "url") {
			return &mcp.Message{ID: answer.ID, Error: &mcp.Error{Code: mcp.CodeMissingCapability, Message: answer.Error.Message,
				Data: json.RawMessage(`{"requiredCapabilities":{"elicitation":{"url":{}}}}`)}}, nil
		}
		result, err := urlElicitation(answer.Error.Data)
		if err != nil {
			return nil, wire.ServerGone("the server asks for something at a URL in a way that cannot be read: %v", err)
		}
		return mcp.NewResult(answer.ID, result), nil
	}
	return answer, nil
}

// urlElicitation converts the data of a URLElicitationRequiredError (MCP 2025-11-25,
// Elicitation) to an InputRequiredResult with the same elicitations, at most
// [wire.MaxServerRequests]. When the user has completed them, the client sends the request
// again.
func urlElicitation(data json.RawMessage) (json.RawMessage, error) {
	raw, _, err := mcp.Lookup(data, "elicitations")
	if err != nil {
		return nil, err
	}
	var elicitations []json.RawMessage
	if err := json.Unmarshal(raw, &elicitations); err != nil {
		return nil, err
	}
	if len(elicitations) == 0 {
		return nil, wire.ServerGone("it names none")
	}
	requests := map[string]mcp.InputRequest{}
	for i, params := range elicitations[:min(len(elicitations), wire.MaxServerRequests)] {
		if mode, _, err := mcp.LookupString(params, "mode"); err != nil || mode != "url" {
			return nil, wire.ServerGone("one has another mode than url")
		}
		if params, err = statelessElicitation(params); err != nil {
			return nil, err
		}
		requests[mcp.IntID(int64(i+1)).String()] = mcp.InputRequest{Method: mcp.MethodElicitation, Params: params}
	}
	return mcp.InputRequired(requests, "")
}

// statelessElicitation removes the elicitationId, which the stateless era does not have: it
// identifies elicitations by their keys in inputRequests.
func statelessElicitation(params json.RawMessage) (json.RawMessage, error) {
	return mcp.Without(params, func(key string) bool { return key == "elicitationId" })
}
