package doctorcmd

import (
	"testing"

	"github.com/toolhaven/toolhaven/internal/workload"
)

func TestAfterwards(t *testing.T) {
	for _, c := range []struct {
		st   workload.Status
		want string
	}{
		{workload.Status{Name: "x", State: workload.Degraded, Port: 1}, "see `thv logs x` and `thv logs --proxy x`"},
		{workload.Status{Name: "x", State: workload.Degraded, Port: 1, Remote: true}, "see `thv logs --proxy x`"},
		{workload.Status{Name: "x", State: workload.Failed, Reason: "its configuration is lost"}, ""},
	} {
		if got := afterwards(&c.st); got != c.want {
			t.Errorf("%+v: %q", c.st, got)
		}
	}
}
