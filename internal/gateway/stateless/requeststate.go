package stateless

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// requestState is the content of a requestState that the gateway issues, sealed: the client
// keeps it and sends it again with the same request. The seal binds it to the principal, the
// method and the params (MCP 2026-07-28, Multi Round-Trip Requests, Security
// Considerations).
type requestState struct {
	// Call and Round identify a call that waits at this gateway.
	Call  string `json:"c,omitempty"`
	Round int    `json:"r,omitempty"`
	// Server is the requestState of the server, when that issued one.
	Server string `json:"s,omitempty"`
	// Issued is in microseconds since 1970.
	Issued int64 `json:"i"`
}

// stateTime is how long a requestState is valid: a person may have to find a password.
const stateTime = time.Hour

var (
	errState        = &mcp.Error{Code: mcp.CodeInvalidParams, Message: "requestState was not issued for this request, or was used already"}
	errStateExpired = &mcp.Error{Code: mcp.CodeInvalidParams, Message: "requestState has expired; make the request again without it"}
)

func (f *Front) seal(x *exchange.Exchange, state requestState) string {
	state.Issued = time.Now().UnixMicro()
	plain, err := json.Marshal(state)
	if err != nil {
		panic(err) // texts and numbers
	}
	return f.core.Sealer.Close(f.stateBinding(x), plain)
}

func (f *Front) unseal(x *exchange.Exchange, token string) (requestState, error) {
	plain, err := f.core.Sealer.Open(f.stateBinding(x), token)
	var state requestState
	switch {
	case err != nil || json.Unmarshal(plain, &state) != nil:
		return requestState{}, errState
	case time.Since(time.UnixMicro(state.Issued)) > stateTime:
		return requestState{}, errStateExpired
	}
	return state, nil
}

// stateBinding is what a request must have in common with the one that it continues: the
// principal, the method and the params.
func (f *Front) stateBinding(x *exchange.Exchange) string {
	rest, err := mcp.Without(x.Request.Params, func(key string) bool {
		return key == "_meta" || key == "inputResponses" || key == "requestState"
	})
	if err != nil {
		rest = x.Request.Params // with the state itself, so that none is valid
	}
	// The client may write the same value in another way.
	if canonical, err := mcp.Canonical(rest); err == nil {
		rest = canonical
	}
	sum := sha256.Sum256(rest)
	return "requestState\x00" + f.core.Name + "\x00" + x.Client.Principal + "\x00" + x.Request.Method + "\x00" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// sealServerState seals the requestState in a result of the server, so that clients cannot
// alter it, and it is valid for the same principal and request only.
func (f *Front) sealServerState(x *exchange.Exchange, result json.RawMessage) (json.RawMessage, error) {
	if !mcp.Mentions(result, mcp.ResultInputRequired) {
		return result, nil
	}
	if kind, _, err := mcp.LookupString(result, "resultType"); err == nil && kind != mcp.ResultInputRequired {
		return result, nil // the text is elsewhere
	}
	theirs, found, err := mcp.LookupString(result, "requestState")
	if err != nil {
		return nil, &mcp.Error{Code: mcp.CodeServerGone, Message: "the server's input_required result cannot be read: " + err.Error()}
	}
	if !found {
		return result, nil
	}
	ours, err := json.Marshal(f.seal(x, requestState{Server: theirs}))
	if err != nil {
		return nil, err
	}
	return mcp.Replace(result, ours, "requestState")
}
