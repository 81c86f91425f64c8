package guest

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func FuzzParseRequest(f *testing.F) {
	for _, seed := range []string{
		`{"op":"spawn","argv":["sh","-c","exit"]}`,
		`{"op":"wait","process":1}`,
		`{"op":"kill","process":1,"graceMs":1500}`,
		`{"op":"dial","address":"127.0.0.1:80"}`,
		`{"op":"dial"}`, `[]`, `null`, `{"op":"wait"}{}`, "{\"op\":\"spawn\",\"argv\":[\"a\x00\"]}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		req, err := parseRequest(line)
		if err != nil {
			return
		}
		// An accepted request is parsed to the same after it is encoded.
		again, err := json.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		second, err := parseRequest(again)
		if err != nil {
			t.Fatalf("%s was accepted and is rejected as %s: %v", line, again, err)
		}
		if diff := cmp.Diff(req, second); diff != "" {
			t.Error(diff)
		}
	})
}

func TestReadLine_LeavesRest(t *testing.T) {
	r := strings.NewReader("one\n\ntwo")
	for _, want := range []string{"one", ""} {
		line, err := readLine(r)
		if err != nil || string(line) != want {
			t.Errorf("%q, %v; want %q", line, err, want)
		}
	}
	if r.Len() != 3 {
		t.Errorf("%d bytes are left, want 3", r.Len())
	}
	if _, err := readLine(r); err == nil {
		t.Error("a line without a break was accepted")
	}
	if _, err := readLine(bytes.NewReader(make([]byte, maxLine+1))); err == nil || !strings.Contains(err.Error(), "longer") {
		t.Errorf("a line too long: %v", err)
	}
}
