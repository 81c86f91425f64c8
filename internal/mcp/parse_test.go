package mcp

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var cmpIDs = cmp.Comparer(func(a, b ID) bool { return a == b })

func TestParse(t *testing.T) {
	tests := []struct {
		name, in string
		want     *Message
		kind     Kind
	}{
		{"request", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x"}}`,
			&Message{ID: IntID(7), Method: "tools/call", Params: json.RawMessage(`{"name":"x"}`)}, Request},
		{"white space everywhere", " \n{ \"id\" : \"a\" ,\t\"jsonrpc\":\"2.0\", \"method\" : \"ping\" } \r\n",
			&Message{ID: StringID("a"), Method: "ping"}, Request},
		{"notification", `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
			&Message{Method: "notifications/initialized"}, Notification},
		{"params by position", `{"jsonrpc":"2.0","method":"m","params":[1]}`,
			&Message{Method: "m", Params: json.RawMessage(`[1]`)}, Notification},
		{"result", `{"jsonrpc":"2.0","id":"x","result":{}}`,
			&Message{ID: StringID("x"), Result: json.RawMessage(`{}`)}, Response},
		{"error with data", `{"jsonrpc":"2.0","id":-3,"error":{"code":-32601,"message":"no \"such\"","data":[1]}}`,
			&Message{ID: IntID(-3), Error: &Error{Code: -32601, Message: `no "such"`, Data: json.RawMessage(`[1]`)}}, Response},
		{"error to an unreadable message", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}`,
			&Message{Error: &Error{Code: -32700, Message: "m"}}, Response},
		{"error without id", `{"jsonrpc":"2.0","error":{"code":-32700,"message":"m"}}`,
			&Message{Error: &Error{Code: -32700, Message: "m"}}, Response},
		{"error with a member of the server's own", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","type":"E"}}`,
			&Message{ID: IntID(1), Error: &Error{Code: 1, Message: "m"}}, Response},
		{"result with members of the server's own", `{"jsonrpc":"2.0","elapsed":1,"id":1,"result":{},"trace":{"id":2}}`,
			&Message{ID: IntID(1), Result: json.RawMessage(`{}`)}, Response},
		{"error with a code that is written as a fraction", `{"jsonrpc":"2.0","id":1,"error":{"code":-32000.0,"message":"m"},"elapsed":1}`,
			&Message{ID: IntID(1), Error: &Error{Code: -32000, Message: "m"}}, Response},
		{"escaped key and values", `{"\u006asonrpc":"2\u002e0","id":"\u0061","method":"p\u0069ng"}`,
			&Message{ID: StringID("a"), Method: "ping"}, Request},
		{"other members twice, in params and below", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","URI":1,"arguments":{"name":1,"Name":2,"name":3}}}`,
			&Message{ID: IntID(1), Method: "tools/call", Params: json.RawMessage(`{"name":"a","URI":1,"arguments":{"name":1,"Name":2,"name":3}}`)}, Request},
		{"a name twice where it names nothing", `{"jsonrpc":"2.0","id":1,"method":"x/y","params":{"name":1,"Name":2,"name":3}}`,
			&Message{ID: IntID(1), Method: "x/y", Params: json.RawMessage(`{"name":1,"Name":2,"name":3}`)}, Request},
		{"a key with an escape that is no params", `{"jsonrpc":"2.0","r\u0065sult":{"name":1,"name":2},"id":1}`,
			&Message{ID: IntID(1), Result: json.RawMessage(`{"name":1,"name":2}`)}, Response},
		{"minus zero is zero", `{"jsonrpc":"2.0","id":-0,"method":"m"}`, &Message{ID: IntID(0), Method: "m"}, Request},
		{"an id larger than any machine word", `{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"m"}`,
			&Message{ID: ID{"123456789012345678901234567890"}, Method: "m"}, Request},
		{"surrogate pair in the id", `{"jsonrpc":"2.0","id":"\ud83d\uDE00","method":"m"}`,
			&Message{ID: StringID("😀"), Method: "m"}, Request},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse([]byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got, cmpIDs); d != "" {
				t.Error(d)
			}
			if got.Kind() != tt.kind {
				t.Errorf("kind %d, want %d", got.Kind(), tt.kind)
			}
		})
	}
}

