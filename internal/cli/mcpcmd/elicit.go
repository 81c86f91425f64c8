package mcpcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
)

// maxFields bounds the number of fields of one form.
const maxFields = 100

// elicitor answers elicitation requests (MCP client/elicitation): at the terminal, or
// by declining where there is none.
type elicitor struct {
	app           *base.App
	ctx           context.Context // the command's, which Ctrl-C cancels; a handler has another
	pause, resume func()          // of the command's timeout

	mu    sync.Mutex // one question at a time
	input *render.Input
}

// field is one property of a form.
type field struct {
	Type        string
	Description string
	Default     any
	Enum        []string
	Items       struct{ Enum []string }
}

// requireParams rejects an elicitation without params, on which the SDK panics.
func requireParams(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if r, ok := req.(*sdk.ElicitRequest); ok && r.Params == nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the request has no params"}
		}
		return next(ctx, method, req)
	}
}

// elicit implements the handler of the SDK, which checks the content against the
// schema.
func (e *elicitor) elicit(ctx context.Context, req *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	message := shown(req.Params.Message)
	var schema struct {
		Properties map[string]field
		Required   []string
	}
	b, err := json.Marshal(req.Params.RequestedSchema)
	if err == nil {
		err = json.Unmarshal(b, &schema)
	}
	in, isFile := e.app.In.(*os.File)
	reason := ""
	switch {
	case req.Params.Mode != "" && req.Params.Mode != "form":
		reason = "thv answers forms only"
	case err != nil || len(schema.Properties) > maxFields:
		reason = "its schema is not one of a form"
	case !isFile || !render.IsTerminal(in) || !render.IsTerminal(e.app.Err):
		reason = "there is no terminal to answer it at"
	}
	if reason != "" {
		fmt.Fprintf(e.app.Err, "Note: the server asks for input; declined, because %s: %s\n", reason, message)
		return &sdk.ElicitResult{Action: "decline"}, nil
	}
	e.pause()
	defer e.resume()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)()
	if e.input == nil {
		e.input = render.NewInput(in)
	}
	fmt.Fprintf(e.app.Err, "The server asks: %s\n", message)
	answer, err := e.read(ctx, "Answer it? [y/N]: ")
	if err == nil && !strings.HasPrefix(strings.ToLower(answer), "y") {
		return &sdk.ElicitResult{Action: "decline"}, nil
	}
	var content map[string]any
	if err == nil {
		content, err = e.fill(ctx, schema.Properties, schema.Required)
	}
	if errors.Is(err, io.EOF) || e.ctx.Err() != nil {
		return &sdk.ElicitResult{Action: "cancel"}, nil
	}
	if err != nil {
		return nil, err
	}
	return &sdk.ElicitResult{Action: "accept", Content: content}, nil
}

// fill reads the fields. An optional one may stay empty.
func (e *elicitor) fill(ctx context.Context, fields map[string]field, required []string) (map[string]any, error) {
	content := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		f, needed := fields[name], slices.Contains(required, name)
		for {
			line, err := e.read(ctx, f.prompt(name, needed))
			if err != nil {
				return nil, err
			}
			value := f.Default
			if f.Type == "string" && line != "" {
				value = line
			} else if line != "" && json.Unmarshal([]byte(line), &value) != nil {
				fmt.Fprintf(e.app.Err, "  write it as JSON, such as 7, true or [\"a\", \"b\"]\n")
				continue
			}
			if value == nil && needed {
				continue
			}
			if value != nil {
				content[name] = value
			}
			break
		}
	}
	return content, nil
}

func (e *elicitor) read(ctx context.Context, prompt string) (string, error) {
	fmt.Fprint(e.app.Err, prompt)
	line, err := e.input.Read(ctx, false)
	if err != nil {
		fmt.Fprintln(e.app.Err)
	}
	return line, err
}

// prompt shows a field's name, type, choices, default and description.
func (f field) prompt(name string, required bool) string {
	kind := f.Type
	if choices := append(f.Enum, f.Items.Enum...); len(choices) > 0 {
		kind += " of " + strings.Join(choices, ", ")
	}
	if !required {
		kind += "; optional"
	}
	if f.Default != nil {
		b, _ := json.Marshal(f.Default) // it was JSON
		kind += "; default " + string(b)
	}
	return strings.TrimSpace(fmt.Sprintf("  %s (%s) %s", shown(name), shown(kind), shown(f.Description))) + ": "
}
