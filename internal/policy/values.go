package policy

import (
	"encoding/json"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
)

// valueOf converts a value that encoding/json decoded, with numbers as json.Number. Cedar has
// integers of 64 bits and decimals of four places; any other number is a string. null is no
// value.
func valueOf(v any) types.Value {
	switch v := v.(type) {
	case string:
		return types.String(v)
	case bool:
		return types.Boolean(v)
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return types.Long(n)
		}
		if d, err := types.ParseDecimal(v.String()); err == nil {
			return d
		}
		return types.String(v.String())
	case []any:
		values := make([]types.Value, 0, len(v))
		for _, element := range v {
			if value := valueOf(element); value != nil {
				values = append(values, value)
			}
		}
		return types.NewSet(values...)
	case map[string]any:
		record := make(types.RecordMap, len(v))
		for name, member := range v {
			if value := valueOf(member); value != nil {
				record[types.String(name)] = value
			}
		}
		return types.NewRecord(record)
	}
	return nil
}

// claim converts a claim; one of MultiValued is always a set of strings.
func (p *Policy) claim(name string, v any) types.Value {
	for _, multi := range p.cfg.MultiValued {
		if name != multi {
			continue
		}
		var values []types.Value
		for _, text := range texts(v) {
			values = append(values, types.String(text))
		}
		return types.NewSet(values...)
	}
	return valueOf(v)
}

// texts are the strings of a claim: an array of strings, or a string with values separated by
// spaces, as in the claim scope (RFC 8693 section 4.2).
func texts(v any) []string {
	switch v := v.(type) {
	case string:
		return strings.Fields(v)
	case []any:
		var out []string
		for _, element := range v {
			if text, ok := element.(string); ok {
				out = append(out, text)
			}
		}
		return out
	}
	return nil
}
