package workload

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/egress"
)

// SharedNetwork is the one network of containers that may connect out. Containers
// on it cannot reach each other.
const SharedNetwork = "thv"

// NoNetwork is the network of a container that may connect to nothing.
const NoNetwork = "none"

// NetworkName is the engine's name of the network that the Spec requests.
func (s *Spec) NetworkName() string {
	if !onBridge(s) {
		return networkMode(s)
	}
	// The owner makes the connections of an isolated server.
	if s.Isolated() && len(s.Container.Publish) == 0 {
		return NoNetwork
	}
	// Nothing may be reached: having no network is the limit that cannot fail
	// open. Published ports need a network all the same.
	if mayReachNothing(s) && len(s.Container.Publish) == 0 {
		return NoNetwork
	}
	return SharedNetwork
}

// networkMode is the network of the flag --network, or else of the profile.
func networkMode(s *Spec) string {
	mode := ""
	if n := s.Container.Permissions.Network; n != nil {
		mode = n.Mode
	}
	return cmp.Or(s.Container.Network, mode)
}

// onBridge reports whether the container has a network that is Toolhaven's choice.
func onBridge(s *Spec) bool {
	mode := networkMode(s)
	return mode == "" || mode == "bridge" || mode == "default"
}

// Isolated reports whether the owner decides about each connection of the server. A
// container with the network mode none has no connections.
func (s *Spec) Isolated() bool {
	return s.Remote == nil && s.Container.IsolateNetwork && onBridge(s)
}

// Egress is what an isolated server may connect to, without the engine's gateway.
// Nothing is allowed without hosts and insecure_allow_all, whatever the ports.
func (s *Spec) Egress() egress.Config {
	cfg := egress.Config{AllowGateway: s.Container.AllowDockerGateway}
	if n := s.Container.Permissions.Network; n != nil && n.Outbound != nil {
		cfg.AllowAll, cfg.Hosts, cfg.Ports = n.Outbound.InsecureAllowAll, n.Outbound.AllowHost, n.Outbound.AllowPort
	}
	return cfg
}

// validateIsolation checks the network of a Spec with IsolateNetwork or
// AllowDockerGateway.
func validateIsolation(s *Spec) error {
	c := s.Container
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.AllowDockerGateway && !c.IsolateNetwork {
		add("allow-docker-gateway applies only with isolate-network")
	}
	if !c.IsolateNetwork {
		return errors.Join(errs...)
	}
	if mode := networkMode(s); !onBridge(s) && mode != NoNetwork {
		add("isolate-network: the network %q is not one that can be isolated; leave --network out", mode)
	}
	if c.Permissions.Privileged {
		add("isolate-network: a privileged container could open its network again")
	}
	allowed := s.Egress()
	if err := allowed.Validate(); err != nil {
		add("isolate-network: permissions: %w", err)
	}
	return errors.Join(errs...)
}

func mayReachNothing(s *Spec) bool {
	n := s.Container.Permissions.Network
	return n == nil || n.Outbound == nil ||
		!n.Outbound.InsecureAllowAll && len(n.Outbound.AllowHost) == 0 && len(n.Outbound.AllowPort) == 0
}

// A NetworkRule is one sentence about what the server may reach, or under which
// names it may be reached: "connects to pypi.org on ports 443". Only an enforced one
// is true of the running server; the others are requests of the permission profile.
type NetworkRule struct {
	Text     string
	Enforced bool
}

// NetworkRules describes the network of the Spec's container, for a person. A remote
// server has none. Two limits are enforced: to have no network at all, and those of an
// isolated network. A list of hosts or ports is not otherwise.
func (s *Spec) NetworkRules() []NetworkRule {
	n := s.Container.Permissions.Network
	switch {
	case s.Remote != nil:
		return nil
	case s.Isolated():
		return isolatedRules(s)
	case s.NetworkName() == NoNetwork:
		return []NetworkRule{{Text: "connects to nothing", Enforced: true}}
	case mayReachNothing(s):
		return []NetworkRule{{Text: "connects to nothing"}}
	}
	rules := []NetworkRule{{Text: "connects to any address", Enforced: true}}
	if out := n.Outbound; !out.InsecureAllowAll {
		what := "any host"
		if len(out.AllowHost) > 0 {
			what = strings.Join(out.AllowHost, ", ")
		}
		if len(out.AllowPort) > 0 {
			what += " on ports " + portList(out.AllowPort)
		}
		rules[0] = NetworkRule{Text: "connects to " + what}
	}
	return append(rules, inboundRules(s)...)
}

