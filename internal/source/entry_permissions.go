package source

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/runflag"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// usePermissions takes over an entry's permission profile as far as it takes
// away; what it would add needs the person.
func (r *Resolution) usePermissions(req Request, raw json.RawMessage) error {
	if len(raw) == 0 || req.Permissions {
		return nil
	}
	var p workload.Permissions
	if err := runflag.DecodeStrict(raw, &p); err != nil {
		return fmt.Errorf("its permissions: %w", err)
	}
	const own = "if you want it, give a --permission-profile FILE that says so"
	if p.Privileged {
		return fmt.Errorf("it asks for a privileged container, which is not made on a registry's word; %s", own)
	}
	if mounts := slices.Concat(p.Write, p.Read); len(mounts) > 0 {
		if !req.Mounts {
			return fmt.Errorf("it asks for the mounts %s, which are not made on a registry's word; if you want them, give them yourself with -v HOST:CONTAINER", strings.Join(mounts, ", "))
		}
		r.notice("the registry's own mounts (%s) are not made; yours are", strings.Join(mounts, ", "))
		p.Read, p.Write = nil, nil
	}
	if n := p.Network; n != nil {
		switch n.Mode {
		case "", "bridge", "default", "none":
		default:
			if !req.Network {
				return fmt.Errorf("it asks for the network %q, which is not joined on a registry's word; if you want it, add --network %s", n.Mode, n.Mode)
			}
			n.Mode = ""
		}
	}
	r.Spec.Container.Permissions = p
	return nil
}
