package owner

import (
	"bytes"
	"context"
	"os"
	"strings"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/guest"
	"github.com/toolhaven/toolhaven/internal/manager"
)

// verified is cfg with the guest checking the mounts before anything else runs.
func verified(cfg container.Config, mounts []guest.Mounted) (container.Config, error) {
	if len(mounts) == 0 {
		return cfg, nil
	}
	first, rest := &guest.SetUp{Plain: true}, cfg.Args
	if cfg.SetUp {
		var err error
		if first, rest, err = guest.ParseSetUp(cfg.Args); err != nil {
			return cfg, err
		}
	}
	first.Mounts = mounts
	cfg.Args = append([]string{first.Arg()}, rest...)
	return cfg, nil
}

// mounted is what the guest is to find at the mounts; nil if there is nothing to check, or the
// engine's kernel is not this one: a path has other numbers there.
func (s *instance) mounted(ctx context.Context, pins manager.Pins) ([]guest.Mounted, error) {
	if len(pins) == 0 {
		return nil, nil
	}
	info, err := s.engine.Info(ctx)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(info.Socket, "unix://") || info.Kernel != kernelRelease() {
		s.log.Debug("the engine is in a machine of its own, so that its mounts cannot be compared", "kernel", info.Kernel)
		return nil, nil
	}
	var mounts []guest.Mounted
	for _, p := range pins {
		mounts = append(mounts, guest.Mounted{Path: p.Target, Device: p.Device, Inode: p.Inode})
	}
	return mounts, nil
}

// kernelRelease is the version of this machine's kernel, as engines report theirs; "" where it
// is not Linux.
func kernelRelease() string {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(release))
}
