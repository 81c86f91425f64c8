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

// field is one property of a form: a primitive, or a list of choices.
type field struct {
	Type        string
	Description string
	Default     any
	choices
	Items choices
}

// choices are the forms of an enum.
type choices struct {
	Enum         []string
	OneOf, AnyOf []struct{ Const string }
}

func (c choices) values() []string {
	all := slices.Clone(c.Enum)
	for _, o := range append(c.OneOf, c.AnyOf...) {
		all = append(all, o.Const)
	}
	return all
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

// fill reads the fields, the required ones first. An optional one may stay empty.
func (e *elicitor) fill(ctx context.Context, fields map[string]field, required []string) (map[string]any, error) {
	names := slices.SortedStableFunc(maps.Keys(fields), func(a, b string) int {
		switch inA, inB := slices.Contains(required, a), slices.Contains(required, b); {
		case inA == inB:
			return strings.Compare(a, b)
		case inA:
			return -1
		}
		return 1
	})
	content := map[string]any{}
	for _, name := range names {
		f := fields[name]
		for {
			line, err := e.read(ctx, f.prompt(name, slices.Contains(required, name)))
			if err != nil {
				return nil, err
			}
			switch value, err := f.parse(line); {
			case err != nil:
				fmt.Fprintf(e.app.Err, "  %v\n", err)
				continue
			case line != "":
				content[name] = value
			case f.Default != nil:
				content[name] = f.Default
			case slices.Contains(required, name):
				fmt.Fprintln(e.app.Err, "  this field is required")
				continue
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

// prompt shows a field's name, type or choices, default and description.
func (f field) prompt(name string, required bool) string {
	kind := f.Type
	if values := append(f.values(), f.Items.values()...); len(values) > 0 {
		kind = strings.Join(values, ", ")
	}
	if f.Type == "array" {
		kind = "some of " + kind + ", separated by commas"
	}
	if !required {
		kind += "; optional"
	}
	if f.Default != nil {
		b, _ := json.Marshal(f.Default) // it was JSON
		kind += "; default " + string(b)
	}
	text := fmt.Sprintf("  %s (%s)", shown(name), shown(kind))
	if f.Description != "" {
		text += " " + shown(f.Description)
	}
	return text + ": "
}

// parse converts a line to the field's type.
func (f field) parse(line string) (any, error) {
	switch f.Type {
	case "boolean", "integer", "number":
		var v any
		err := json.Unmarshal([]byte(line), &v)
		if kind := jsonType(v); line != "" && (err != nil || kind != f.Type && (kind != "number" || f.Type != "integer")) {
			return nil, fmt.Errorf("%q is not of type %s", line, f.Type)
		}
		return v, nil
	case "array":
		values := []any{}
		for part := range strings.SplitSeq(line, ",") {
			values = append(values, strings.TrimSpace(part))
		}
		return values, nil
	}
	return line, nil
}