func inboundRules(s *Spec) []NetworkRule {
	n := s.Container.Permissions.Network
	if n == nil || n.Inbound == nil || len(n.Inbound.AllowHost) == 0 {
		return nil
	}
	return []NetworkRule{{Text: "reached as " + strings.Join(n.Inbound.AllowHost, ", ")}}
}

// isolatedRules are the NetworkRules of an isolated server.
func isolatedRules(s *Spec) []NetworkRule {
	cfg := s.Egress()
	what := strings.Join(cfg.Hosts, ", ")
	switch {
	case cfg.AllowAll && what != "":
		what = "any public address, " + what
	case cfg.AllowAll:
		what = "any public address"
	case what == "":
		what = "nothing"
	}
	if len(cfg.Ports) > 0 && what != "nothing" {
		what += " on ports " + portList(cfg.Ports)
	}
	rules := []NetworkRule{{Text: "connects to " + what, Enforced: true}}
	if cfg.AllowGateway {
		rules = append(rules, NetworkRule{Text: "connects to this machine, as host.docker.internal", Enforced: true})
	}
	return append(rules, inboundRules(s)...)
}

func portList(ports []int) string {
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(ports)), ", "), "[]")
}

// Cautions are what a person must know before running the Spec, in sentences: limits
// that are requested and not enforced, and a gateway that others can reach. origin is
// where the permission profile comes from.
func (s *Spec) Cautions(origin string) []string {
	var cautions []string
	for _, rule := range s.NetworkRules() {
		if rule.Enforced {
			continue
		}
		really := "the server can connect to any address"
		switch network := s.NetworkName(); {
		case strings.HasPrefix(rule.Text, "reached"):
			really = "the gateway accepts its usual names and those of --allowed-hosts"
		case mayReachNothing(s) && network == SharedNetwork:
			really = "-p gives it a network, so " + really
		case network != SharedNetwork && network != "host":
			really = "the server can connect to whatever the network " + network + " reaches"
		case network == SharedNetwork && !s.Container.Permissions.Privileged && len(s.Egress().Hosts) > 0:
			really += "; --isolate-network enforces it"
		}
		cautions = append(cautions, fmt.Sprintf("a limit of %s is requested, not enforced: %q; %s", origin, rule.Text, really))
	}
	return slices.Concat(cautions, s.openings(), s.GatewayCautions())
}

// engineSockets are the names of container engines' sockets.
var engineSockets = []string{"docker.sock", "podman.sock", "containerd.sock", "crio.sock"}

// openings are Cautions about what ports and mounts open.
func (s *Spec) openings() []string {
	var all []string
	for _, p := range s.Container.Publish {
		if !p.Loopback() {
			all = append(all, fmt.Sprintf("port %d of the container is published on %s: programs on other machines can connect to it", p.Container, p.Address))
		}
	}
	for _, m := range s.Container.Mounts {
		switch {
		case slices.Contains(engineSockets, filepath.Base(m.Host)):
			all = append(all, fmt.Sprintf("the server can use the container engine through %s, and with it do on this machine whatever the engine can", m.Host))
		case m.Host == "/":
			all = append(all, "the server has all files of this machine at "+m.Container)
		}
	}
	return all
}

// GatewayCautions are the Cautions about who can reach the gateway.
func (s *Spec) GatewayCautions() []string {
	switch {
	case s.Proxy.loopback():
	case s.Auth == nil:
		return []string{fmt.Sprintf("the gateway listens on %s and requires no authentication: everyone who can reach this machine's port %d can call the server's tools; --oidc-issuer requires access tokens", s.Proxy.Host, s.Proxy.Port)}
	case !strings.HasPrefix(s.Auth.ResourceURL, "https://"):
		return []string{fmt.Sprintf("the gateway listens on %s with plain HTTP: others on the network can read access tokens and answers; put a proxy with TLS before it and give its URL with --resource-url", s.Proxy.Host)}
	}
	return nil
}

// loopback reports whether only programs of this machine can connect to the gateway.
func (p Proxy) loopback() bool {
	return p.Host == "localhost" || net.ParseIP(p.Host).IsLoopback()
}
