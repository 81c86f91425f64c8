package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/toolhaven/toolhaven/internal/strictjson"
)

// Parse parses one JSON-RPC 2.0 message (JSON-RPC 2.0 sections 4 and 5; MCP, Base
// protocol, Messages). It rejects what two readers could read differently: a key twice, a
// key in another spelling, a key that is not part of a request or a notification, text
// that is not UTF-8, and nesting deeper than [MaxDepth]. The same holds for the key of params that selects
// the target of a request: a tool's name, a resource's URI.
//
// Rules beyond JSON-RPC's own: an id is a string or an integer, and null only in an error
// response to a message whose id could not be read. The id is kept in one spelling, so
// that equal ids compare equal. Other members of a response and of its error object are
// dropped.
//
// Params, Result and Error.Data are parts of b: b must not be changed while the message
// is in use. The error is an *[Error]; [ParseID] returns the id for the response.
func Parse(b []byte) (*Message, error) {
	if !utf8.Valid(b) {
		return nil, parseError(errors.New("it is not UTF-8"))
	}
	i := skipSpace(b, 0)
	if i < len(b) && b[i] != '{' {
		return nil, notAnObject(b, i)
	}
	it, err := openObject(b, i, 0)
	if err != nil {
		return nil, parseError(err)
	}
	var env envelope
	for it.begin() && it.is(env.read(b, &it)) {
		// A fault of the envelope is kept until the end: malformed JSON after it
		// takes precedence.
		if err := env.set(it.key, it.value); err != nil && env.fault == nil {
			env.fault = err
		}
	}
	if it.err != nil {
		return nil, parseError(it.err)
	}
	if end := skipSpace(b, it.i); end != len(b) {
		return nil, parseError(fault(b, end, strictjson.NotTheEnd))
	}
	return env.message()
}

// ParseBatch parses one message, or a batch of up to [MaxBatch] (an array; only MCP
// 2025-03-26 has them); batch is true for an array. One faulty message rejects the whole
// batch. The rules of [Parse] hold.
func ParseBatch(b []byte) (messages []*Message, batch bool, err error) {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '[' {
		m, err := Parse(b)
		if err != nil {
			return nil, false, err
		}
		return []*Message{m}, false, nil
	}
	it, _ := openArray(b, i, 0)
	var first error
	for it.next() {
		if first != nil {
			continue
		}
		if len(messages) == MaxBatch {
			first = invalid("the batch has more than %d messages", MaxBatch)
			continue
		}
		m, err := Parse(it.value)
		messages, first = append(messages, m), err
	}
	if it.err != nil {
		return nil, true, parseError(it.err)
	}
	if end := skipSpace(b, it.i); end != len(b) {
		return nil, true, parseError(fault(b, end, strictjson.NotTheEnd))
	}
	if first == nil && len(messages) == 0 {
		first = invalid("the batch is empty")
	}
	if first != nil {
		return nil, true, first
	}
	return messages, true, nil
}

// AsID parses the value of an id, or of a progress token, which has the same form (MCP,
// Progress). ok is false for anything but a string or an integer.
func AsID(raw json.RawMessage) (id ID, ok bool) {
	if end, err := skipValue(raw, 0, 0); err != nil || end != len(raw) {
		return ID{}, false
	}
	id, err := parseID(raw)
	return id, err == nil
}

// envelope collects the raw members of one message. A nil slice means absent.
type envelope struct {
	jsonrpc, id, method, params, result, err []byte
	unknown                                  []byte  // a key that is none of these
	targets                                  targets // in params
	fault                                    error
}

// read scans the value of a member.
func (e *envelope) read(b []byte, it *items) []byte {
	if isParams(it.key) {
		return e.targets.read(b, &it.scanner)
	}
	return it.scanner.Value()
}

func (e *envelope) set(rawKey, value []byte) error {
	// The conversion in a switch does not allocate; a key with escapes is rare.
	if len(rawKey) > 2 && !containsBackslash(rawKey) {
		rawKey = rawKey[1 : len(rawKey)-1]
	} else {
		key, ok := unquote(rawKey)
		if !ok {
			return invalid("a key holds half of a surrogate pair")
		}
		rawKey = []byte(key)
	}
	var field *[]byte
	switch string(rawKey) {
	case "jsonrpc":
		field = &e.jsonrpc
	case "id":
		field = &e.id
	case "method":
		field = &e.method
	case "params":
		field = &e.params
	case "result":
		field = &e.result
	case "error":
		field = &e.err
	default:
		for _, known := range []string{"jsonrpc", "id", "method", "params", "result", "error"} {
			if shadows(string(rawKey), known) {
				return notPart(rawKey)
			}
		}
		e.unknown = append([]byte{}, rawKey...)
		return nil
	}
	if *field != nil {
		return invalid("the key %q is there twice", rawKey)
	}
	*field = value
	return nil
}

