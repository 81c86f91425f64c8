package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// partingTime is how long a command that was given up waits to tell the server so.
const partingTime = time.Second

// parting tells the server that a call was given up before the connection is closed.
// The SDK sends notifications/cancelled (MCP, basic/utilities/cancellation) on the side
// and drops it when the connection closes first, and a server may then work on for
// nobody.
type parting struct {
	next http.RoundTripper
	told chan struct{} // holds a word when the server has been told
}

func newParting(next http.RoundTripper) *parting {
	return &parting{next: next, told: make(chan struct{}, 1)}
}

func (p *parting) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := p.next.RoundTrip(r)
	if isCancellation(r) {
		select {
		case p.told <- struct{}{}:
		default:
		}
	}
	return resp, err
}

// isCancellation reports whether r carries notifications/cancelled, which is short.
func isCancellation(r *http.Request) bool {
	if r.Method != http.MethodPost || r.GetBody == nil || r.ContentLength > 64<<10 {
		return false
	}
	body, err := r.GetBody()
	if err != nil {
		return false
	}
	defer body.Close()
	var m struct{ Method string }
	return json.NewDecoder(io.LimitReader(body, 64<<10)).Decode(&m) == nil && m.Method == mcp.NotificationCancelled
}

// middleware holds up the end of a call that was given up until the server knows. The
// stateless era has no word for it: there, the end of the connection is the word.
func (p *parting) middleware(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		result, err := next(ctx, method, req)
		session, ok := req.GetSession().(*sdk.ClientSession)
		if err == nil || ctx.Err() == nil || !ok || session.InitializeResult() == nil ||
			!mcp.Version(session.InitializeResult().ProtocolVersion).IsSession() {
			return result, err
		}
		select {
		case <-p.told:
		case <-time.After(partingTime):
		}
		return result, err
	}
}
