package owner

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/guest"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// Every container's mounts are checked, whether its guest sets anything else up or not.
func TestVerified(t *testing.T) {
	mounts := []guest.Mounted{{Path: "/work", Device: 1, Inode: 2}}
	for name, row := range map[string]struct {
		cfg   container.Config
		plain bool
	}{
		"a network of its own": {container.Config{Network: "thv"}, false},
		"no network":           {container.Config{Network: workload.NoNetwork}, true},
		"the host's network":   {container.Config{Network: "host"}, true},
		"privileged":           {container.Config{Network: "thv", Privileged: true}, true},
	} {
		cfg := setUp(row.cfg, container.Image{}, false)
		cfg.Args = append(cfg.Args, "shortcut")
		cfg, err := verified(cfg, mounts)
		if err != nil {
			t.Fatal(err)
		}
		first, rest, err := guest.ParseSetUp(cfg.Args)
		if err != nil || first == nil {
			t.Errorf("%s: %v, %v", name, first, err)
			continue
		}
		if diff := cmp.Diff(mounts, first.Mounts); diff != "" || first.Plain != row.plain || cmp.Diff([]string{"shortcut"}, rest) != "" {
			t.Errorf("%s: %+v, %q", name, first, rest)
		}
	}
	if cfg, err := verified(container.Config{}, nil); err != nil || len(cfg.Args) > 0 {
		t.Errorf("without mounts: %q, %v", cfg.Args, err)
	}
}
