package gateway

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// state is what a requestState of ours holds, sealed: the client keeps it, and
// brings it back with the same request. The seal binds it to the principal, the
// method and the params (MCP 2026-07-28, Multi Round-Trip
// Requests, Security Considerations).
type state struct {
	// Call and Round name a call that waits here.
	Call  string `json:"c,omitempty"`
	Round int    `json:"r,omitempty"`
	// Server is the state of the server behind us, when that made it.
	Server string `json:"s,omitempty"`
	// Nonce is good for one use, for stateTime after Issued (Unix microseconds).
	Nonce  string `json:"n"`
	Issued int64  `json:"i"`
}

// stateTime is how long a requestState may be brought back: a person may have to
// find a password, but not to come back the next day.
const stateTime = time.Hour

var (
	errState        = &mcp.Error{Code: mcp.CodeInvalidParams, Message: "requestState is not one that was given for this request, or was used already"}
	errStateExpired = &mcp.Error{Code: mcp.CodeInvalidParams, Message: "requestState has expired; make the request again without it"}
)

func (g *Gateway) seal(x *exchange.Exchange, st state) string {
	st.Nonce, st.Issued = rand.Text(), time.Now().UnixMicro()
	plain, err := json.Marshal(st)
	if err != nil {
		panic(err) // texts and numbers
	}
	return g.sealer.Close(g.stateBinding(x), plain)
}

func (g *Gateway) unseal(x *exchange.Exchange, token string) (state, error) {
	plain, err := g.sealer.Open(g.stateBinding(x), token)
	var st state
	switch {
	case err != nil || json.Unmarshal(plain, &st) != nil:
		return state{}, errState
	case time.Since(time.UnixMicro(st.Issued)) > stateTime:
		return state{}, errStateExpired
	case st.Call != "":
		return st, nil // its round is good once
	}
	return st, g.used.take(st.Nonce, st.Issued)
}

// stateBinding is what a request must have in common with the one that it
// continues: who makes it, and what it asks for.
func (g *Gateway) stateBinding(x *exchange.Exchange) string {
	rest, err := mcp.Without(x.Request.Params, func(key string) bool {
		return key == "_meta" || key == "inputResponses" || key == "requestState"
	})
	if err != nil {
		rest = x.Request.Params // with the state itself, so that none is good for it
	}
	// The client may write it in another way the next time, if that is the same to
	// every reader.
	if canonical, err := mcp.Canonical(rest); err == nil {
		rest = canonical
	}
	sum := sha256.Sum256(rest)
	return "requestState\x00" + g.cfg.Name + "\x00" + x.Client.Principal + "\x00" + x.Request.Method + "\x00" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// sealState seals the requestState that a server gave of itself, so that it
// cannot be altered, used by somebody else, or with another request.
func (g *Gateway) sealState(x *exchange.Exchange, result json.RawMessage) (json.RawMessage, error) {
	if !mcp.Mentions(result, mcp.ResultInputRequired) {
		return result, nil
	}
	if kind, _, err := mcp.LookupString(result, "resultType"); err == nil && kind != mcp.ResultInputRequired {
		return result, nil // the text stands somewhere else
	}
	theirs, found, err := mcp.LookupString(result, "requestState")
	if err != nil {
		return nil, &mcp.Error{Code: mcp.CodeServerGone, Message: "the server asks for input in a way that cannot be read: " + err.Error()}
	}
	if !found {
		return result, nil
	}
	ours, err := json.Marshal(g.seal(x, state{Server: theirs}))
	if err != nil {
		return nil, err
	}
	return mcp.Replace(result, ours, "requestState")
}
