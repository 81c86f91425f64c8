//go:build integration

package enginetest

import (
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/container"
)

// setUp: CAP_CHOWN 0, CAP_SETGID 6, CAP_SETUID 7, CAP_SETPCAP 8 and CAP_NET_ADMIN
// 12 (capabilities(7)).
func (s *suite) setUp(t *testing.T) {
	if err := s.engine.EnsureNetwork(t.Context(), Network); err != nil {
		t.Fatal(err)
	}
	status := s.output(t, func(c *container.Config) { c.Network, c.SetUp = Network, true }, "cat", "/proc/self/status")
	for _, want := range []string{"Uid:\t0\t", "Gid:\t0\t", "CapEff:\t00000000000011c1\n", "CapPrm:\t00000000000011c1\n", "CapBnd:\t00000000000011c1\n", "NoNewPrivs:\t1"} {
		if !strings.Contains(status, want) {
			t.Errorf("from inside, %q is not so:\n%s", want, status)
		}
	}
}

func (s *suite) setUpNotOurs(t *testing.T) {
	for _, c := range []container.Config{{Network: "host"}, {Network: ""}, {Network: Network, Privileged: true}} {
		c.Name, c.Image, c.SetUp = "thv-enginetest-setup", s.ref, true
		if id, err := s.engine.Create(t.Context(), c); err == nil {
			t.Errorf("network %q, privileged %t: container %s was made", c.Network, c.Privileged, id)
			s.engine.Remove(t.Context(), id)
		}
	}
}
