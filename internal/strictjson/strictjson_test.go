package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	room   = 8
	strict = UniqueNames | WholeCharacters | UTF8 | NoNUL
)

// read takes a text apart, every array and object entered and every value decoded,
// as encoding/json does with numbers as they are written.
func read(text []byte, rules Rules) (any, error) {
	s := New(text, room, rules)
	v := s.Decoded()
	return v, s.End()
}

// check passes a text as a whole.
func check(text []byte, rules Rules) error {
	s := New(text, room, rules)
	s.Value()
	return s.End()
}

func nested(n int, inside string) string {
	return strings.Repeat("[", n) + inside + strings.Repeat("]", n)
}

func TestRules(t *testing.T) {
	type fault = Fault
	large := `{"z":0,"z":1`
	for i := range 20 {
		large += fmt.Sprintf(`,"k%d":0`, i)
	}
	large += "}"
	for name, test := range map[string]struct {
		text  string
		rules Rules
		want  *Fault // nil: accepted
	}{
		// RFC 8259.
		"every kind of value":                  {`{"a":[1,-0.5e+3,0,true,false,null,"x",{}],"b":[]}`, strict, nil},
		"a number alone":                       {`-0`, strict, nil},
		"blanks everywhere":                    {" \t\r\n[ 1 , { \"a\" : 2 , \"b\" : { } } , [ ] ] \n", strict, nil},
		"every escape":                         {`"\"\\\/\b\f\n\r\t\u00E9\ud83d\uDE00"`, strict, nil},
		"DEL in a text":                        {"\"\x7f\"", strict, nil},
		"nothing":                              {``, 0, &fault{NoValue, 0, true, ""}},
		"blanks alone":                         {" \n", 0, &fault{NoValue, 2, true, ""}},
		"a word that is none":                  {`[nul]`, 0, &fault{NoValue, 1, false, ""}},
		"half a word":                          {`tru`, 0, &fault{NoValue, 0, false, ""}},
		"NaN":                                  {`NaN`, 0, &fault{NoValue, 0, false, ""}},
		"a form feed as a blank":               {"\f1", 0, &fault{NoValue, 0, false, ""}},
		"a byte order mark":                    {"\ufeff{}", strict, &fault{NoValue, 0, false, ""}},
		"a comma too many in an array":         {`[1,]`, 0, &fault{NoValue, 3, false, ""}},
		"a comma too early in an array":        {`[,1]`, 0, &fault{NoValue, 1, false, ""}},
		"no value behind a colon":              {`{"a":}`, 0, &fault{NoValue, 5, false, ""}},
		"an array cut short":                   {`[`, 0, &fault{NoValue, 1, true, ""}},
		"an array cut short behind its comma":  {`[1,`, 0, &fault{NoValue, 3, true, ""}},
		"a missing comma in an array":          {`[1 2]`, 0, &fault{NoCommaInArray, 3, false, ""}},
		"an array cut short behind a value":    {`[1`, 0, &fault{NoCommaInArray, 2, true, ""}},
		"an array closed as an object":         {`[1}`, 0, &fault{NoCommaInArray, 2, false, ""}},
		"a name without quotes":                {`{a:1}`, 0, &fault{NoName, 1, false, ""}},
		"a number as a name":                   {`{1:1}`, 0, &fault{NoName, 1, false, ""}},
		"a comma too many in an object":        {`{"a":1,}`, 0, &fault{NoName, 7, false, ""}},
		"a comma too early in an object":       {`{,"a":1}`, 0, &fault{NoName, 1, false, ""}},
		"an object cut short behind its comma": {`{"a":1,`, 0, &fault{NoName, 7, true, ""}},
		"a missing colon":                      {`{"a" 1}`, 0, &fault{NoColon, 5, false, ""}},
		"an object cut short behind a name":    {`{"a"`, 0, &fault{NoColon, 4, true, ""}},
		"a missing comma in an object":         {`{"a":1 "b":2}`, 0, &fault{NoCommaInObject, 7, false, ""}},
		"an object cut short behind a value":   {`{"a":1`, 0, &fault{NoCommaInObject, 6, true, ""}},
		"an object cut short":                  {`{ `, 0, &fault{TheEnd, 2, true, ""}},
		"a minus alone":                        {`-`, 0, &fault{NoDigits, 1, true, ""}},
		"a plus":                               {`+1`, 0, &fault{NoValue, 0, false, ""}},
		"no digits behind the minus":           {`-x`, 0, &fault{NoDigits, 1, false, ""}},
		"no digits behind the point":           {`[1.]`, 0, &fault{NoFraction, 3, false, ""}},
		"no digits behind the e":               {`[1e-]`, 0, &fault{NoExponent, 4, false, ""}},
		"a leading zero":                       {`01`, 0, &fault{NotTheEnd, 1, false, ""}},
		"two values":                           {`{} {}`, 0, &fault{NotTheEnd, 3, false, ""}},
		"a text without end":                   {`"ab`, 0, &fault{TheEnd, 3, true, ""}},
		"a text that ends in a backslash":      {`"\`, 0, &fault{TheEnd, 2, true, ""}},
		"an escape that is none":               {`"\x"`, 0, &fault{NoSuchEscape, 2, false, ""}},
		"an escaped line break":                {"\"\\\n\"", 0, &fault{NoSuchEscape, 2, false, ""}},
		"three hexadecimal digits":             {`"\u12g4"`, 0, &fault{NoHexadecimal, 2, false, ""}},
		"a sign among hexadecimal digits":      {`"\u+123"`, 0, &fault{NoHexadecimal, 2, false, ""}},
		"hexadecimal digits cut short":         {`"\u12`, 0, &fault{NoHexadecimal, 2, false, ""}},
		"a control character":                  {"\"a\x1f\"", 0, &fault{ControlCharacter, 2, false, ""}},
		"NUL in a text":                        {"\"\x00\"", 0, &fault{ControlCharacter, 1, false, ""}},

		// Nesting.
		"as deep as there is room":   {nested(room, `1`), 0, nil},
		"one deeper":                 {nested(room+1, ``), 0, &fault{TooDeep, room, false, ""}},
		"one deeper, an object":      {nested(room, `{}`), 0, &fault{TooDeep, room, false, ""}},
		"a bomb of brackets":         {strings.Repeat("[", 1<<20), 0, &fault{TooDeep, room, false, ""}},
		"a bomb of objects":          {strings.Repeat(`{"a":`, 1<<18), 0, &fault{TooDeep, 5 * room, false, ""}},
		"many beside each other":     {`[` + strings.Repeat(`[[]],`, 100) + `{}]`, strict, nil},
		"depth is given back at end": {`[` + nested(room-1, ``) + `,` + nested(room-1, ``) + `]`, strict, nil},

		// RFC 7493 section 2.3.
		"a name twice":                     {`{"a":1,"b":2,"a":3} `, UniqueNames, &fault{NameTwice, 19, false, "a"}},
		"a name twice, nobody minds":       {`{"a":1,"a":3}`, ^UniqueNames, nil},
		"a name twice, once escaped":       {`{"iss":1,"\u0069ss":3}`, UniqueNames, &fault{NameTwice, 22, true, "iss"}},
		"a name twice, further in":         {`[{"a":[{"b":1,"b":2}]}]`, UniqueNames, &fault{NameTwice, 20, false, "b"}},
		"the empty name twice":             {`{"":1,"":2}`, UniqueNames, &fault{NameTwice, 11, true, ""}},
		"a name twice among many":          {large, UniqueNames, &fault{NameTwice, len(large), true, "z"}},
		"one name in objects of their own": {`{"a":{"a":[{"a":1},{"a":1}]},"b":{"a":1}}`, strict, nil},
		"names that differ in case":        {`{"a":1,"A":2}`, strict, nil},
		"names that differ in a NUL":       {`{"a":1,"a\u0000":2}`, UniqueNames, nil},

		// RFC 7493 section 2.1.
		"a first half":                     {`"\ud83d"`, WholeCharacters, &fault{HalfCharacter, 2, false, ""}},
		"a first half, nobody minds":       {`"\ud83d"`, ^WholeCharacters, nil},
		"a second half":                    {`"\ude00"`, WholeCharacters, &fault{HalfCharacter, 2, false, ""}},
		"two first halves":                 {`"\ud83d\ud83d\ude00"`, WholeCharacters, &fault{HalfCharacter, 2, false, ""}},
		"halves in the wrong order":        {`"\ude00\ud83d"`, WholeCharacters, &fault{HalfCharacter, 2, false, ""}},
		"halves with something between":    {`"\ud83dx\ude00"`, WholeCharacters, &fault{HalfCharacter, 2, false, ""}},
		"a first half, then U+FFFD":        {`"\ud83d\ufffd"`, WholeCharacters, &fault{HalfCharacter, 2, false, ""}},
		"half a character in a name":       {`{"\ud83d":1}`, WholeCharacters, &fault{HalfCharacter, 3, false, ""}},
		"an escaped backslash before a u":  {`"\\ud83d"`, strict, nil},
		"bad UTF-8":                        {"{\"a\":\"\xff\"}", UTF8, &fault{NotUTF8, 6, false, ""}},
		"bad UTF-8, nobody minds":          {"\"\xff\"", ^UTF8, nil},
		"a surrogate in UTF-8":             {"\"\xed\xa0\xbd\"", UTF8, &fault{NotUTF8, 1, false, ""}},
		"UTF-8 cut short":                  {"\"\xc3", UTF8, &fault{NotUTF8, 1, false, ""}},
		"U+FFFD as it is written":          {"\"\ufffd\"", strict, nil},
		"the escape of NUL":                {`["a\u0000"]`, NoNUL, &fault{NUL, 4, false, ""}},
		"the escape of NUL in a name":      {`{"\u0000":1}`, NoNUL, &fault{NUL, 3, false, ""}},
		"the escape of NUL, nobody minds":  {`"\u0000"`, ^NoNUL, nil},
		"an escaped backslash before NUL":  {`"\\u0000"`, strict, nil},
		"the first fault is the one there": {"{\"a\":1,\"a\":2,\"b\":tru}", strict, &fault{NoValue, 17, false, ""}},
	} {
		t.Run(name, func(t *testing.T) {
			err := check([]byte(test.text), test.rules)
			var got *Fault
			if errors.As(err, &got); !cmp.Equal(test.want, got) || (err == nil) != (test.want == nil) {
				t.Errorf("%s", cmp.Diff(test.want, got))
			}
			// Reading it value by value finds the same.
			_, other := read([]byte(test.text), test.rules)
			if diff := cmp.Diff(fmt.Sprint(err), fmt.Sprint(other)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What is wrong is said without a word of the text.
func TestFault_WithoutText(t *testing.T) {
	for p := NoValue; p <= NotUTF8; p++ {
		f := &Fault{Problem: p, Offset: 7, Name: "s3cret"}
		if text := f.Error(); p.String() == "" || text != p.String()+" at byte 7" {
			t.Errorf("%d: %q", p, text)
		}
	}
	if got := (NotUTF8 + 1).String(); got != "" {
		t.Error(got)
	}
}

func TestScanner_FirstFault(t *testing.T) {
	s := New([]byte(`{"a":1,"b":x,"c":3}`), room, strict)
	var names []string
	for members := s.Enter(); s.Next(&members); {
		names = append(names, s.Name()+"="+string(s.Value()))
	}
	if diff := cmp.Diff([]string{"a=1", "b="}, names); diff != "" {
		t.Error(diff)
	}
	first := s.Err()
	s.Refuse(NameTwice)
	inner := s.Enter()
	if s.Kind() != 0 || s.Value() != nil || s.Text() != "" || s.Next(&inner) || s.Err() != first || s.End() != first {
		t.Error("it goes on behind a fault")
	}
}

func TestScanner_OtherKind(t *testing.T) {
	for text, use := range map[string]func(*Scanner){
		`1`:    func(s *Scanner) { s.Enter() },
		` {}`:  func(s *Scanner) { s.Text() },
		`null`: func(s *Scanner) { _ = s.Text() },
	} {
		s := New([]byte(text), room, 0)
		use(&s)
		want := &Fault{Problem: AnotherKind, Offset: len(text) - len(strings.TrimSpace(text))}
		if diff := cmp.Diff(error(want), s.Err()); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
	s := New([]byte(`[`), room, 0)
	items := s.Enter()
	for n := 0; s.Next(&items); n++ { // nobody reads the values
		if n > 1 {
			t.Fatal("an end without end")
		}
	}
	if s.Err() == nil {
		t.Error("a text cut short is accepted")
	}
}

// An owner of a value may append to it without reaching what is behind it.
func TestScanner_Value(t *testing.T) {
	text := []byte(` { "a" : [ 1 ] , "b":2 } `)
	s := New(text, room, strict)
	members := s.Enter()
	if !s.Next(&members) {
		t.Fatal(s.Err())
	}
	key := s.Key()
	from, before := s.At(), s.Blanks()
	value := s.Value()
	_, _ = append(key, 'x'), append(value, 'x')
	if string(text) != ` { "a" : [ 1 ] , "b":2 } ` || string(value) != "[ 1 ]" || string(key) != `"a"` {
		t.Errorf("%s, %s, %s", text, key, value)
	}
	if string(text[from:s.At()]) != "[ 1 ]" || before != 4 || s.Blanks() != 6 {
		t.Errorf("from %d to %d, blanks %d and %d", from, s.At(), before, s.Blanks())
	}
	s.Seek(from)
	if items := s.Enter(); !s.Next(&items) || string(s.Value()) != "1" {
		t.Error("it does not stand where it was put")
	}
}

func TestUnquote(t *testing.T) {
	for quoted, want := range map[string]string{
		`""`: "", `"a"`: "a", `"\u0041\/\n"`: "A/\n", `"\ud83d\ude00!"`: "😀!", `"\ud83d"`: "\ufffd", `"\ud83d\ud83d\ude00"`: "\ufffd😀", `"\ude00x"`: "\ufffdx", `"\u0000"`: "\x00",
	} {
		got, whole := Unquote([]byte(quoted))
		if got != want || whole == strings.Contains(want, "\ufffd") {
			t.Errorf("%s: %q, %v", quoted, got, whole)
		}
		if _, err := json.Marshal(got); err != nil {
			t.Error(err)
		}
	}
}

// The names of an object are kept in one place, in another, or partly in each:
// it depends on how many there are in it and around it.
func TestUniqueNames(t *testing.T) {
	object := func(n, first, second int, inside string) string {
		var b strings.Builder
		for i := range n {
			name := fmt.Sprintf("k%02d", i)
			if i == second {
				name = fmt.Sprintf(`\u006b%02d`, first)
			}
			fmt.Fprintf(&b, `,"%s":%s`, name, inside)
			inside = "0"
		}
		return "{" + strings.TrimPrefix(b.String(), ",") + "}"
	}
	for outer := range 15 {
		for inner := range 30 {
			for second := range inner {
				first := second * 7 % max(second, 1)
				for _, where := range []string{"inside", "around", "nowhere"} {
					text := object(outer+1, 0, -1, object(inner, 0, -1, "0"))
					want := ""
					switch {
					case where == "inside" && first < second:
						text, want = object(outer+1, 0, -1, object(inner, first, second, "0")), fmt.Sprintf("k%02d", first)
					case where == "around" && first < second:
						text, want = object(inner, first, second, object(outer, 0, -1, "0")), fmt.Sprintf("k%02d", first)
					}
					got := ""
					var fault *Fault
					if err := check([]byte(text), strict); errors.As(err, &fault) {
						got = fault.Name
					} else if err != nil {
						t.Fatal(err)
					}
					if got != want {
						t.Fatalf("%q is twice, want %q: %s", got, want, text)
					}
				}
			}
		}
	}
}

// An object of a hundred thousand names is looked through in less than quadratic
// time, escaped or not.
func TestUniqueNames_Many(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"name":1`)
	for i := range 200_000 {
		fmt.Fprintf(&b, `,"\u006b%d":0`, i)
	}
	b.WriteString(`,"k7":1}`)
	start := time.Now()
	var fault *Fault
	if err := check([]byte(b.String()), strict); !errors.As(err, &fault) || fault.Name != "k7" {
		t.Error(err)
	}
	// Quadratic would be 2*10^10 comparisons: minutes.
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
}

const sample = `{"jsonrpc":"2.0","id":42,"method":"tools/call","params":{"name":"search","arguments":{"query":"how to fold a paper \"crane\"","limit":1.0e1,"tags":["a","b",null,true]},"_meta":{"progressToken":"p1"}}}`

func TestScanner_Allocations(t *testing.T) {
	text := []byte(sample)
	for _, rules := range []Rules{0, strict} {
		if got := testing.AllocsPerRun(100, func() {
			if check(text, rules) != nil {
				t.Fatal("it is refused")
			}
		}); got != 0 {
			t.Errorf("rules %b: %v allocations", rules, got)
		}
	}
}

func BenchmarkValue(b *testing.B) {
	text := []byte(sample)
	for name, rules := range map[string]Rules{"no rules": 0, "all rules": strict} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if err := check(text, rules); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
