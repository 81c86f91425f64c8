package mcp

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadList(t *testing.T) {
	raw := json.RawMessage(` {"_meta":{"tools":[1]}, "tools" : [ {"name":"a","x":{"name":1}} , {"title":"B", "n\u0061me":"b\u0021"} ] ,"nextCursor":"2"} `)
	l, err := ReadList(raw, "tools", "name")
	if err != nil {
		t.Fatal(err)
	}
	want := []Item{
		{"a", json.RawMessage(`{"name":"a","x":{"name":1}}`)},
		{"b!", json.RawMessage(`{"title":"B", "n\u0061me":"b\u0021"}`)},
	}
	if diff := cmp.Diff(want, l.Items); diff != "" {
		t.Error(diff)
	}
	for _, row := range []struct {
		items []json.RawMessage
		want  string
	}{
		{nil, ` {"_meta":{"tools":[1]}, "tools" : [] ,"nextCursor":"2"} `},
		{[]json.RawMessage{l.Items[0].Raw}, ` {"_meta":{"tools":[1]}, "tools" : [{"name":"a","x":{"name":1}}] ,"nextCursor":"2"} `},
		{[]json.RawMessage{json.RawMessage(`1`), json.RawMessage(`2`)}, ` {"_meta":{"tools":[1]}, "tools" : [1,2] ,"nextCursor":"2"} `},
	} {
		if diff := cmp.Diff(row.want, string(l.With(row.items))); diff != "" {
			t.Error(diff)
		}
	}
}

func TestReadList_Empty(t *testing.T) {
	l, err := ReadList(json.RawMessage(`{"tools":[]}`), "tools", "name")
	if err != nil || len(l.Items) != 0 || string(l.With(nil)) != `{"tools":[]}` {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestReadList_Errors(t *testing.T) {
	for _, row := range []struct{ name, raw, want string }{
		{"nothing", ``, "the result must be an object"},
		{"an array", `[]`, "the result must be an object"},
		{"no list", `{}`, "tools is missing"},
		{"a null list", `{"tools":null}`, "tools must be an array"},
		{"an object for a list", `{"tools":{}}`, "tools must be an array"},
		{"the list twice", `{"tools":[],"tools":[]}`, `the key "tools" is there twice`},
		{"another key twice", `{"a":1,"a":2,"tools":[]}`, `the key "a" is there twice`},
		{"the list in another spelling", `{"tools":[],"Tools":[]}`, `the key "Tools" is another spelling of "tools"`},
		{"the list with a long s", `{"tools":[],"toolſ":[]}`, `the key "tool\u017f" is another spelling of "tools"`},
		{"a string for an item", `{"tools":["a"]}`, "tools[0]: it must be an object"},
		{"an item without a name", `{"tools":[{"name":"a"},{}]}`, "tools[1]: name is missing"},
		{"a number for a name", `{"tools":[{"name":1}]}`, "tools[0]: name must be a string"},
		{"half a character", `{"tools":[{"name":"\ud800"}]}`, "tools[0]: name must be a string"},
		{"a name twice", `{"tools":[{"name":"a","name":"b"}]}`, `tools[0]: the key "name" is there twice`},
		{"a name twice, once escaped", `{"tools":[{"name":"a","n\u0061me":"b"}]}`, `tools[0]: the key "name" is there twice`},
		{"a name in another spelling", `{"tools":[{"name":"a","NAME":"b"}]}`, `tools[0]: the key "NAME" is another spelling of "name"`},
		{"a name with a NUL", `{"tools":[{"name":"a","name\u0000":"b"}]}`, `tools[0]: the key "name\x00" is another spelling of "name"`},
		{"only another spelling", `{"tools":[{"Name":"a"}]}`, `tools[0]: the key "Name" is another spelling of "name"`},
		{"cut off", `{"tools":[{"name":"a"}`, ""},
		{"cut off in an item", `{"tools":[{"name":"a`, ""},
		{"something after it", `{"tools":[]} x`, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := ReadList(json.RawMessage(row.raw), "tools", "name")
			if err == nil {
				t.Fatal("it is accepted")
			}
			if row.want != "" && err.Error() != row.want {
				t.Errorf("got %q, want %q", err, row.want)
			}
		})
	}
}

// Whatever is read has the same tools for encoding/json.
func FuzzReadList(f *testing.F) {
	f.Add([]byte(`{"tools":[{"name":"a"},{"name":"b","x":[{"name":1}]}],"nextCursor":"2"}`))
	f.Add([]byte(`{"tools":[{"name":"\u0061"}],"Tools":[]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, err := ReadList(raw, "tools", "name")
		if err != nil {
			return
		}
		var want struct{ Tools []struct{ Name string } }
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Fatalf("%q: encoding/json fails: %v", raw, err)
		}
		if len(want.Tools) != len(l.Items) {
			t.Fatalf("%q: %d items, encoding/json has %d", raw, len(l.Items), len(want.Tools))
		}
		items := make([]json.RawMessage, len(l.Items))
		for i, item := range l.Items {
			if item.Name != want.Tools[i].Name {
				t.Errorf("%q: item %d is %q, encoding/json has %q", raw, i, item.Name, want.Tools[i].Name)
			}
			items[i] = item.Raw
		}
		if again, err := ReadList(l.With(items), "tools", "name"); err != nil || len(again.Items) != len(items) {
			t.Errorf("%q: written back as %q: %v", raw, l.With(items), err)
		}
	})
}
