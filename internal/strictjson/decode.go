package strictjson

import "encoding/json"

// Decode returns the one value of text as encoding/json does for an any, but with numbers as
// json.Number. The error is a [*Fault].
func Decode(text []byte, room int, rules Rules) (any, error) {
	s := New(text, room, rules)
	value := s.Decoded()
	if err := s.End(); err != nil {
		return nil, err
	}
	return value, nil
}

// Decoded passes the next value and returns it as [Decode] does. It is valid if the scanner
// has no fault at the end.
func (s *Scanner) Decoded() any {
	switch s.Kind() {
	case '{':
		members := make(map[string]any, 8)
		for items := s.Enter(); s.Next(&items); {
			name := s.Name()
			members[name] = s.Decoded()
		}
		return members
	case '[':
		elements := []any{}
		for items := s.Enter(); s.Next(&items); {
			elements = append(elements, s.Decoded())
		}
		return elements
	case '"':
		return s.Text()
	case '0':
		return json.Number(s.Value())
	case 't', 'f':
		return len(s.Value()) == len("true")
	default:
		s.Value()
		return nil
	}
}
