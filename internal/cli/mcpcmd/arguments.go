package mcpcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/netguard"
)

// maxArguments bounds the file or standard input that --json reads, in bytes.
const maxArguments = 64 << 20

// pairs parses the values of --arg, NAME=VALUE each.
func pairs(values []string) (map[string]string, error) {
	out := map[string]string{}
	for _, v := range values {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--arg %s: write NAME=VALUE", v)
		}
		out[name] = value
	}
	return out, nil
}

// readObject reads the value of --json: an object, @FILE, or - for standard input.
func readObject(ctx context.Context, in io.Reader, value string) (map[string]any, error) {
	text, err := value, error(nil)
	if path, isFile := strings.CutPrefix(value, "@"); isFile {
		var f *os.File
		if f, err = os.Open(path); err == nil {
			defer f.Close()
			text, err = readText(ctx, f)
		}
	} else if value == "-" {
		text, err = readText(ctx, in)
	}
	if err != nil {
		return nil, fmt.Errorf("--json: %w", err)
	}
	v, err := decodeJSON(text)
	object, ok := v.(map[string]any)
	if err != nil || !ok {
		return nil, errors.New("--json: it is not a JSON object")
	}
	return object, nil
}

// readText reads all of in. It returns when ctx ends, also while a read of a terminal
// or a pipe blocks.
func readText(ctx context.Context, in io.Reader) (string, error) {
	var b []byte
	done := make(chan error, 1)
	go func() {
		var err error
		b, err = netguard.ReadBounded(in, maxArguments)
		done <- err
	}()
	select {
	case err := <-done:
		return string(b), err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// decodeJSON decodes one JSON value; numbers keep their digits.
func decodeJSON(text string) (any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return v, nil
}

// schemas returns the schemas of a tool's parameters, by name. Errors are left to the
// call itself. The list is read even when no parameter needs its schema: from it the
// SDK learns which arguments it repeats in headers (MCP 2026-07-28 basic/transports,
// Mcp-Param).
func schemas(ctx context.Context, s *sdk.ClientSession, tool string) map[string]json.RawMessage {
	seen := 0
	for t, err := range s.Tools(ctx, nil) {
		if seen++; err != nil || seen > maxListed {
			break
		}
		if t == nil || t.Name != tool {
			continue
		}
		var schema struct{ Properties map[string]json.RawMessage }
		if b, err := json.Marshal(t.InputSchema); err == nil {
			_ = json.Unmarshal(b, &schema) // a parameter without a schema may be anything
		}
		return schema.Properties
	}
	return nil
}

// typed converts a value of --arg: to text where the schema allows a string, else to the
// JSON value that it is, if it is one.
func typed(text string, schema json.RawMessage) any {
	type typer struct{ Type any }
	var s struct {
		typer
		AnyOf, OneOf []typer
	}
	_ = json.Unmarshal(schema, &s) // without a schema anything is allowed
	for _, m := range append(append(s.AnyOf, s.OneOf...), s.typer) {
		if types, ok := m.Type.([]any); m.Type == "string" || ok && slices.Contains(types, any("string")) {
			return text
		}
	}
	v, err := decodeJSON(text)
	if err != nil {
		return text
	}
	return v
}
