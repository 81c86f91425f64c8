package mcp

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"time"
)

func TestParse_IDSpellings(t *testing.T) {
	for in, want := range map[string]string{
		"1.0": "1", "1e0": "1", "1E+0": "1", "10e-1": "1", "0.1e1": "1", "100.00e-2": "1", "-1.0": "-1",
		"1e2": "100", "1.5e1": "15", "0.0": "0", "-0.0": "0", "-0": "0", "0e999": "0", "12.50e2": "1250",
		// Beyond what a float holds exactly.
		"9007199254740993.0": "9007199254740993", "9.007199254740993e15": "9007199254740993", "1e31": "1" + strings.Repeat("0", 31),
		"1.5": "", "1e-1": "", "15e-1": "", "1e32": "", "1e999999999": "", "1e-999999999": "", "1e99999999999999999999": "",
		"1." + strings.Repeat("0", 1<<20):             "1",
		"1" + strings.Repeat("0", 40) + "e-40":        "1",
		"0." + strings.Repeat("0", 40) + "1e41":       "1",
		"1" + strings.Repeat("0", 1<<20) + "e-999999": "",
	} {
		began := time.Now()
		id, ok := AsID([]byte(in))
		if ok != (want != "") || id.String() != want {
			t.Errorf("%.30s: got %.40q, %v; want %q", in, id.String(), ok, want)
		}
		if spent := time.Since(began); spent > time.Second {
			t.Errorf("%.30s: took %s", in, spent)
		}
	}
}

// FuzzIntegerIDs holds the ids that are numbers to exact arithmetic.
func FuzzIntegerIDs(f *testing.F) {
	for _, seed := range []string{"1", "-1.50e1", "100.0E-2", "0.001e3", "1e31", "1e32", "9007199254740993.0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		if len(in) > 40 || len(in) == 0 || in[0] == '"' {
			return
		}
		id, ok := AsID([]byte(in))
		if at := strings.IndexAny(in, "eE"); at >= 0 && len(in)-at > 4 {
			return // big has no bound on the work for it
		}
		number, isNumber := new(big.Rat).SetString(in)
		switch {
		case ok && (!isNumber || !number.IsInt() || id.String() != number.Num().String()):
			t.Errorf("%q is taken for %s", in, id)
		case !ok && json.Valid([]byte(in)) && isNumber && number.IsInt() && len(number.Num().String()) <= maxIntegerDigits && in == strings.TrimSpace(in):
			t.Errorf("%q is refused", in)
		}
	})
}

func TestID_Means(t *testing.T) {
	for id, want := range map[ID]ID{
		StringID("7"): IntID(7), StringID("-7"): IntID(-7), IntID(7): IntID(7), {}: {},
		StringID("07"): StringID("07"), StringID("7x"): StringID("7x"), StringID(""): StringID(""), StringID(" 7"): StringID(" 7"), StringID("+7"): StringID("+7"),
	} {
		if got := id.AsNumber(); got != want {
			t.Errorf("%s: got %s", id, got)
		}
	}
}
