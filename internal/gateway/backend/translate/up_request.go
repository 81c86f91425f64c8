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

// What a client of the stateless era is told that the server, which is of the
// session era, does not say: complete results, that must not be kept by anybody.
const (
	completeMember = `"resultType":"` + mcp.ResultComplete + `"`
	cacheMembers   = `"ttlMs":0,"cacheScope":"private"`
)

// cacheable are the methods whose results must say how long they are good for
// (MCP 2026-07-28, Caching).
var cacheable = []string{
	mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResourcesList, mcp.MethodResourceTemplatesList, mcp.MethodResourcesRead,
}

// discover is the result of server/discover, out of the answer to initialize.
func (s *upSession) discover(id mcp.ID) (*mcp.Message, error) {
	capabilities := s.capabilities
	if len(capabilities) == 0 {
		capabilities = json.RawMessage(`{}`)
	}
	// Tasks of 2025-11-25 are others than the extension of 2026-07-28.
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

// play plays out a request that both eras have, and that wants log messages from a
// level on; "" for none.
func (s *upSession) play(ctx context.Context, x *exchange.Exchange, level string) (*mcp.Message, error) {
	request := *x.Request
	var err error
	if request.Params, err = wire.WithoutClientMeta(request.Params); err != nil {
		return nil, err
	}
	// Answers to what this request did not ask here: see urlElicitation.
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
	answer, err := s.Do(ctx, &exchange.Exchange{Client: x.Client, Request: &request, Peer: peer})
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

// unknownMethod: some servers refuse a method that they do not know with HTTP 400
// and no answer. Where the protocol has no such method, that is what it means.
func unknownMethod(method string, err error) error {
	var refused *wire.StatusError
	if !errors.As(err, &refused) || refused.Status != http.StatusBadRequest && refused.Status != http.StatusNotFound || slices.Contains(mcp.ClientMethods(), method) {
		return err
	}
	return &mcp.Error{Code: mcp.CodeMethodNotFound, Message: refused.Error()}
}

// complete adds to a result what the stateless era demands of every one.
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

// statelessError turns codes of the session era into what the stateless era has in
// their place (MCP 2026-07-28, Error Codes).
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

// urlElicitation turns URLElicitationRequiredError (MCP 2025-11-25, Elicitation)
// into the result by which the stateless era asks the same. When the person has
// done what the URL is for, the client makes the request again.
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

// statelessElicitation: the stateless era tells elicitations apart by their place.
func statelessElicitation(params json.RawMessage) (json.RawMessage, error) {
	return mcp.Without(params, func(key string) bool { return key == "elicitationId" })
}
