package owner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/toolset"
	"github.com/toolhaven/toolhaven/internal/workload"
)

const (
	// listTime bounds the reading of all tools.
	listTime = 30 * time.Second
	// checkTime bounds it when the server has just started: the start waits for it.
	checkTime = 10 * time.Second
	// maxDescription bounds the description of a tool in a list, in characters.
	maxDescription = 500
)

// readTools reads the server's own list of tools, before any filter, through a session of the
// owner.
func (o *owner) readTools(ctx context.Context, conn exchange.Conn) ([]toolset.Tool, error) {
	tools, err := toolset.ReadAll(func(params json.RawMessage) (*mcp.Message, error) {
		return conn.Do(ctx, &exchange.Exchange{
			Client:  self(),
			Request: &mcp.Message{ID: mcp.IntID(o.lastID.Add(1)), Method: mcp.MethodToolsList, Params: params},
			Peer:    noPeer{},
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list the server's tools: %s", plaintext.Excerpt(err.Error(), maxDescription))
	}
	return tools, nil
}

// checkTools compares the tools configuration with the tools of a server that has just
// responded. Without such a configuration it does nothing. A list that cannot be read is
// logged: the server runs, and its clients receive that error themselves.
func (o *owner) checkTools(ctx context.Context, conn exchange.Conn) {
	if o.spec.Tools.Config().IsZero() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	tools, err := o.readTools(ctx, conn)
	if err != nil {
		o.log.Warn("the tools configuration was not compared with the server's tools", "error", err)
		return
	}
	faults := o.tools.Observe(toolset.Names(tools))
	for _, fault := range faults {
		o.cfg.Notices(workload.Notice{Progress: &workload.Event{Stage: workload.NoteStage, Message: fault}})
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.toolFaults = faults
}

// listTools is the response of the control socket with all tools.
func (o *owner) listTools(ctx context.Context) (*workload.ToolList, error) {
	o.mu.Lock()
	conn := o.conn
	o.mu.Unlock()
	if conn == nil {
		return nil, errors.New("its server has not responded yet")
	}
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	tools, err := o.readTools(ctx, conn)
	if err != nil {
		return nil, err
	}
	o.tools.Observe(toolset.Names(tools))
	list := &workload.ToolList{Workload: o.spec.Name, Tools: []workload.Tool{}}
	for _, t := range tools {
		v, err := o.tools.View(t)
		if err != nil {
			return nil, fmt.Errorf("read tool %q: %w", plaintext.Excerpt(t.Name, maxDescription), err)
		}
		shown := v.Hidden == toolset.Visible
		list.Tools = append(list.Tools, workload.Tool{
			Name: t.Name, VisibleName: v.Name, Shown: shown, Hidden: string(v.Hidden),
			Description: plaintext.Excerpt(v.Description, maxDescription), Tokens: v.Tokens(),
		})
		count(&list.All, v)
		if shown {
			count(&list.Shown, v)
		}
	}
	return list, nil
}

func count(total *workload.ToolTotal, v toolset.View) {
	total.Tools++
	total.Tokens += v.Tokens()
}