func TestParse_Rejects(t *testing.T) {
	deep := strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth)
	tests := []struct {
		name, in string
		code     int
	}{
		{"nothing", ``, CodeParse},
		{"cut off", `{"jsonrpc":"2.0","id":1,"method":"m"`, CodeParse},
		{"two messages", `{"jsonrpc":"2.0","method":"m"}{}`, CodeParse},
		{"a comma too many", `{"jsonrpc":"2.0","method":"m",}`, CodeParse},
		{"bytes that are not UTF-8", "{\"jsonrpc\":\"2.0\",\"method\":\"m\xff\"}", CodeParse},
		{"too deep", `{"jsonrpc":"2.0","method":"m","params":` + deep + `}`, CodeParse},
		{"very deep and never closed", strings.Repeat("[", 1<<20), CodeParse},
		{"an array", `[]`, CodeInvalidRequest},
		{"a string", `"x"`, CodeInvalidRequest},
		{"no version", `{"id":1,"method":"m"}`, CodeInvalidRequest},
		{"version 1.0", `{"jsonrpc":"1.0","id":1,"method":"m"}`, CodeInvalidRequest},
		{"version a number", `{"jsonrpc":2.0,"id":1,"method":"m"}`, CodeInvalidRequest},
		{"method twice", `{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}`, CodeInvalidRequest},
		{"method twice, once escaped", `{"jsonrpc":"2.0","id":1,"method":"a","\u006dethod":"b"}`, CodeInvalidRequest},
		{"params twice", `{"jsonrpc":"2.0","id":1,"method":"a","params":{},"params":{}}`, CodeInvalidRequest},
		{"id twice", `{"jsonrpc":"2.0","id":1,"method":"a","id":1}`, CodeInvalidRequest},
		{"another case (CVE-2026-27896)", `{"jsonrpc":"2.0","id":1,"method":"a","Method":"b"}`, CodeInvalidRequest},
		{"another case alone", `{"jsonrpc":"2.0","id":1,"METHOD":"b"}`, CodeInvalidRequest},
		{"long s, which folds to s", `{"jsonrpc":"2.0","id":1,"method":"a","param\u017f":{}}`, CodeInvalidRequest},
		{"NUL in the method", `{"jsonrpc":"2.0","id":1,"method":"a\u0000b"}`, CodeInvalidRequest},
		{"trailing NUL (GHSA-q382-vc8q-7jhj)", `{"jsonrpc":"2.0","id":1,"method":"a","method\u0000":"b"}`, CodeInvalidRequest},
		{"unknown key", `{"jsonrpc":"2.0","id":1,"method":"a","meta":{}}`, CodeInvalidRequest},
		{"unknown key before the method", `{"meta":{},"jsonrpc":"2.0","id":1,"method":"a"}`, CodeInvalidRequest},
		{"result in another case too", `{"jsonrpc":"2.0","id":1,"result":{},"Result":{}}`, CodeInvalidRequest},
		{"id in another case beside a result", `{"jsonrpc":"2.0","id":1,"ID":2,"result":{}}`, CodeInvalidRequest},
		{"error code a word", `{"jsonrpc":"2.0","id":1,"error":{"code":true,"message":"m"}}`, CodeInvalidRequest},
		{"empty key", `{"jsonrpc":"2.0","id":1,"method":"a","":{}}`, CodeInvalidRequest},
		{"request with id null", `{"jsonrpc":"2.0","id":null,"method":"a"}`, CodeInvalidRequest},
		{"fraction", `{"jsonrpc":"2.0","id":1.5,"method":"a"}`, CodeInvalidRequest},
		{"exponent", `{"jsonrpc":"2.0","id":1e-2,"method":"a"}`, CodeInvalidRequest},
		{"exponent beyond all reason", `{"jsonrpc":"2.0","id":1e999999999999999999999,"method":"a"}`, CodeInvalidRequest},
		{"id true", `{"jsonrpc":"2.0","id":true,"method":"a"}`, CodeInvalidRequest},
		{"half a surrogate pair", `{"jsonrpc":"2.0","id":"\ud800","method":"a"}`, CodeInvalidRequest},
		{"empty method", `{"jsonrpc":"2.0","id":1,"method":""}`, CodeInvalidRequest},
		{"method null", `{"jsonrpc":"2.0","id":1,"method":null}`, CodeInvalidRequest},
		{"params null", `{"jsonrpc":"2.0","id":1,"method":"a","params":null}`, CodeInvalidRequest},
		{"params a string", `{"jsonrpc":"2.0","id":1,"method":"a","params":"x"}`, CodeInvalidRequest},
		{"method and result", `{"jsonrpc":"2.0","id":1,"method":"a","result":{}}`, CodeInvalidRequest},
		{"neither result nor error", `{"jsonrpc":"2.0","id":1}`, CodeInvalidRequest},
		{"result and error", `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"m"}}`, CodeInvalidRequest},
		{"params without method", `{"jsonrpc":"2.0","id":1,"result":{},"params":{}}`, CodeInvalidRequest},
		{"result without id", `{"jsonrpc":"2.0","result":{}}`, CodeInvalidRequest},
		{"result with id null", `{"jsonrpc":"2.0","id":null,"result":{}}`, CodeInvalidRequest},
		{"error a string", `{"jsonrpc":"2.0","id":1,"error":"no"}`, CodeInvalidRequest},
		{"error without code", `{"jsonrpc":"2.0","id":1,"error":{"message":"m"}}`, CodeInvalidRequest},
		{"error code a fraction", `{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"m"}}`, CodeInvalidRequest},
		{"error without message", `{"jsonrpc":"2.0","id":1,"error":{"code":1}}`, CodeInvalidRequest},
		{"error code twice", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"code":2,"message":"m"}}`, CodeInvalidRequest},
		{"error code in another case", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"Code":2,"message":"m"}}`, CodeInvalidRequest},
		{"tool in another case", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","Name":"pid"}}`, CodeInvalidParams},
		{"tool in another case alone", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"NAME":"echo"}}`, CodeInvalidParams},
		{"tool twice", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{},"name":"b"}}`, CodeInvalidParams},
		{"tool twice, before the method", `{"params":{"name":"a","name":"b"},"jsonrpc":"2.0","id":1,"method":"tools/call"}`, CodeInvalidParams},
		{"tool twice, all escaped", `{"jsonrpc":"2.0","id":1,"method":"tools/call","p\u0061rams":{"name":"a","n\u0061me":"b"}}`, CodeInvalidParams},
		{"tool with a trailing NUL", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name\u0000":"b"}}`, CodeInvalidParams},
		{"tool with a leading NUL", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","\u0000name":"b"}}`, CodeInvalidParams},
		{"prompt in another case", `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"a","nAme":"b"}}`, CodeInvalidParams},
		{"URI twice", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a:b","uri":"a:c"}}`, CodeInvalidParams},
		{"URI in another case", `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"a:b","URI":"a:c"}}`, CodeInvalidParams},
		{"URI in another case, to unsubscribe", `{"jsonrpc":"2.0","id":1,"method":"resources/unsubscribe","params":{"uRi":"a:b"}}`, CodeInvalidParams},
		{"task twice, with the Kelvin sign and a long s", `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"a","ta\u017f\u212aId":"b"}}`, CodeInvalidParams},
		{"bad envelope and bad JSON: JSON counts", `{"Method":1,`, CodeParse},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := Parse([]byte(tt.in))
			if m != nil {
				t.Errorf("got a message beside the error: %+v", m)
			}
			var rpc *Error
			if !errors.As(err, &rpc) || rpc.Code != tt.code {
				t.Fatalf("got error %v, want code %d", err, tt.code)
			}
			if len(rpc.Message) > 300 {
				t.Errorf("message of %d bytes echoes hostile input", len(rpc.Message))
			}
		})
	}
}

