package render

import "testing"

func TestCounted(t *testing.T) {
	for n, want := range []string{"0 workloads", "1 workload", "2 workloads"} {
		if got := Counted(n, "workload"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
