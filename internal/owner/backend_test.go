package owner

import (
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/workload"
)

// The authorities of --thv-ca-bundle are for the requests to a remote server too.
func TestRemote_CABundle(t *testing.T) {
	t.Parallel()
	spec := &workload.Spec{Remote: &workload.Remote{URL: "https://x.example/mcp"}, Transport: workload.StreamableHTTP, CABundle: "/nowhere/ca.pem"}
	if _, err := (&owner{spec: spec}).remote(); err == nil || !strings.Contains(err.Error(), "/nowhere/ca.pem") {
		t.Errorf("got %v", err)
	}
}