func TestParseBatch(t *testing.T) {
	one := `{"jsonrpc":"2.0","id":1,"method":"m"}`
	many := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + "]" }
	tests := []struct {
		name, in string
		n        int
		batch    bool
		code     int // 0: accepted
	}{
		{"one message", one, 1, false, 0},
		{"batch of two", many(2), 2, true, 0},
		{"largest batch", many(MaxBatch), MaxBatch, true, 0},
		{"one too many", many(MaxBatch + 1), 0, true, CodeInvalidRequest},
		{"empty", `[]`, 0, true, CodeInvalidRequest},
		{"batch in a batch", `[[` + one + `]]`, 0, true, CodeInvalidRequest},
		{"one bad among good", `[` + one + `,{"jsonrpc":"2.0"}]`, 0, true, CodeInvalidRequest},
		{"cut off", `[` + one, 0, true, CodeParse},
		{"text after", many(1) + "x", 0, true, CodeParse},
		{"bad single", `{`, 0, false, CodeParse},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, batch, err := ParseBatch([]byte(tt.in))
			if batch != tt.batch || len(got) != tt.n {
				t.Errorf("got %d messages, batch %v; want %d, %v", len(got), batch, tt.n, tt.batch)
			}
			if code := codeOf(err); code != tt.code {
				t.Errorf("got error %v, want code %d", err, tt.code)
			}
		})
	}
}

func codeOf(err error) int {
	var rpc *Error
	if errors.As(err, &rpc) {
		return rpc.Code
	}
	return 0
}

