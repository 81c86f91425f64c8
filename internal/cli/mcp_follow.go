package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// maxFollowed bounds how many lines of progress and log one command shows.
const maxFollowed = 10_000

// follow asks for the progress and the log of a call if a person looks on: the
// progress by a token, the log by the level of the request (2026-07-28) or of the
// session.
func follow(ctx context.Context, app *App, s *sdk.ClientSession, call *sdk.CallToolParams) {
	if !isTerminal(app.Err) {
		return
	}
	said := s.InitializeResult()
	call.Meta = sdk.Meta{"progressToken": "thv"}
	switch {
	case said.Capabilities == nil || said.Capabilities.Logging == nil: //nolint:staticcheck // deprecated by the newest version only
	case mcp.Version(said.ProtocolVersion).IsStateless():
		call.Meta[mcp.MetaLogLevel] = "info"
	default:
		// Without the log, the call is as good.
		_ = s.SetLoggingLevel(ctx, &sdk.SetLoggingLevelParams{Level: "info"}) //nolint:staticcheck // the same
	}
}

// progress shows how far a call is (MCP basic/utilities/progress).
func (p *person) progress(_ context.Context, n *sdk.ProgressNotificationClientRequest) {
	text := "progress: " + strconv.FormatFloat(n.Params.Progress, 'f', -1, 64)
	if n.Params.Total > 0 {
		text += " of " + strconv.FormatFloat(n.Params.Total, 'f', -1, 64)
	}
	p.follow(text + " " + n.Params.Message)
}

// log shows what a server logs (MCP server/utilities/logging).
func (p *person) log(_ context.Context, n *sdk.LoggingMessageRequest) {
	text, ok := n.Params.Data.(string)
	if !ok {
		b, _ := json.Marshal(n.Params.Data) // it was JSON
		text = string(b)
	}
	p.follow(fmt.Sprintf("%s: %s %s", n.Params.Level, n.Params.Logger, text))
}

func (p *person) follow(line string) {
	if !isTerminal(p.app.Err) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.followed++; p.followed <= maxFollowed {
		fmt.Fprintln(p.app.Err, shown(line))
	}
}
