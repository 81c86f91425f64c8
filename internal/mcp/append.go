package mcp

import (
	"bytes"
	"strconv"
)

// Append appends m as JSON to dst and returns the result. It is one line: line
// breaks inside Params, Result and Error.Data, which JSON allows between tokens
// only, become spaces, so that the line fits a stdio server and one data line
// of an event. A message without method, result and error is written as a
// response without either, which [Parse] refuses.
func (m *Message) Append(dst []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0"`...)
	switch {
	case !m.ID.IsZero():
		dst = append(dst, `,"id":`...)
		dst = append(dst, m.ID.text...)
	case m.Kind() == Response:
		dst = append(dst, `,"id":null`...)
	}
	if m.Method != "" {
		dst = append(dst, `,"method":`...)
		dst = appendQuoted(dst, m.Method)
	}
	dst = appendMember(dst, "params", m.Params)
	dst = appendMember(dst, "result", m.Result)
	if m.Error != nil {
		dst = append(dst, `,"error":{"code":`...)
		dst = strconv.AppendInt(dst, int64(m.Error.Code), 10)
		dst = append(dst, `,"message":`...)
		dst = appendQuoted(dst, m.Error.Message)
		dst = appendMember(dst, "data", m.Error.Data)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// Encode is Append to a slice of its own.
func (m *Message) Encode() []byte {
	size := 64 + len(m.ID.text) + len(m.Method) + len(m.Params) + len(m.Result)
	if m.Error != nil {
		size += 32 + len(m.Error.Message) + len(m.Error.Data)
	}
	return m.Append(make([]byte, 0, size))
}

func appendMember(dst []byte, key string, raw []byte) []byte {
	if len(raw) == 0 {
		return dst
	}
	dst = append(dst, ',', '"')
	dst = append(dst, key...)
	dst = append(dst, '"', ':')
	from := len(dst)
	dst = append(dst, raw...)
	for _, br := range []byte{'\n', '\r'} {
		for rest := dst[from:]; ; {
			i := bytes.IndexByte(rest, br)
			if i < 0 {
				break
			}
			rest[i] = ' '
			rest = rest[i+1:]
		}
	}
	return dst
}
