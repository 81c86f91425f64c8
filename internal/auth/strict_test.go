package auth

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestStrictJSON(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"an object":                       {`{"a":[1,-0.5e+3,true,false,null,"x"],"b":{}}`, nil},
		"blanks everywhere":               {" \t\r\n{ \"a\" : [ 1 , 2 ] , \"b\" : { } } ", nil},
		"every escape":                    {`{"a":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"}`, nil},
		"names that differ in case":       {`{"a":1,"A":2}`, nil},
		"as deep as allowed":              {`{"a":` + strings.Repeat("[", maxDepth-1) + strings.Repeat("]", maxDepth-1) + `}`, nil},
		"a name twice":                    {`{"iss":"a","iss":"b"}`, errDuplicate},
		"a name twice, once escaped":      {`{"iss":"a","\u0069ss":"b"}`, errDuplicate},
		"a name twice, further in":        {`{"a":[{"b":1,"b":1}]}`, errDuplicate},
		"too deep":                        {`{"a":` + strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth) + `}`, errTooDeep},
		"a bomb of brackets":              {`{"a":` + strings.Repeat("[", 1<<20), errTooDeep},
		"an array":                        {`[]`, errNotObject},
		"a string":                        {`"{}"`, errNotObject},
		"null":                            {`null`, errNotObject},
		"nothing":                         {``, errNotObject},
		"two objects":                     {`{}{}`, errNotJSON},
		"words behind":                    {`{} x`, errNotJSON},
		"a missing comma":                 {`{"a":1 "b":2}`, errNotJSON},
		"a comma too many":                {`{"a":1,}`, errNotJSON},
		"a leading comma":                 {`{,"a":1}`, errNotJSON},
		"a comma too many in a list":      {`{"a":[1,]}`, errNotJSON},
		"no value":                        {`{"a":}`, errNotJSON},
		"a name that is no string":        {`{a:1}`, errNotJSON},
		"a leading zero":                  {`{"a":01}`, errNotJSON},
		"a lone minus":                    {`{"a":-}`, errNotJSON},
		"no digits behind the point":      {`{"a":1.}`, errNotJSON},
		"no exponent":                     {`{"a":1e}`, errNotJSON},
		"a word that is none":             {`{"a":nul}`, errNotJSON},
		"NaN":                             {`{"a":NaN}`, errNotJSON},
		"a string without end":            {`{"a":"x`, errNotJSON},
		"a string that ends in an escape": {`{"a":"x\`, errNotJSON},
		"an escape that is none":          {`{"a":"\x"}`, errNotJSON},
		"half a surrogate pair":           {`{"a":"\ud83d"}`, errNotJSON},
		"two first halves":                {`{"a":"\ud83d\ud83d"}`, errNotJSON},
		"bad hexadecimal":                 {`{"a":"\u+12f"}`, errNotJSON},
		"a control character":             {"{\"a\":\"\n\"}", errNotJSON},
		"bad UTF-8":                       {"{\"a\":\"\xff\"}", errNotJSON},
		"bad UTF-8 beside an escape":      {"{\"a\":\"\\n\xff\"}", errNotJSON},
		"cut short":                       {`{"a":[1,{"b":2`, errNotJSON},
	} {
		if _, err := decodeObject([]byte(c.text)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// What is accepted is read as encoding/json reads it; what encoding/json refuses
// is refused.
func FuzzStrictJSON(f *testing.F) {
	f.Add([]byte(`{"iss":"https://i","aud":["a","b"],"exp":1.5e9,"x":{"y":[true,null,"\u00e9\ud83d\ude00"]}}`))
	f.Add([]byte(`{"a":1,"a":2}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := decodeObject(text)
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		var want any
		wantErr := dec.Decode(&want)
		if err != nil {
			for _, known := range []error{errNotJSON, errNotObject, errDuplicate, errTooDeep} {
				if errors.Is(err, known) {
					return
				}
			}
			t.Fatalf("an error of another kind: %v", err)
		}
		if wantErr != nil || dec.More() || !json.Valid(text) {
			t.Fatalf("%q is accepted here alone", text)
		}
		if !utf8.Valid(text) {
			t.Fatalf("%q is accepted", text)
		}
		if diff := cmp.Diff(want, any(got)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// The claims of an RFC 9068 access token.
func BenchmarkStrictJSON(b *testing.B) {
	text := []byte(`{"iss":"https://idp.example.com/realms/tools","sub":"248289761001","aud":["https://registry.example.com","account"],"exp":1795276800,"iat":1795273200,` +
		`"jti":"k3Jd8s-00000017","client_id":"client-of-the-benchmark","scope":"mcp-registry:read","realm_access":{"roles":["reader","J\u00fcrgen"]}}`)
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := decodeObject(text); err != nil {
			b.Fatal(err)
		}
	}
}
