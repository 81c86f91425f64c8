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
	const own = "if you need it, give a --permission-profile FILE with it"
	if p.Privileged {
		return fmt.Errorf("its entry requests a privileged container, which a registry may not decide; %s", own)
	}
	if mounts := slices.Concat(p.Write, p.Read); len(mounts) > 0 {
		if !req.Mounts {
			return fmt.Errorf("its entry requests the mounts %s, which a registry may not decide; if you need them, give them yourself with -v HOST:CONTAINER", strings.Join(mounts, ", "))
		}
		r.notice("the registry's own mounts (%s) are not made; yours are", strings.Join(mounts, ", "))
		p.Read, p.Write = nil, nil
	}
	if n := p.Network; n != nil {
		switch n.Mode {
		case "", "bridge", "default", "none":
		default:
			if !req.Network {
				return fmt.Errorf("its entry requests the network %q, which a registry may not decide; if you need it, add --network %s", n.Mode, n.Mode)
			}
			n.Mode = ""
		}
	}
	r.Spec.Container.Permissions = p
	return nil
}
