package owner

import (
	"cmp"
	"os"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/guest"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// setUp is cfg with what the guest does before the server starts: it isolates the
// container's network, or shuts it.
func setUp(cfg container.Config, image container.Image, isolate bool) container.Config {
	if !isolate {
		return shut(cfg, image)
	}
	first := firstSteps(cfg, image)
	first.Isolate = true
	cfg.IPv6 = cfg.Network == workload.NoNetwork && kernelHasIPv6()
	return withSteps(cfg, first)
}

// kernelHasIPv6 reports whether this machine's kernel has IPv6. An engine elsewhere keeps
// its default.
func kernelHasIPv6() bool {
	_, err := os.Stat("/proc/sys/net/ipv6/conf/all/disable_ipv6")
	return err == nil
}

// shut is cfg with the guest closing the container's network, before the server
// starts, to everything that comes from outside, but to the ports that the person
// publishes: a server that listens on all addresses could be reached there around
// the gateway. What the container itself begins goes on working.
//
// It is not done on the network of the host or of another container, and in a privileged
// container, which could open it again; nor where there is nothing to close, unless
// the guest has to give a name to the user that we run the server as. What the
// guest cannot close, because the kernel or the engine does not allow it, it reports in
// the server's log; exposed checks then whether the server is reachable.
func shut(cfg container.Config, image container.Image) container.Config {
	alone := cfg.Network == workload.NoNetwork
	if cfg.Privileged || !container.OwnNetwork(cfg.Network) || alone && cfg.User == "" {
		return cfg
	}
	first := firstSteps(cfg, image)
	first.Alone = alone
	return withSteps(cfg, first)
}

func firstSteps(cfg container.Config, image container.Image) guest.SetUp {
	first := guest.SetUp{
		User: cmp.Or(cfg.User, image.User),
		Home: slices.ContainsFunc(slices.Concat(image.Env, cfg.Env), func(v string) bool { return strings.HasPrefix(v, "HOME=") }),
	}
	for _, p := range cfg.Publish {
		first.Open = append(first.Open, uint16(p.ContainerPort)) // 1 to 65535: workload.Validate
	}
	return first
}

func withSteps(cfg container.Config, first guest.SetUp) container.Config {
	cfg.SetUp = true
	cfg.Args = append([]string{first.Arg()}, cfg.Args...)
	return cfg
}
