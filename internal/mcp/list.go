package mcp

import (
	"bytes"
	"encoding/json"

	"github.com/toolhaven/toolhaven/internal/strictjson"
)

// List is the array in the result of a list request, such as ListToolsResult. It points into
// the result that it was read from.
type List struct {
	Items []Item

	result     json.RawMessage
	start, end int // of the array
}

// Item is an object in a [List].
type Item struct {
	// Name is the value of the member that identifies the item.
	Name string
	Raw  json.RawMessage
}

// ReadList reads the array that is the member list of a result in one pass. Each element must
// be an object with the string member name. The rules of [Lookup] hold for the keys of the
// result and for name. The error is an *[Error].
func ReadList(result json.RawMessage, list, name string) (*List, error) {
	l := &List{result: result}
	s := scannerAt(result, skipSpace(result, 0), 0)
	if s.Kind() != '{' {
		return nil, badParams("the result must be an object")
	}
	var keys keySet
	found := false
	for members := s.Enter(); s.Next(&members); {
		key, _ := unquote(s.Key())
		switch {
		case !keys.add(key):
			return nil, badParams("the key %s is there twice", shown(key))
		case shadows(key, list):
			return nil, badParams("the key %s is another spelling of %q", shown(key), list)
		case key != list:
			s.Value()
			continue
		case s.Kind() != '[':
			return nil, badParams("%s must be an array", list)
		}
		found, l.start = true, s.At()
		for elements := s.Enter(); s.Next(&elements); {
			item, err := readItem(result, &s, name)
			if err != nil {
				return nil, badParams("%s[%d]: %v", list, len(l.Items), err)
			}
			l.Items = append(l.Items, item)
		}
		l.end = s.At()
	}
	if err := s.End(); err != nil {
		return nil, badParams("not valid JSON: %v", err)
	}
	if !found {
		return nil, badParams("%s is missing", list)
	}
	return l, nil
}

// readItem reads the object at the scanner's position. A fault of the JSON is an error of the
// scanner, which the caller checks.
func readItem(text []byte, s *strictjson.Scanner, name string) (Item, error) {
	if s.Kind() != '{' {
		return Item{}, badParams("it must be an object")
	}
	var (
		item  Item
		count seen
	)
	start := s.At()
	for members := s.Enter(); s.Next(&members); {
		n := count.n
		count.noteRaw(s.Key(), name)
		value := s.Value()
		if count.n == n || value == nil {
			continue
		}
		whole := false
		if value[0] == '"' {
			item.Name, whole = unquote(value)
		}
		if !whole {
			return Item{}, badParams("%s must be a string", name)
		}
	}
	switch {
	case s.Err() != nil:
		return Item{}, s.Err()
	case count.n == 0 && count.shadow == "":
		return Item{}, badParams("%s is missing", name)
	case count.n > 1:
		return Item{}, badParams("the key %q is there twice", name)
	case count.shadow != "":
		return Item{}, badParams("the key %s is another spelling of %q", shown(count.shadow), name)
	}
	item.Raw = text[start:s.At():s.At()]
	return item, nil
}

// IsOf reports whether l was read from a result with the bytes of the given one.
func (l *List) IsOf(result json.RawMessage) bool { return bytes.Equal(l.result, result) }

// With returns the result with items in place of those of the list. All other members stay as
// they are. items are JSON and are not checked.
func (l *List) With(items []json.RawMessage) json.RawMessage {
	size := len(l.result) - (l.end - l.start) + 2
	for _, item := range items {
		size += len(item) + 1
	}
	out := append(make(json.RawMessage, 0, size), l.result[:l.start]...)
	out = append(out, '[')
	for i, item := range items {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, item...)
	}
	return append(append(out, ']'), l.result[l.end:]...)
}
