package workload

import (
	"cmp"
	"fmt"
	"strings"
)

// SharedNetwork is the one network of containers that may reach out. Containers
// on it cannot reach each other.
const SharedNetwork = "thv"

// NoNetwork is what a container is on that may reach nothing.
const NoNetwork = "none"

// NetworkName is the engine's name of the network the Spec asks for.
func (s *Spec) NetworkName() string {
	switch mode := s.networkMode(); mode {
	case "", "bridge", "default":
	default:
		return mode
	}
	// Nothing may be reached: no network is the one that cannot fail open.
	// Published ports need one all the same.
	if s.mayReachNothing() && len(s.Container.Publish) == 0 {
		return NoNetwork
	}
	return SharedNetwork
}

// networkMode is what the person, or else the profile, calls the network.
func (s *Spec) networkMode() string {
	mode := ""
	if n := s.Container.Permissions.Network; n != nil {
		mode = n.Mode
	}
	return cmp.Or(s.Container.Network, mode)
}

func (s *Spec) mayReachNothing() bool {
	n := s.Container.Permissions.Network
	return n == nil || n.Outbound == nil ||
		!n.Outbound.InsecureAllowAll && len(n.Outbound.AllowHost) == 0 && len(n.Outbound.AllowPort) == 0
}

// Unenforced says what of the permission profile nothing enforces, because
// --isolate-network is off, in sentences for the person who runs the workload;
// whose is who gave the profile. It is nothing when the profile limits nothing,
// or when there is no network.
func (s *Spec) Unenforced(whose string) []string {
	n := s.Container.Permissions.Network
	if s.Remote != nil || s.NetworkName() == NoNetwork {
		return nil
	}
	const reach = "enforced only with --isolate-network, so the server can reach any address"
	var notes []string
	if s.mayReachNothing() {
		why := "-p"
		if mode := s.networkMode(); mode != "" {
			why = "the network " + mode
		}
		return append(notes, fmt.Sprintf("%s allows the server no connections, but %s gives it a network; that is %s", whose, why, reach))
	}
	if out := n.Outbound; !out.InsecureAllowAll {
		what := "any host"
		if len(out.AllowHost) > 0 {
			what = strings.Join(out.AllowHost, ", ")
		}
		if len(out.AllowPort) > 0 {
			what += " on ports " + strings.Trim(strings.Join(strings.Fields(fmt.Sprint(out.AllowPort)), ", "), "[]")
		}
		notes = append(notes, fmt.Sprintf("%s lists where this server may connect to (%s); that is %s", whose, what, reach))
	}
	if in := n.Inbound; in != nil && len(in.AllowHost) > 0 {
		notes = append(notes, fmt.Sprintf("%s lists under which names the server may be reached (%s); that is enforced only with --isolate-network, and the gateway accepts local clients", whose, strings.Join(in.AllowHost, ", ")))
	}
	return notes
}