func TestAppend_RoundTrip(t *testing.T) {
	in := "{\"jsonrpc\":\"2.0\",\"id\":\"a\\\"\\u0000<\",\"method\":\"m\\n\",\"params\":{\r\n \"a\" :\t\"x\\n\"\n}}"
	m, err := Parse([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	out := m.Encode()
	if strings.ContainsAny(string(out), "\r\n") {
		t.Errorf("line break in %q", out)
	}
	if !strings.Contains(string(m.Params), "{\r\n") {
		t.Errorf("Encode changed the bytes it was parsed from: %q", m.Params)
	}
	again, err := Parse(out)
	if err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	if again.ID != m.ID || again.Method != "m\n" {
		t.Errorf("got %+v", again)
	}
	if got, _, _ := LookupString(again.Params, "a"); got != "x\n" {
		t.Errorf("params changed: %q", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":1}}}`,
		`{"jsonrpc":"2.0","id":"\u0061","result":{}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"m","data":null}}`,
		`{"jsonrpc":"2.0","Method":"m"}`, `{"jsonrpc":"2.0","method\u0000":"m"}`, `[1,2e+9,-0.1,"\ud800",tru]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		end, err := skipValue(b, skipSpace(b, 0), 0)
		ok := err == nil && skipSpace(b, end) == len(b)
		if valid := json.Valid(b); ok != valid && !strings.Contains(errText(err), "nesting") {
			t.Fatalf("scanner returned %v (%v), encoding/json %v", ok, err, valid)
		}
		m, err := Parse(b)
		if err != nil {
			if (codeOf(err) != CodeParse && codeOf(err) != CodeInvalidRequest) || m != nil {
				t.Fatalf("error %v, message %v", err, m)
			}
			return
		}
		line := m.Encode()
		if strings.ContainsAny(string(line), "\n\r") {
			t.Fatalf("line break in %q", line)
		}
		again, err := Parse(line)
		if err != nil {
			t.Fatalf("%q does not parse: %v", line, err)
		}
		if d := cmp.Diff(m, again, cmpIDs, cmp.Comparer(sameJSON)); d != "" {
			t.Fatal(d)
		}
		assertNoFoldedKeys(t, b, m)
	})
}

// assertNoFoldedKeys reads b as encoding/json does, without regard to case, and
// demands that it sees what Parse saw.
func assertNoFoldedKeys(t *testing.T, b []byte, m *Message) {
	t.Helper()
	var loose struct {
		Method string
		Params json.RawMessage
		Result json.RawMessage
	}
	if err := json.Unmarshal(b, &loose); err != nil {
		t.Fatal(err)
	}
	if loose.Method != m.Method || string(loose.Params) != string(m.Params) || string(loose.Result) != string(m.Result) {
		t.Fatalf("encoding/json reads %+v, Parse %+v", loose, m)
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(b, &keys); err != nil {
		t.Fatal(err)
	}
	for k := range keys {
		if !strings.Contains(" jsonrpc id method params result error ", " "+k+" ") {
			t.Fatalf("accepted the key %q", k)
		}
	}
}

func sameJSON(a, b json.RawMessage) bool {
	if (a == nil) != (b == nil) {
		return false
	}
	flat := strings.NewReplacer("\n", " ", "\r", " ")
	return flat.Replace(string(a)) == flat.Replace(string(b))
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

var benchCall = []byte(`{"jsonrpc":"2.0","id":42,"method":"tools/call","params":{"name":"search","arguments":{"query":"how to fold a paper crane","limit":10,"tags":["a","b"]},"_meta":{"progressToken":"p1"}}}`)

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(benchCall)))
	for b.Loop() {
		if _, err := Parse(benchCall); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseLarge(b *testing.B) {
	large := []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + strings.Repeat("lorem ipsum ", 1<<16) + `"}]}}`)
	b.ReportAllocs()
	b.SetBytes(int64(len(large)))
	for b.Loop() {
		if _, err := Parse(large); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkParseLargeCall is a tools/call with many arguments.
func BenchmarkParseLargeCall(b *testing.B) {
	large := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{"rows":[` +
		strings.TrimSuffix(strings.Repeat(`{"name":"lorem","value":1.25,"tags":["a","b"]},`, 1<<14), ",") + `]},"name":"insert"}}`)
	b.ReportAllocs()
	b.SetBytes(int64(len(large)))
	for b.Loop() {
		if _, err := Parse(large); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	m, err := Parse(benchCall)
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = m.Append(buf[:0])
	}
}

func BenchmarkLookup(b *testing.B) {
	m, err := Parse(benchCall)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Lookup(m.Params, "_meta", "progressToken"); err != nil {
			b.Fatal(err)
		}
	}
}

func TestAsID(t *testing.T) {
	for in, want := range map[string]ID{`1`: IntID(1), `"\u0061"`: StringID("a"), `-0`: IntID(0)} {
		if got, ok := AsID(json.RawMessage(in)); !ok || got != want {
			t.Errorf("%s: %v, %v", in, got, ok)
		}
	}
	for _, in := range []string{``, `null`, `1.5`, `{}`, `1 `, `"a`} {
		if got, ok := AsID(json.RawMessage(in)); ok {
			t.Errorf("%s: accepted as %v", in, got)
		}
	}
}
