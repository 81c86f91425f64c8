// Package mcp implements the wire format of the Model Context Protocol: the JSON-RPC
// envelope, protocol versions, server-sent events and the protocol's HTTP headers. It does
// not depend on the gateway or on workloads.
//
// A message is parsed once, strictly, and forwarded from its parts: [Parse] rejects
// duplicate, case-variant and unknown top-level keys, and [Message.Append] writes only
// what was parsed, so nothing is forwarded that was not inspected. Params, results and
// error data stay raw JSON; [Lookup] and [Replace] access members without decoding the
// rest.
package mcp

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// ID is a JSON-RPC request id in its JSON form: a string with its quotes, or an
// integer. The zero ID means there is none. MCP forbids null ids (basic,
// Requests). Each id has one spelling, so ids compare with ==.
type ID struct{ text string }

// IntID returns the id n.
func IntID(n int64) ID { return ID{strconv.FormatInt(n, 10)} }

// StringID returns the string id s.
func StringID(s string) ID { return ID{string(appendQuoted(nil, s))} }

// Means reports whether a response with id belongs to the request with the id sent: the
// ids are equal, or one is a string with the other's number. Some servers respond to 7 with
// "7", and the clients of the TypeScript and Python SDKs accept that.
func (id ID) Means(sent ID) bool { return id == sent || id.AsNumber() == sent.AsNumber() }

// AsNumber returns the integer of a string id that contains one, and any other id
// unchanged.
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

// Kind is the kind of a message.
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

// Kind returns whether m is a request, a notification or a response.
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
	// Status is the HTTP status of a response with this error; 0 leaves it to the front. It
	// is not part of the message, so an error of a server never has one.
	Status int `json:"-"`
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
	// CodeServerGone: the server, or the connection to it, failed before it
	// responded. It is in the range that JSON-RPC leaves to implementations.
	CodeServerGone = -32000
	// CodeSessionNotFound goes with HTTP 404 for an unknown or expired session
	// (the code the official SDKs send and look for).
	CodeSessionNotFound = -32001
	// MCP 2026-07-28, Error Codes. CodeHeaderMismatch: a header is missing,
	// malformed, or differs from the body.
	CodeHeaderMismatch = -32020
	// CodeMissingCapability: the request needs a capability that the client did
	// not declare on it (MissingRequiredClientCapability).
	CodeMissingCapability = -32021
	// CodeUnsupportedVersion: UnsupportedProtocolVersion.
	CodeUnsupportedVersion = -32022
	// CodeForbidden: the caller may not make the request. It goes with HTTP 403, and existing
	// gateways send it; JSON-RPC 2.0 section 5.1 leaves codes outside of its range to
	// applications.
	CodeForbidden = 403
	// Codes of the session era that the stateless era no longer has.
	CodeResourceNotFound       = -32002
	CodeURLElicitationRequired = -32042 // 2025-11-25
)

// NewResult is the response to id with the given result.
func NewResult(id ID, result json.RawMessage) *Message { return &Message{ID: id, Result: result} }

// NewError is the error response to id.
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
