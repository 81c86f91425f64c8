package serverjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// scanner looks through JSON that is known to be valid for what readers disagree
// about, or databases cannot keep: repeated members, the character NUL, and
// nesting without end.
type scanner struct {
	text []byte
	at   int
}

func (s *scanner) document() error { return s.value(0) }

func (s *scanner) blanks() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

func (s *scanner) value(depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("it is nested deeper than %d", maxDepth)
	}
	s.blanks()
	switch s.text[s.at] {
	case '{':
		return s.members(depth)
	case '[':
		return s.elements(depth)
	case '"':
		_, err := s.string()
		return err
	}
	for s.at < len(s.text) { // a number, true, false or null
		switch s.text[s.at] {
		case ',', ']', '}', ' ', '\t', '\r', '\n':
			return nil
		}
		s.at++
	}
	return nil
}

func (s *scanner) members(depth int) error {
	var keys []string
	s.at++
	for {
		s.blanks()
		switch s.text[s.at] {
		case '}':
			s.at++
			return nil
		case ',':
			s.at++
			continue
		}
		raw, err := s.string()
		if err != nil {
			return err
		}
		var key string
		if err := json.Unmarshal(raw, &key); err != nil {
			return err
		}
		keys = append(keys, key)
		s.blanks()
		s.at++ // the colon
		if err := s.value(depth + 1); err != nil {
			return err
		}
		// At the object's end, so that large ones are not compared pair by pair.
		if s.blanks(); s.text[s.at] == '}' {
			if key := repeated(keys); key != nil {
				return fmt.Errorf("the member %.100q is there twice", *key)
			}
		}
	}
}

func repeated(keys []string) *string {
	slices.Sort(keys)
	for i := 1; i < len(keys); i++ {
		if keys[i] == keys[i-1] {
			return &keys[i]
		}
	}
	return nil
}

func (s *scanner) elements(depth int) error {
	s.at++
	for {
		s.blanks()
		switch s.text[s.at] {
		case ']':
			s.at++
			return nil
		case ',':
			s.at++
			continue
		}
		if err := s.value(depth + 1); err != nil {
			return err
		}
	}
}

// string passes a string and returns it with its quotes.
func (s *scanner) string() ([]byte, error) {
	start := s.at
	s.at++
	for {
		switch s.text[s.at] {
		case '"':
			s.at++
			return s.text[start:s.at], nil
		case '\\':
			if s.text[s.at+1] == 'u' && string(s.text[s.at+2:s.at+6]) == "0000" {
				return nil, errors.New("a text holds the character NUL")
			}
			s.at++
		}
		s.at++
	}
}
