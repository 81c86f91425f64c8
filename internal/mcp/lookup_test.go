package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestLookup(t *testing.T) {
	tests := []struct {
		name, raw string
		path      []string
		want      string // "" and no code: not found
		code      int
	}{
		{"top", `{"a":1,"name":"x"}`, []string{"name"}, `"x"`, 0},
		{"nested", `{"_meta": {"progressToken" : [ 1 ] } }`, []string{"_meta", "progressToken"}, `[ 1 ]`, 0},
		{"no path is the whole", ` {"a":1} `, nil, `{"a":1}`, 0},
		{"escaped key", `{"n\u0061me":1}`, []string{"name"}, `1`, 0},
		{"absent", `{"a":1}`, []string{"b"}, ``, 0},
		{"absent half way", `{"a":1}`, []string{"_meta", "progressToken"}, ``, 0},
		{"null half way", `{"_meta":null}`, []string{"_meta", "progressToken"}, ``, 0},
		{"no params at all", ``, []string{"a"}, ``, 0},
		{"other spellings below are not our business", `{"arguments":{"Name":1,"name":2},"name":3}`, []string{"name"}, `3`, 0},
		{"a key twice", `{"name":1,"name":2}`, []string{"name"}, ``, CodeInvalidParams},
		{"twice, escaped", `{"name":1,"n\u0061me":2}`, []string{"name"}, ``, CodeInvalidParams},
		{"another key twice", `{"x":1,"x":2,"name":2}`, []string{"name"}, ``, CodeInvalidParams},
		{"twice at the outer level", `{"_meta":{},"_meta":{"progressToken":1}}`, []string{"_meta", "progressToken"}, ``, CodeInvalidParams},
		{"another case", `{"Name":1}`, []string{"name"}, ``, CodeInvalidParams},
		{"another case beside", `{"name":1,"NAME":2}`, []string{"name"}, ``, CodeInvalidParams},
		{"Kelvin sign, which folds to k", `{"to\u212aen":1}`, []string{"token"}, ``, CodeInvalidParams},
		{"trailing NUL", `{"name":1,"name\u0000":2}`, []string{"name"}, ``, CodeInvalidParams},
		{"array", `[1]`, []string{"name"}, ``, CodeInvalidParams},
		{"string half way", `{"_meta":"x"}`, []string{"_meta", "progressToken"}, ``, CodeInvalidParams},
		{"not JSON", `{"a":`, []string{"a"}, ``, CodeInvalidParams},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, found, err := Lookup(json.RawMessage(tt.raw), tt.path...)
			if codeOf(err) != tt.code {
				t.Fatalf("error %v, want code %d", err, tt.code)
			}
			if string(got) != tt.want || found != (tt.want != "") {
				t.Errorf("got %q, found %v", got, found)
			}
		})
	}
}

func TestLookupString(t *testing.T) {
	raw := json.RawMessage(`{"s":"\u0061\n","n":1,"half":"\udc00"}`)
	if got, found, err := LookupString(raw, "s"); got != "a\n" || !found || err != nil {
		t.Errorf("got %q, %v, %v", got, found, err)
	}
	if _, found, err := LookupString(raw, "none"); found || err != nil {
		t.Errorf("absent: %v, %v", found, err)
	}
	for _, key := range []string{"n", "half"} {
		if _, found, err := LookupString(raw, key); found || codeOf(err) != CodeInvalidParams {
			t.Errorf("%s: %v, %v", key, found, err)
		}
	}
}

func TestReplace(t *testing.T) {
	raw := `{ "z":1.50, "_meta" : {"a":"\u0061", "progressToken" : "abc" , "b":null},"arguments":{"X":1,"X":2} }`
	want := strings.Replace(raw, `"abc"`, `17`, 1)
	got, err := Replace(json.RawMessage(raw), json.RawMessage(`17`), "_meta", "progressToken")
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	for _, tt := range []struct{ raw, value, key string }{
		{`{"a":1}`, `2`, "b"}, {`{"a":1}`, `2,"b":3`, "a"}, {`{"a":1}`, ``, "a"}, {`{"a":1,"A":1}`, `2`, "a"}, {``, `2`, "a"},
	} {
		if got, err := Replace(json.RawMessage(tt.raw), json.RawMessage(tt.value), tt.key); codeOf(err) != CodeInvalidParams {
			t.Errorf("%+v: got %s, %v", tt, got, err)
		}
	}
}

// An object of a hundred thousand keys is looked through in linear time.
func TestLookup_LinearTime(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"name":1`)
	for i := range 200_000 {
		fmt.Fprintf(&b, `,"k%d":0`, i)
	}
	b.WriteString(`}`)
	start := time.Now()
	if _, found, err := Lookup(json.RawMessage(b.String()), "name"); !found || err != nil {
		t.Fatal(found, err)
	}
	// Quadratic would be 2*10^10 comparisons: minutes.
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
}

func FuzzLookupReplace(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1}}`), "a", "b", []byte(`"x"`))
	f.Add([]byte(`{"a":{"B":1}}`), "a", "b", []byte(`{}`))
	f.Add([]byte(`{"a\u0000":1}`), "a", "", []byte(`1`))
	f.Fuzz(func(t *testing.T, raw []byte, k1, k2 string, value []byte) {
		path := []string{k1}
		if k2 != "" {
			path = append(path, k2)
		}
		old, found, err := Lookup(raw, path...)
		if err != nil && codeOf(err) != CodeInvalidParams {
			t.Fatalf("error %v", err)
		}
		if found && k2 == "" {
			assertLooseReaderAgrees(t, raw, k1, old)
		}
		got, rerr := Replace(raw, value, path...)
		if rerr != nil {
			if found && json.Valid(value) && value[0] > ' ' && value[len(value)-1] > ' ' {
				t.Fatalf("Lookup found %s, Replace returned %v", old, rerr)
			}
			return
		}
		if !found {
			t.Fatal("replaced what Lookup did not find")
		}
		now, ok, err := Lookup(got, path...)
		if err != nil || !ok || string(now) != string(value) {
			t.Fatalf("after replacing: %q, %v, %v; want %q", now, ok, err, value)
		}
		back, err := Replace(got, old, path...)
		if err != nil || string(back) != string(raw) {
			t.Fatalf("putting it back gives %q, %v; want %q", back, err, raw)
		}
	})
}

// assertLooseReaderAgrees decodes with encoding/json, for which the last of
// several equal keys wins.
func assertLooseReaderAgrees(t *testing.T, raw []byte, key string, want json.RawMessage) {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatalf("Lookup found %s in %q, encoding/json: %v", want, raw, err)
	}
	n := 0
	for k, v := range m {
		if !strings.EqualFold(k, key) {
			continue
		}
		n++
		if string(v) != string(want) {
			t.Fatalf("key %q: encoding/json reads %s, Lookup %s", k, v, want)
		}
	}
	if n != 1 {
		t.Fatalf("%d keys fold to %q in %q", n, key, raw)
	}
}
