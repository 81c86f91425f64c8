package translate

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
)

// What a server asks is read as encoding/json would read it, or refused, and what
// is sent back is JSON.
func FuzzInputRequired(f *testing.F) {
	f.Add([]byte(`{"resultType":"input_required","requestState":"s","inputRequests":{"a":{"method":"roots/list"}}}`))
	f.Add([]byte(`{"inputRequests":{"a":{"method":1}}}`))
	f.Fuzz(func(t *testing.T, result []byte) {
		if !json.Valid(result) {
			return
		}
		in, err := readInputRequired(result)
		if err != nil {
			return
		}
		if len(in.requests) > wire.MaxServerRequests+1 || len(in.requests) == 0 && in.state == nil && !strings.Contains(string(result), "inputRequests") {
			t.Fatalf("%q: %+v", result, in)
		}
		var want struct {
			InputRequests map[string]struct{ Method string } `json:"inputRequests"`
			RequestState  *string                            `json:"requestState"`
		}
		if err := json.Unmarshal(result, &want); err != nil {
			return
		}
		if len(want.InputRequests) != len(in.requests) || (want.RequestState != nil) != (in.state != nil) {
			t.Fatalf("%q: %+v, encoding/json reads %+v", result, in, want)
		}
		for _, q := range in.requests {
			if want.InputRequests[q.key].Method != q.method {
				t.Fatalf("%q: %+v", result, q)
			}
		}
		answers := map[string]json.RawMessage{}
		for _, q := range in.requests {
			answers[q.key] = json.RawMessage(`{}`)
		}
		params, err := in.again(json.RawMessage(`{"name":"x"}`), answers)
		if err != nil || !json.Valid(params) {
			t.Fatalf("%q: %q, %v", result, params, err)
		}
	})
}
