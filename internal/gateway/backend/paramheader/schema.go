package paramheader

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Bounds on what the gateway stores and sends because of the schema of one tool.
const (
	maxParamHeaders = 32
	maxSchemaDepth  = 32
	maxParamBytes   = 12 << 10 // of all values in one request; common servers accept at most 16 KiB of headers
)

// definition is one x-mcp-header of a tool: the argument at path is repeated in
// the header (MCP 2026-07-28, Streamable HTTP, Custom Headers from Tool
// Parameters).
type definition struct {
	path []string
	name string // with the prefix, in the canonical form of net/http
}

// ReadSchema returns the definitions in a tool's inputSchema. The error is the reason why
// they are invalid.
func ReadSchema(schema json.RawMessage) ([]definition, error) {
	if !mcp.Mentions(schema, "x-mcp-header") {
		return nil, nil
	}
	r := schemaReader{}
	if err := r.schema(schema, nil, true, 0); err != nil {
		return nil, err
	}
	return r.found, nil
}

type schemaReader struct{ found []definition }

// schema reads one schema. static reports that every step on the path to it is a member of
// "properties".
func (r *schemaReader) schema(raw json.RawMessage, path []string, static bool, depth int) error {
	if len(raw) == 0 || raw[0] != '{' {
		return nil // true and false are schemas too
	}
	if depth > maxSchemaDepth {
		return errors.New("it is nested too deeply")
	}
	members := map[string]json.RawMessage{}
	if err := mcp.Members(raw, func(key string, value json.RawMessage) bool { members[key] = value; return true }); err != nil {
		return err
	}
	if name, ok := members["x-mcp-header"]; ok {
		if err := r.add(name, members["type"], path, static); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(members)) {
		value := members[key]
		var err error
		switch key {
		case "properties":
			err = r.each(value, path, static, depth)
		case "patternProperties", "$defs", "definitions", "dependentSchemas":
			err = r.each(value, path, false, depth)
		case "items", "prefixItems", "contains", "additionalProperties", "anyOf", "oneOf", "allOf", "not", "if", "then", "else":
			if value[0] != '[' {
				err = r.schema(value, path, false, depth+1)
				break
			}
			var list []json.RawMessage
			if err = json.Unmarshal(value, &list); err != nil {
				return err
			}
			for _, v := range list {
				if err = r.schema(bytes.TrimSpace(v), path, false, depth+1); err != nil {
					break
				}
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// each reads an object whose members are schemas.
func (r *schemaReader) each(raw json.RawMessage, path []string, static bool, depth int) error {
	if raw[0] != '{' {
		return nil
	}
	var fault error
	err := mcp.Members(raw, func(key string, value json.RawMessage) bool {
		fault = r.schema(value, append(slices.Clone(path), key), static, depth+1)
		return fault == nil
	})
	return errors.Join(err, fault)
}

func (r *schemaReader) add(raw, kind json.RawMessage, path []string, static bool) error {
	where := wire.Printable(strings.Join(path, "."))
	var name string
	if json.Unmarshal(raw, &name) != nil || !isToken(name) {
		return fmt.Errorf("the x-mcp-header of %q is no name of a header", where)
	}
	if !static || len(path) == 0 {
		return fmt.Errorf("the x-mcp-header of %q is not on a property that is always there", where)
	}
	if !isPrimitive(kind) {
		return fmt.Errorf("the x-mcp-header of %q is not on a string, an integer or a boolean", where)
	}
	name = http.CanonicalHeaderKey(mcp.HeaderParamPrefix + name)
	if slices.ContainsFunc(r.found, func(h definition) bool { return strings.EqualFold(h.name, name) }) {
		return fmt.Errorf("the x-mcp-header of %q is there twice", where)
	}
	if len(r.found) >= maxParamHeaders {
		return fmt.Errorf("it has more than %d x-mcp-headers", maxParamHeaders)
	}
	r.found = append(r.found, definition{path, name})
	return nil
}

// isPrimitive reports whether an argument of the type may be repeated in a header. A null
// among the types is allowed: it is like an argument that is left out.
func isPrimitive(kind json.RawMessage) bool {
	var types []string
	if json.Unmarshal(kind, &types) != nil {
		types = make([]string, 1)
		if json.Unmarshal(kind, &types[0]) != nil {
			return false
		}
	}
	types = slices.DeleteFunc(types, func(t string) bool { return t == "null" })
	return len(types) == 1 && slices.Contains([]string{"string", "integer", "boolean"}, types[0])
}

// isToken reports whether s is a token (RFC 9110 section 5.6.2) of at most [wire.MaxShown]
// bytes.
func isToken(s string) bool {
	if s == "" || len(s) > wire.MaxShown {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// Mirror returns the headers that repeat arguments of a tools/call. The error is an
// *mcp.Error for params that cannot be parsed or are too long.
func Mirror(definitions []definition, params json.RawMessage) (http.Header, error) {
	var out http.Header
	size := 0
	for _, d := range definitions {
		raw, found, err := mcp.Lookup(params, append([]string{"arguments"}, d.path...)...)
		if err != nil {
			return nil, err
		}
		value, ok := headerText(raw)
		if !found || !ok {
			continue
		}
		value = mcp.EncodeHeader(value)
		if size += len(value); size > maxParamBytes {
			return nil, &mcp.Error{Code: mcp.CodeInvalidParams, Message: "the arguments that the tool wants in headers are too long for that"}
		}
		if out == nil {
			out = http.Header{}
		}
		out[d.name] = []string{value}
	}
	return out, nil
}

// maxSafe is the largest integer that every JSON reader represents exactly.
const maxSafe = 1<<53 - 1

// headerText returns the text of a value in a header. It returns false for a value that a
// header cannot repeat: the server rejects such an argument itself.
func headerText(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 {
		return "", false
	}
	switch raw[0] {
	case '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err == nil
	case 't', 'f':
		return string(raw), true
	case 'n', '{', '[':
		return "", false
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > maxSafe {
		return "", false
	}
	return strconv.FormatInt(int64(f), 10), true
}