func (e *envelope) message() (*Message, error) {
	if e.fault != nil {
		return nil, e.fault
	}
	if e.jsonrpc == nil || e.jsonrpc[0] != '"' {
		return nil, invalid(`the key "jsonrpc" is missing or not a string; it must be "2.0"`)
	}
	if v, _ := unquote(e.jsonrpc); v != "2.0" {
		return nil, invalid(`jsonrpc is %s; it must be "2.0"`, shown(v))
	}
	if e.method != nil {
		return e.call()
	}
	return e.response()
}

func notPart(key []byte) error {
	return invalid("the key %s is not part of a JSON-RPC message", shown(string(key)))
}

func (e *envelope) call() (*Message, error) {
	if e.unknown != nil {
		return nil, notPart(e.unknown)
	}
	if e.result != nil || e.err != nil {
		return nil, invalid("a message with a method cannot have a result or an error")
	}
	m := &Message{Params: e.params}
	if e.method[0] != '"' {
		return nil, invalid("method must be a string")
	}
	var ok bool
	if m.Method, ok = unquote(e.method); !ok || m.Method == "" {
		return nil, invalid("method must be a string that is not empty")
	}
	if strings.IndexByte(m.Method, 0) >= 0 {
		return nil, invalid("method holds the character NUL, where some readers end") // GHSA-q382-vc8q-7jhj
	}
	if e.params != nil && e.params[0] != '{' && e.params[0] != '[' {
		return nil, invalid("params must be an object")
	}
	if err := e.targets.fault(m.Method); err != nil {
		return nil, err
	}
	if e.id == nil {
		return m, nil
	}
	var err error
	m.ID, err = parseID(e.id)
	return orNil(m, err)
}

func (e *envelope) response() (*Message, error) {
	if e.params != nil {
		return nil, invalid("a message with params needs a method")
	}
	if (e.result == nil) == (e.err == nil) {
		return nil, invalid("a message must have a method, or a result, or an error, and only one of them")
	}
	m := &Message{Result: e.result}
	var err error
	if e.err != nil {
		if m.Error, err = parseErrorObject(e.err); err != nil {
			return nil, err
		}
		// MCP 2025-11-25 schema, JSONRPCErrorResponse: the id may be absent.
		if e.id == nil || string(e.id) == "null" {
			return m, nil
		}
	}
	if e.id == nil {
		return nil, invalid("a result needs the id of its request")
	}
	m.ID, err = parseID(e.id)
	return orNil(m, err)
}

func orNil(m *Message, err error) (*Message, error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}

func parseID(raw []byte) (ID, error) {
	switch c := raw[0]; {
	case c == '"':
		s, ok := unquote(raw)
		if !ok {
			return ID{}, invalid("the id holds half of a surrogate pair")
		}
		return StringID(s), nil
	case c == '-' || isDigit(c):
		text, ok := integer(string(raw))
		if !ok {
			return ID{}, invalid("the id %s is not an integer", shown(string(raw)))
		}
		return ID{text}, nil
	default:
		return ID{}, invalid("the id must be a string or an integer")
	}
}

func parseErrorObject(raw []byte) (*Error, error) {
	it, err := openObject(raw, 0, 0)
	if err != nil {
		return nil, invalid("error must be an object")
	}
	var code, message, data []byte
	for it.next() {
		key, _ := unquote(it.key)
		var field *[]byte
		switch key {
		case "code":
			field = &code
		case "message":
			field = &message
		case "data":
			field = &data
		default:
			if shadows(key, "code") || shadows(key, "message") || shadows(key, "data") {
				return nil, invalid("the error has the key %s, another spelling of one that is known", shown(key))
			}
			continue
		}
		if *field != nil {
			return nil, invalid("the key %q is twice in the error", key)
		}
		*field = it.value
	}
	if message == nil || message[0] != '"' {
		return nil, invalid("the error needs a message, a string")
	}
	number, ok := integer(string(code))
	n, err := strconv.Atoi(number)
	if err != nil || !ok {
		return nil, invalid("the error needs a code, an integer")
	}
	text, _ := unquote(message)
	return &Error{Code: n, Message: text, Data: json.RawMessage(data)}, nil
}

// shadows reports whether some JSON reader treats key as want although they differ:
// encoding/json ignores case, by Unicode's simple folding (CVE-2026-27896), and other
// readers drop trailing NULs (GHSA-q382-vc8q-7jhj).
func shadows(key, want string) bool {
	return key != want && strings.EqualFold(strings.ReplaceAll(key, "\x00", ""), want)
}

func notAnObject(b []byte, i int) error {
	end, err := skipValue(b, i, 0)
	if err != nil {
		return parseError(err)
	}
	if end = skipSpace(b, end); end != len(b) {
		return parseError(fault(b, end, strictjson.NotTheEnd))
	}
	return invalid("a message must be a JSON object")
}

func parseError(err error) error {
	return &Error{Code: CodeParse, Message: fmt.Sprintf("the message is not valid JSON: %v", err)}
}

func invalid(format string, args ...any) error {
	return &Error{Code: CodeInvalidRequest, Message: fmt.Sprintf(format, args...)}
}

// shown quotes hostile text for an error message, in bounded length.
func shown(s string) string {
	if len(s) > 64 {
		s = strings.ToValidUTF8(s[:64], "") + "..."
	}
	return strconv.QuoteToASCII(s)
}
