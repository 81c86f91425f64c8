// Package mcp holds what every part of Toolhaven must agree on about the
// Model Context Protocol's wire: the JSON-RPC envelope, protocol versions,
// server-sent events and the protocol's HTTP headers. It knows no HTTP server,
// no gateway and no workload.
//
// A message is parsed once, strictly, and what was parsed is what is sent on:
// [Parse] refuses duplicate, case-variant and unknown top-level keys, and
// [Message.Append] writes the message again from its parts, so nothing that was
// not inspected can travel. Params, results and error data stay raw JSON;
// [Lookup] and [Replace] reach into them without decoding the rest.
package mcp

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// ID is a JSON-RPC request id in its JSON form: a string with its quotes, or an
// integer. The zero ID means there is none. MCP forbids null ids (basic,
// Requests). IDs that mean the same are equal: each has one spelling.
type ID struct{ text string }

// IntID returns the id n.
func IntID(n int64) ID { return ID{strconv.FormatInt(n, 10)} }

// StringID returns the string id s.
func StringID(s string) ID { return ID{string(appendQuoted(nil, s))} }

// Means reports whether id is what a server may send back for sent: the same, or a
// string that spells the number. Some servers answer 7 with "7", which the clients of
// the TypeScript and Python SDKs take.
func (id ID) Means(sent ID) bool { return id == sent || id.AsNumber() == sent.AsNumber() }

// AsNumber is the integer that a string id spells, and any other id as it is.
func (id ID) AsNumber() ID {
	if !strings.HasPrefix(id.text, `"`) {
		return id
	}
	digits := strings.Trim(id.text, `"`)
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil && strconv.FormatInt(n, 10) == digits {
		return ID{digits}
	}
	return id
}

// IsZero reports whether there is no id.
func (id ID) IsZero() bool { return id.text == "" }

// Raw is the id as a JSON value, null for none.
func (id ID) Raw() json.RawMessage {
	if id.text == "" {
		return json.RawMessage("null")
	}
	return json.RawMessage(id.text)
}

// String is the id's JSON text, or "" for none.
func (id ID) String() string { return id.text }

// Kind tells what a message is.
type Kind int

// The three kinds of JSON-RPC message (JSON-RPC 2.0 sections 4 and 5).
const (
	Request Kind = iota + 1
	Notification
	Response
)

// Message is one JSON-RPC 2.0 message. Which fields are set follows from its
// [Kind]: a request has ID and Method, a notification Method only, a response
// ID and either Result or Error. A response to a message whose id could not be
// read has Error and no ID, and is written with id null.
type Message struct {
	ID     ID
	Method string
	Params json.RawMessage // an object, an array, or nil
	Result json.RawMessage
	Error  *Error
}

// Kind tells whether m is a request, a notification or a response.
func (m *Message) Kind() Kind {
	switch {
	case m.Method == "":
		return Response
	case m.ID.IsZero():
		return Notification
	default:
		return Request
	}
}

// Error is a JSON-RPC error object. It is also a Go error.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error is the message; the code is for programs.
func (e *Error) Error() string { return e.Message }

// Error codes: JSON-RPC 2.0 section 5.1, and those MCP adds.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
	// CodeServerGone: the server, or the way to it, failed before it answered.
	// In the range JSON-RPC leaves to implementations.
	CodeServerGone = -32000
	// CodeSessionNotFound goes with HTTP 404 for an unknown or expired session
	// (the code the official SDKs send and look for).
	CodeSessionNotFound = -32001
	// MCP 2026-07-28, Error Codes. CodeHeaderMismatch: a header is missing,
	// malformed, or says something else than the body.
	CodeHeaderMismatch = -32020
	// CodeMissingCapability: the request needs a capability that the client did
	// not declare on it (MissingRequiredClientCapability).
	CodeMissingCapability = -32021
	// CodeUnsupportedVersion: UnsupportedProtocolVersion.
	CodeUnsupportedVersion = -32022
	// Codes of the session era that the stateless era no longer has.
	CodeResourceNotFound       = -32002
	CodeURLElicitationRequired = -32042 // 2025-11-25
)

// NewResult is the response to id with the given result.
func NewResult(id ID, result json.RawMessage) *Message { return &Message{ID: id, Result: result} }

// NewError is the response to id that says what failed.
func NewError(id ID, code int, message string) *Message {
	return &Message{ID: id, Error: &Error{Code: code, Message: message}}
}

// ErrorResponse turns any error into the response to id: an *Error as it is,
// anything else with code.
func ErrorResponse(id ID, code int, err error) *Message {
	var rpc *Error
	if errors.As(err, &rpc) {
		return &Message{ID: id, Error: rpc}
	}
	return NewError(id, code, err.Error())
}
