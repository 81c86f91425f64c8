package upstream

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/toolhaven/toolhaven/internal/auth"
	"github.com/toolhaven/toolhaven/internal/strictjson"
)

// maxDepth bounds the nesting of a provider's answer.
const maxDepth = 32

// errNotObject does not quote the answer, which may have a token in it.
var errNotObject = errors.New("the answer is not a JSON object with unique names")

// decode reads exactly one JSON object. Numbers are json.Number.
func decode(body []byte) (map[string]any, error) {
	value, err := strictjson.Decode(body, maxDepth, strictjson.UniqueNames|strictjson.WholeCharacters|strictjson.UTF8)
	object, ok := value.(map[string]any)
	if err != nil || !ok {
		return nil, errNotObject
	}
	return object, nil
}

// A path is the names and indexes that lead to a value, such as authed_user.id or
// accounts.0.name. A backslash makes the next character part of a name.
type path []string

// jwtSegment decodes a JWT, of which the provider itself is the source, as its claims.
const jwtSegment = "@upstreamjwt"

func parsePath(text string) path {
	var p path
	var name strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			i++
			name.WriteByte(text[i])
		case c == '.' || c == '|':
			p = append(p, name.String())
			name.Reset()
		default:
			name.WriteByte(c)
		}
	}
	return append(p, name.String())
}

// in returns the value that the path leads to; nil for none.
func (p path) in(value any) any {
	for _, name := range p {
		switch v := value.(type) {
		case map[string]any:
			value = v[name]
		case []any:
			// Atoi would also take +1 and 01, which no path needs.
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(v) || strconv.Itoa(i) != name {
				return nil
			}
			value = v[i]
		case string:
			if name != jwtSegment {
				return nil
			}
			claims, err := auth.UnverifiedClaims(v)
			if err != nil {
				return nil
			}
			value = claims
		default:
			return nil
		}
	}
	return value
}

// text returns a value that is text; "" for any other.
func text(value any) string {
	s, _ := value.(string)
	return s
}

// identifier returns a value that identifies something: text, or a whole number with its
// digits as they were sent, because a float64 would round those above 2^53. It is "" for any
// other.
func identifier(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case json.Number:
		if !strings.ContainsAny(string(v), ".eE") {
			return string(v)
		}
	}
	return ""
}
