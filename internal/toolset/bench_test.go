package toolset

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// thousandTools is a ListToolsResult of the size that real servers send: about 500 bytes for
// each tool.
func thousandTools() json.RawMessage {
	var b strings.Builder
	b.WriteString(`{"tools":[`)
	for i := range 1000 {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `{"name":"tool-%d","title":"Tool %d","description":"Reads the %dth entry of the archive and returns it as text, with all of its attachments.",`+
			`"inputSchema":{"type":"object","properties":{"path":{"type":"string","description":"where the entry is"},"depth":{"type":"integer","minimum":0,"maximum":9},`+
			`"format":{"type":"string","enum":["text","json","html"]}},"required":["path"],"additionalProperties":false},"annotations":{"readOnlyHint":true,"openWorldHint":false}}`, i, i, i)
	}
	b.WriteString(`],"nextCursor":"1000"}`)
	return json.RawMessage(b.String())
}

// The bound for a list of 1,000 tools is 2 ms.
func BenchmarkList_1000Tools(b *testing.B) {
	result := thousandTools()
	cfg := Config{Overrides: map[string]Override{}}
	for i := range 500 {
		cfg.Filter = append(cfg.Filter, fmt.Sprintf("tool-%d", 2*i))
	}
	for i := range 50 {
		cfg.Overrides[fmt.Sprintf("tool-%d", 2*i)] = Override{Description: "another description"}
	}
	s := New(cfg, slog.New(slog.DiscardHandler))
	b.SetBytes(int64(len(result)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.list(result); err != nil {
			b.Fatal(err)
		}
	}
}
