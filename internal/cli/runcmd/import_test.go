package runcmd

import (
	"strings"
	"testing"
)

func TestDecodeExport(t *testing.T) {
	const good = `{"schema":"toolhaven.dev/run/v1","name": "a","source":{"kind":"image","ref":"i:1"},
"image": "i:1","transport":"stdio","proxy":{"host":"127.0.0.1","port": 20001,"mode":"streamable-http"}}`
	if _, _, err := decodeExport([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for change, want := range map[[2]string]string{
		{`"image": "i:1"`, `"imgae": "i:1"`}:             `did you mean "image"?`,
		{"toolhaven.dev/run/v1", "toolhaven.dev/run/v9"}: "run/v9",
		{`"port": 20001`, `"port": "x"`}:                 "line",
		{`"name": "a",`, `"name": "a", "name": "b",`}:    "twice",
	} {
		if _, _, err := decodeExport([]byte(strings.Replace(good, change[0], change[1], 1))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", change, err)
		}
	}
}
