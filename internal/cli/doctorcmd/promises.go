package doctorcmd

import (
	"context"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/owner"
)

// examinePromises reports for each promise of docs/security.md whether the engine and the
// kernel enforce it.
func examinePromises(ctx context.Context, engine container.Engine, info container.Info) []check {
	checks := []check{networkPromise(ctx, engine)}
	checks = append(checks, staticPromises(info)...)
	for i := range checks {
		checks[i].Name, checks[i].Promise = "  "+checks[i].Name, true
	}
	return checks
}

// networkPromise tries the packet filter in a container. The same filter closes the network
// of every container from outside.
func networkPromise(ctx context.Context, engine container.Engine) check {
	c := check{Name: "network isolation", OK: true, Found: "tried in a container: its connections are redirected and closed"}
	if err := owner.TryIsolation(ctx, engine); err != nil {
		c.OK, c.Found = false, err.Error()
		c.Advice = "the kernel needs nf_tables (modprobe nf_tables nft_redir), and the engine must grant CAP_NET_ADMIN within the container's own network; --isolate-network fails until then, and --network none needs neither"
	}
	return c
}

// staticPromises are those that the engine's own description decides.
func staticPromises(info container.Info) []check {
	has := func(name string) (string, bool) {
		i := slices.IndexFunc(info.Security, func(opt string) bool { return opt == name || strings.HasPrefix(opt, name+",") })
		if i < 0 {
			return "", false
		}
		return info.Security[i], true
	}
	capabilities := check{Name: "capabilities", OK: true, Found: "all are dropped, and none can be gained (no_new_privs)"}

	seccomp := check{Name: "system calls", OK: true}
	var ok bool
	if seccomp.Found, ok = has("seccomp"); !ok || strings.Contains(seccomp.Found, "unconfined") {
		seccomp.OK, seccomp.Found = false, "the engine filters no system calls (seccomp)"
		seccomp.Advice = "start the engine with its default seccomp profile, on a kernel with CONFIG_SECCOMP_FILTER"
	}
	user := check{Name: "user", OK: true}
	_, remapped := has("userns")
	switch {
	case info.Rootless:
		user.Found = "the engine runs without privileges: root in a container is you outside"
	case remapped:
		user.Found = "root in a container is an unprivileged user outside (userns-remap)"
	default:
		user.Found = "a server runs as its image's user; root of an image is root outside, without capabilities"
		user.Advice = "a rootless engine, or userns-remap, makes it an unprivileged user"
	}
	limits := check{Name: "limits", OK: true, Found: "memory, processes and processors are limited (cgroup " + info.Cgroup + ")"}
	var missing []string
	for _, l := range []struct {
		name string
		can  bool
	}{{"memory", info.LimitsMemory}, {"processes", info.LimitsProcesses}, {"processors", info.LimitsCPUs}} {
		if !l.can {
			missing = append(missing, l.name)
		}
	}
	if len(missing) > 0 {
		limits.OK, limits.Found = false, "the engine cannot limit "+strings.Join(missing, ", ")
		limits.Advice = "use cgroup version 2 and delegate its controllers to the engine"
	}
	disk := check{Name: "disk", OK: true, Found: "what a server writes in its container is measured, and one over its limit is stopped (--disk-limit)"}
	if info.DiskQuota {
		disk.Found += "; the engine's storage (" + info.Storage + ") can bound its layer as well"
	}
	hidden := check{Name: "hidden paths", OK: true, Found: "empty files and directories are mounted over them"}
	if !strings.HasPrefix(info.Socket, "unix://") {
		hidden.OK, hidden.Found = false, "the engine at "+info.Socket+" may be on another machine, whose paths are not looked at"
		hidden.Advice = "use an engine on this machine"
	}
	verification := check{Name: "image verification", OK: true, Found: "built in; it needs no other program"}
	return []check{capabilities, seccomp, user, limits, disk, hidden, verification}
}
