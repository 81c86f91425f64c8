package mcp

import "encoding/json"

// Meta is what the protocol reserves in params._meta of a request. It points into the
// params that it was read from. The zero Meta is that of params without _meta.
type Meta struct {
	// Versioned is set when there is a protocol version, of whatever type. Only requests
	// of the stateless era have one (MCP 2026-07-28, basic, Versioning).
	Versioned bool
	// Version is the protocol version; "" for none, and for a value that is no string.
	Version string
	// Capabilities and ClientInfo are the client's declarations, raw; nil for none. Their
	// type and size are not checked.
	Capabilities json.RawMessage
	ClientInfo   json.RawMessage
	// LogLevel is the least level of the log messages that the request receives, "" for
	// none (MCP 2026-07-28, Logging).
	LogLevel string
	// ProgressToken is a string or a number, raw; nil for none (MCP, Progress).
	ProgressToken json.RawMessage
	// TraceParent, TraceState and Baggage are the W3C trace context (MCP 2026-07-28, basic,
	// _meta), not checked; "" for none, and for a value that is no string.
	TraceParent, TraceState, Baggage string

	fault error
}

// reservedMeta are the keys that [ReadMeta] reads.
var reservedMeta = [...]string{MetaVersion, MetaCapabilities, MetaClientInfo, MetaLogLevel, "progressToken"}

// ReadMeta reads params._meta in one pass. Like [Lookup] it refuses params that are not
// valid JSON, a key that is there twice, and another spelling of a key that it reads.
// The error is an *[Error]. A value of the wrong type is no error here, see [Meta.Check].
func ReadMeta(params json.RawMessage) (Meta, error) {
	raw, found, err := Lookup(params, "_meta")
	if err != nil || !found || raw[0] == 'n' {
		return Meta{}, err
	}
	if raw[0] != '{' {
		return Meta{}, badParams("_meta must be an object")
	}
	it, err := openObject(raw, 0, 0)
	if err != nil {
		return Meta{}, badParams("not valid JSON: %v", err)
	}
	var (
		m    Meta
		seen keySet
	)
	for it.next() {
		key, _ := unquote(it.key)
		if !seen.add(key) {
			return Meta{}, badParams("the key %s is there twice", shown(key))
		}
		for _, want := range reservedMeta {
			if shadows(key, want) {
				return Meta{}, badParams("the key %s is another spelling of %q", shown(key), want)
			}
		}
		m.set(key, it.value[:len(it.value):len(it.value)])
	}
	if it.err != nil {
		return Meta{}, badParams("not valid JSON: %v", it.err)
	}
	return m, nil
}

func (m *Meta) set(key string, value json.RawMessage) {
	switch key {
	case MetaVersion:
		m.Versioned = true
		m.Version = m.text(key, value)
	case MetaCapabilities:
		m.Capabilities = value
	case MetaClientInfo:
		m.ClientInfo = value
	case MetaLogLevel:
		m.LogLevel = m.text(key, value)
		if m.LogLevel != "" && LogRank(m.LogLevel) < 0 {
			m.fault = badParams("_meta's %s is none of the log levels", key)
		}
	case "progressToken":
		m.ProgressToken = value
	case MetaTraceParent:
		m.TraceParent = optionalText(value)
	case MetaTraceState:
		m.TraceState = optionalText(value)
	case MetaBaggage:
		m.Baggage = optionalText(value)
	}
}

// optionalText decodes a string that the gateway does not depend on.
func optionalText(value json.RawMessage) string {
	if value[0] != '"' {
		return ""
	}
	s, ok := unquote(value)
	if !ok {
		return ""
	}
	return s
}

// text decodes a string.
func (m *Meta) text(key string, value json.RawMessage) string {
	if value[0] != '"' {
		m.fault = badParams("_meta.%s must be a string", key)
		return ""
	}
	s, ok := unquote(value)
	if !ok {
		m.fault = badParams("_meta.%s holds half of a surrogate pair", key)
		return ""
	}
	return s
}

// Check refuses a version or a log level that is no string, and a log level that does
// not exist. It is for requests of the stateless era: in the session era these keys have
// no meaning. The error is an *[Error].
func (m *Meta) Check() error { return m.fault }
