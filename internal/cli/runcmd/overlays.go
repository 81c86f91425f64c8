package runcmd

import (
	"context"
	"fmt"
	"strings"

	"github.com/toolhaven/toolhaven/internal/overlay"
	"github.com/toolhaven/toolhaven/internal/plaintext"
)

// resolveOverlays checks the mounts and finds what the ignore files hide in the mounts, as the workload's process
// does at each start, so that a fault is an error here. It prints that with
// --print-resolved-overlays, and notes files that look like secrets and are visible.
func resolveOverlays(ctx context.Context, o *options, d *draft) (*overlay.Result, error) {
	store, err := o.app.Store()
	if err != nil {
		return nil, err
	}
	if err := store.CheckMounts(d.spec.Container.Mounts); err != nil {
		return nil, err
	}
	paths, err := o.app.Hidden()
	if err != nil {
		return nil, err
	}
	found, err := paths.Resolve(ctx, &d.spec.Container)
	if err != nil {
		return nil, err
	}
	if o.printOverlays {
		if len(found.Hidden) == 0 {
			fmt.Fprintln(o.app.Err, "no path is hidden from the server")
		}
		for _, h := range found.Hidden {
			path := h.Path
			if h.Dir {
				path += "/"
			}
			fmt.Fprintln(o.app.Err, plaintext.Line(fmt.Sprintf("hidden: %s (%s)", path, h.Rule)))
		}
	}
	if len(found.Exposed) > 0 {
		d.notices = append(d.notices, fmt.Sprintf("the server can read files that look like secrets: %s; a pattern in a file %s of the mount, or in %s, hides them",
			strings.Join(found.Exposed, ", "), overlay.FileName, paths.Global))
	}
	return found, nil
}
