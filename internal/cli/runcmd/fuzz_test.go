package runcmd

import (
	"encoding/json"
	"testing"

	"github.com/toolhaven/toolhaven/internal/workload"
)

// Any file is refused, or what was read of it is read again the same.
func FuzzDecodeExport(f *testing.F) {
	f.Add([]byte(`{"schema":"toolhaven.dev/run/v1","name":"a","source":{"kind":"image","ref":"i"},"image":"i","transport":"stdio","proxy":{"host":"127.0.0.1","port":1,"mode":"sse"}}`))
	f.Add([]byte(`{"schema_version":"v0.1.0","name":"a","image":"i","transport":"sse","port":1,"target_port":2,"env_vars":{"A":"1"}}`))
	f.Add([]byte(`{"schema":"toolhaven.dev/run/v1","schema":"x"}`))
	f.Add([]byte(`{"schema_version":"v0.1.0","name":"a","image":"i","transport":"stdio","port":1,"tools_filter":["b"],"tools_override":{"a":{"name":"b"}}}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		spec, _, err := decodeExport(content)
		if err != nil {
			return
		}
		if spec.Schema != workload.Schema {
			t.Fatalf("schema %q was read", spec.Schema)
		}
		if workload.Validate(spec) != nil {
			return
		}
		b, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := decodeExport(b)
		if err != nil {
			t.Fatalf("%s is not read back: %v", b, err)
		}
		if c, _ := json.Marshal(again); string(c) != string(b) {
			t.Fatalf("read back differently:\n%s\n%s", b, c)
		}
	})
}
