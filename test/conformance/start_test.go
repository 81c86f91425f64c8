package main

import (
	"strings"
	"testing"
)

// A gateway that does not start is an error of its cell, not of the whole run.
func TestStart_GatewayFails(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	h := &harness{thv: "/bin/false"}
	_, _, err := h.start(t.Context(), cell{harness: session, backend: backend{image: nodeImage}, gateway: true}, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "thv run "+nodeImage) {
		t.Errorf("start returned %v", err)
	}
}
