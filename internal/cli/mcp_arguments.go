package cli

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
)

// maxArguments bounds what --json reads.
const maxArguments = 64 << 20

// arguments are what a tool is called with, as they were given.
type arguments struct {
	object map[string]any
	pairs  [][2]string
}

// readArguments reads --arg and --json, from files for as long as ctx lives.
func readArguments(ctx context.Context, in io.Reader, pairs []string, object string) (*arguments, error) {
	out := &arguments{object: map[string]any{}}
	if object != "" {
		text, err := readObject(ctx, in, object)
		if err != nil {
			return nil, fmt.Errorf("--json: %w", err)
		}
		v, err := decodeJSON(text)
		fields, ok := v.(map[string]any)
		if err != nil || !ok {
			return nil, errors.New("--json: it is not a JSON object")
		}
		out.object = fields
	}
	for _, pair := range pairs {
		name, value, err := argument(pair)
		if err != nil {
			return nil, err
		}
		out.pairs = append(out.pairs, [2]string{name, value})
	}
	return out, nil
}

// argument reads the value of --arg.
func argument(pair string) (name, value string, err error) {
	name, value, ok := strings.Cut(pair, "=")
	if !ok || name == "" {
		return "", "", fmt.Errorf("--arg %s: write NAME=VALUE", pair)
	}
	return name, value, nil
}

// readObject is the value of --json, or what it points at.
func readObject(ctx context.Context, in io.Reader, value string) (string, error) {
	path, isFile := strings.CutPrefix(value, "@")
	if !isFile && value != "-" {
		return value, nil
	}
	// A terminal or a pipe may have nothing for us, and then a read does not end.
	read := make(chan struct{})
	var whole string
	var readErr error
	go func() {
		defer close(read)
		if isFile {
			whole, readErr = readFile(path)
		} else {
			whole, readErr = readBounded(in)
		}
	}()
	select {
	case <-read:
		return whole, readErr
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func readFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return readBounded(f)
}

func readBounded(in io.Reader) (string, error) {
	b, err := io.ReadAll(io.LimitReader(in, maxArguments+1))
	if err == nil && len(b) > maxArguments {
		err = fmt.Errorf("it has more than %d bytes", maxArguments)
	}
	return string(b), err
}

// decodeJSON reads one value and keeps its numbers as they are written.
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

// of gives every --arg the type that tool's schema declares.
func (a *arguments) of(ctx context.Context, s *sdk.ClientSession, tool string) map[string]any {
	if len(a.pairs) == 0 && len(a.object) == 0 {
		return a.object
	}
	// Also without --arg: the SDK repeats arguments in headers for a server that
	// says so (2026-07-28 basic/transports, Mcp-Param), if it has seen the list.
	types := inputTypes(ctx, s, tool)
	for _, pair := range a.pairs {
		a.object[pair[0]] = typed(pair[1], types[pair[0]])
	}
	return a.object
}

// inputTypes are the types of a tool's parameters, as far as its schema tells. What
// is wrong with a server that cannot list its tools, the call itself shows.
func inputTypes(ctx context.Context, s *sdk.ClientSession, tool string) map[string][]string {
	seen := 0
	for t, err := range s.Tools(ctx, nil) {
		if seen++; err != nil || seen > maxListed {
			break
		}
		if t.Name != tool {
			continue
		}
		b, err := json.Marshal(t.InputSchema)
		var schema struct{ Properties map[string]json.RawMessage }
		if err != nil || json.Unmarshal(b, &schema) != nil {
			break
		}
		types := map[string][]string{}
		for name, property := range schema.Properties {
			types[name] = schemaTypes(property, 4)
		}
		return types
	}
	return nil
}

// schemaTypes are the JSON types that a schema allows; nil when it does not say.
func schemaTypes(schema json.RawMessage, depth int) []string {
	var s struct {
		Type         any
		AnyOf, OneOf []json.RawMessage
		Enum         []any
		Const        any
	}
	if depth == 0 || json.Unmarshal(schema, &s) != nil {
		return nil
	}
	switch t := s.Type.(type) {
	case string:
		return []string{t}
	case []any:
		var all []string
		for _, v := range t {
			all = append(all, fmt.Sprint(v))
		}
		return all
	}
	var all []string
	for _, member := range append(s.AnyOf, s.OneOf...) {
		types := schemaTypes(member, depth-1)
		if types == nil {
			return nil
		}
		all = append(all, types...)
	}
	if s.Const != nil {
		s.Enum = append(s.Enum, s.Const)
	}
	for _, v := range s.Enum {
		all = append(all, jsonType(v))
	}
	return all
}

// typed reads a value: as JSON of one of the types, else as text.
func typed(text string, types []string) any {
	v, err := decodeJSON(text)
	if err != nil {
		return text
	}
	kind := jsonType(v)
	switch {
	case types == nil, kind != "string" && slices.Contains(types, kind):
		return v
	case kind == "number" && slices.Contains(types, "integer"):
		return v
	case slices.Contains(types, "string"):
		return text
	}
	return v // of no type that is allowed; the server says so
}

func jsonType(v any) string {
	switch v.(type) {
	case string:
		return "string"
	case bool:
		return "boolean"
	case nil:
		return "null"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "number"
}
