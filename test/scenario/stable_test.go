//go:build integration

package scenario

import (
	"fmt"
	"testing"
)

// A client's configuration has the URL: no operation on a workload may change it.
func TestURLsOfThirtyWorkloadsStayTheSame(t *testing.T) {
	p := goTestPlace(t)
	addr, end, err := startProbe("-http")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	remote := "http://" + addr + "/mcp"
	urls := map[string]string{}
	seen := map[string]string{}
	for i := range 30 {
		name := fmt.Sprintf("workload-%d", i)
		urls[name] = p.start(t, remote, "--name", name)
		if other := seen[urls[name]]; other != "" {
			t.Fatalf("%s and %s have one URL: %s", name, other, urls[name])
		}
		seen[urls[name]] = name
	}
	same := func(after string) {
		t.Helper()
		for name, url := range urls {
			if st := p.status(t, name); st.URL != url || st.State != "running" {
				t.Errorf("after %s: %s is %s at %s; want running at %s", after, name, st.State, st.URL, url)
			}
		}
	}
	p.thv(t, "stop", "--all")
	p.thv(t, "start", "--all")
	same("stop and start")
	p.thv(t, "restart", "--all")
	same("restart")
	p.thv(t, "rm", "--all")
	// In another order, so that a port cannot come from the order.
	for i := 29; i >= 0; i-- {
		name := fmt.Sprintf("workload-%d", i)
		p.start(t, remote, "--name", name)
	}
	same("rm and run")
}
