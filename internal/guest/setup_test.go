package guest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSetUp_RoundTrip(t *testing.T) {
	for _, want := range []SetUp{{}, {Open: []uint16{1, 65535}, User: `a"b:{}`, Home: true}} {
		got, rest, err := ParseSetUp([]string{want.Arg(), "/socket"})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"/socket"}, rest); diff != "" {
			t.Error(diff)
		}
	}
	for _, args := range [][]string{nil, {}, {"/socket"}, {"/socket", "{}"}, {""}} {
		if got, rest, err := ParseSetUp(args); got != nil || err != nil || len(rest) != len(args) {
			t.Errorf("%q: %+v, %q, %v", args, got, rest, err)
		}
	}
	for _, arg := range []string{"{", `{"open":[65536]}`, `{"open":[-1]}`, `{"user":1}`, `{} {}`} {
		if got, _, err := ParseSetUp([]string{arg}); err == nil {
			t.Errorf("%s: %+v", arg, got)
		}
	}
}
