package owner

import (
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/workload"
)

// Each row is what listens at a second of the start, and what is reported then.
func TestASlowStartIsReportedEarly(t *testing.T) {
	type row struct {
		second int
		ports  []int
		known  string
		gone   string
	}
	for what, c := range map[string]struct {
		transport workload.Transport
		rows      []row
	}{
		"it listens nowhere": {workload.StreamableHTTP, []row{
			{0, nil, "", ""}, {4, nil, "", ""},
			{5, nil, "nothing listens on port 8080 yet", ""},
			{59, nil, "nothing listens on port 8080 yet", ""},
			{60, []int{8080}, "something listens on port 8080, but has not answered yet", ""},
		}},
		"it listens elsewhere": {workload.SSE, []row{
			{0, nil, "", ""}, {1, []int{3001}, "", ""},
			{5, []int{3001}, "nothing listens on port 8080 yet, but on port 3001", ""},
			{15, []int{3001}, "nothing listens on port 8080 yet, but on port 3001", ""},
			{16, []int{3001}, "", "listens on port 3001 and not on 8080; run it with --target-port 3001"},
		}},
		"it takes long, and opens a port beside": {workload.StreamableHTTP, []row{
			{0, nil, "", ""}, {40, []int{9229}, "nothing listens on port 8080 yet, but on port 9229", ""},
			{50, []int{8080, 9229}, "something listens on port 8080, but has not answered yet", ""},
			{59, []int{9229}, "nothing listens on port 8080 yet, but on port 9229", ""},
		}},
		"it changes its mind": {workload.StreamableHTTP, []row{
			{0, []int{3001}, "", ""}, {14, []int{3002}, "nothing listens on port 8080 yet, but on port 3002", ""},
			{28, nil, "nothing listens on port 8080 yet", ""}, {29, []int{3002}, "nothing listens on port 8080 yet, but on port 3002", ""},
			{43, []int{3002}, "nothing listens on port 8080 yet, but on port 3002", ""},
			{44, []int{3002}, "", "--target-port 3002"},
		}},
		"it listens on two others": {workload.StreamableHTTP, []row{
			{0, []int{1, 2}, "", ""}, {59, []int{1, 2}, "nothing listens on port 8080 yet, but on ports 1 and 2", ""},
		}},
		"it is to speak on its output": {workload.Stdio, []row{
			{0, nil, "", ""}, {5, nil, "no answer on the server's standard output yet", ""},
			{30, []int{1, 2}, "no answer on the server's standard output yet", ""},
			{31, []int{3001}, "no answer on the server's standard output yet; it listens on port 3001 (if it serves HTTP there: --transport streamable-http --target-port 3001)", ""},
			{59, []int{3001}, "no answer on the server's standard output yet; it listens on port 3001 (if it serves HTTP there: --transport streamable-http --target-port 3001)", ""},
		}},
	} {
		p := &slowStart{transport: c.transport, target: 8080, whole: time.Minute}
		start := time.Now()
		for _, r := range c.rows {
			known, gone := p.look(start.Add(time.Duration(r.second)*time.Second), r.ports)
			if known != r.known {
				t.Errorf("%s: after %d s: %q, want %q", what, r.second, known, r.known)
			}
			if (gone == nil) != (r.gone == "") || gone != nil && !strings.Contains(gone.Error(), r.gone) {
				t.Errorf("%s: after %d s: given up on with %v, want %q", what, r.second, gone, r.gone)
			}
		}
	}
}
