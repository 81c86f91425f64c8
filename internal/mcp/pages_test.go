package mcp

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPages(t *testing.T) {
	for _, row := range []struct {
		name    string
		results []string
		sent    []string // params
		fails   bool
	}{
		{"one page", []string{`{"x":1}`}, []string{`{}`}, false},
		{"three pages", []string{`{"nextCursor":"a\"\u0062"}`, `{"nextCursor":"2"}`, `{}`}, []string{`{}`, `{"cursor":"a\"\u0062"}`, `{"cursor":"2"}`}, false},
		{"a null cursor", []string{`{"nextCursor":null}`}, []string{`{}`}, false},
		{"an empty cursor", []string{`{"nextCursor":""}`}, []string{`{}`}, false},
		{"a number", []string{`{"nextCursor":7}`}, []string{`{}`}, true},
		{"a cursor twice", []string{`{"nextCursor":"1","nextCursor":"2"}`}, []string{`{}`}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			var sent, read []string
			err := Pages(func(params json.RawMessage) (*Message, error) {
				sent = append(sent, string(params))
				return NewResult(IntID(1), json.RawMessage(row.results[len(sent)-1])), nil
			}, func(result json.RawMessage) error {
				read = append(read, string(result))
				return nil
			})
			if (err != nil) != row.fails {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(row.sent, sent) + cmp.Diff(row.results, read); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPages_Errors(t *testing.T) {
	none := func(json.RawMessage) error { return nil }
	err := Pages(func(json.RawMessage) (*Message, error) {
		return NewResult(IntID(1), json.RawMessage(`{"nextCursor":"again"}`)), nil
	}, none)
	if !errors.Is(err, ErrEndlessList) {
		t.Errorf("got %v", err)
	}
	var rpc *Error
	err = Pages(func(json.RawMessage) (*Message, error) {
		return NewError(IntID(1), CodeMethodNotFound, "no tools"), nil
	}, none)
	if !errors.As(err, &rpc) || rpc.Code != CodeMethodNotFound {
		t.Errorf("got %v", err)
	}
}
