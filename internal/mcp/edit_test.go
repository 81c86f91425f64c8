package mcp

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSet(t *testing.T) {
	for _, row := range []struct {
		raw, value string
		path       []string
		want       string
	}{
		{`{"a":1}`, `2`, []string{"a"}, `{"a":2}`},
		{`{"a":1}`, `2`, []string{"b"}, `{"b":2,"a":1}`},
		{`{}`, `2`, []string{"b"}, `{"b":2}`},
		{``, `2`, []string{"b"}, `{"b":2}`},
		{`{ }`, `2`, []string{"b"}, `{"b":2}`},
		{`{"a":1}`, `"x"`, []string{"_meta", "k"}, `{"_meta":{"k":"x"},"a":1}`},
		{`{"a":1,"_meta":{"z":0}}`, `"x"`, []string{"_meta", "k"}, `{"a":1,"_meta":{"k":"x","z":0}}`},
		{`{"_meta":null}`, `"x"`, []string{"_meta", "k"}, `{"_meta":{"k":"x"}}`},
		{``, `1`, []string{"a", "b", "c"}, `{"a":{"b":{"c":1}}}`},
	} {
		got, err := Set(json.RawMessage(row.raw), json.RawMessage(row.value), row.path...)
		if err != nil {
			t.Errorf("%s: %v", row.raw, err)
		}
		if diff := cmp.Diff(row.want, string(got)); diff != "" {
			t.Errorf("%s: %s", row.raw, diff)
		}
	}
	for _, bad := range []struct{ raw, value string }{{`{"a":1,"a":2}`, `1`}, {`[]`, `1`}, {`{}`, `{`}, {`{"B":1}`, `1`}, {`{`, `1`}} {
		if got, err := Set(json.RawMessage(bad.raw), json.RawMessage(bad.value), "b"); err == nil {
			t.Errorf("%s and %s: got %s", bad.raw, bad.value, got)
		}
	}
}

func TestWithout(t *testing.T) {
	drop := func(key string) bool { return strings.HasPrefix(key, "x/") }
	for _, row := range []struct {
		raw  string
		path []string
		want string
	}{
		{`{"a":1,"_meta":{"x/a":{"b":[1]},"p": 2,"x/c":0}}`, []string{"_meta"}, `{"a":1,"_meta":{"p":2}}`},
		{`{"a":1, "_meta":{"x/a":1}}`, []string{"_meta"}, `{"a":1, "_meta":{}}`},
		{`{"a": 1}`, []string{"_meta"}, `{"a": 1}`},
		{`{"x/a":1,"b":2}`, nil, `{"b":2}`},
		{`{"_meta":null}`, []string{"_meta"}, `{"_meta":null}`},
		{``, []string{"_meta"}, ``},
	} {
		got, err := Without(json.RawMessage(row.raw), drop, row.path...)
		if err != nil {
			t.Errorf("%s: %v", row.raw, err)
		}
		if diff := cmp.Diff(row.want, string(got)); diff != "" {
			t.Errorf("%s: %s", row.raw, diff)
		}
	}
}

func TestMembers(t *testing.T) {
	var got []string
	err := Members(json.RawMessage(` {"a":1, "b" : {"c":[]}}`), func(key string, value json.RawMessage) bool {
		got = append(got, key+"="+string(value))
		return true
	})
	if diff := cmp.Diff([]string{"a=1", `b={"c":[]}`}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for _, bad := range []string{`{"a":1,"a":2}`, `[1]`, `{"a":}`, `"x"`} {
		if err := Members(json.RawMessage(bad), func(string, json.RawMessage) bool { return true }); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

func TestInsert(t *testing.T) {
	for _, row := range []struct {
		raw  string
		path []string
		want string
	}{
		{`{"a":1,"_meta":{"b":2}}`, []string{"_meta"}, `{"a":1,"_meta":{"x":1,"y":2,"b":2}}`},
		{`{"a":1,"_meta":{ }}`, []string{"_meta"}, `{"a":1,"_meta":{"x":1,"y":2}}`},
		{`{"a":1,"_meta":null}`, []string{"_meta"}, `{"a":1,"_meta":{"x":1,"y":2}}`},
		{`{"a":1}`, []string{"_meta"}, `{"_meta":{"x":1,"y":2},"a":1}`},
		{``, []string{"_meta"}, `{"_meta":{"x":1,"y":2}}`},
		{``, nil, `{"x":1,"y":2}`},
		{`{"a":1}`, nil, `{"x":1,"y":2,"a":1}`},
	} {
		got, err := Insert(json.RawMessage(row.raw), []byte(`"x":1,"y":2`), row.path...)
		if err != nil {
			t.Errorf("%s: %v", row.raw, err)
		}
		if diff := cmp.Diff(row.want, string(got)); diff != "" {
			t.Errorf("%s: %s", row.raw, diff)
		}
	}
	for _, bad := range []string{`[]`, `{"_meta":[]}`, `{"_meta":1,"_meta":2}`, `"x"`} {
		if got, err := Insert(json.RawMessage(bad), []byte(`"x":1`), "_meta"); err == nil {
			t.Errorf("%s: got %s", bad, got)
		}
	}
}
