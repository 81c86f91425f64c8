package manager

import (
	"fmt"
	"hash/fnv"
	"path/filepath"
)

// Ports are given from a range below the ephemeral ports of Linux (32768),
// macOS and Windows (49152), so that no outgoing connection takes one.
const (
	firstPort = 20000
	portCount = 10000
)

// Port is the workload's port: derived from its name, and remembered for good,
// so that a URL survives restart, upgrade, and rm followed by run. Two names
// never share a port. A name that has none yet, and so no URL that a client has, gets the next one
// that is free on the machine now. A remembered port may be taken by another program;
// the start of the workload fails then, and its URL does not change.
//
// A port that was chosen (--proxy-port) is in the workload's Spec alone, and forgotten
// with it.
func (s *Store) Port(name string, free func(port int) bool) (int, error) {
	var port int
	err := update(filepath.Join(s.state, "ports.json"), func(ports *map[string]int) error {
		if *ports == nil {
			*ports = map[string]int{}
		}
		if p, ok := (*ports)[name]; ok {
			port = p
			return nil
		}
		taken, err := s.chosenPorts(name)
		if err != nil {
			return err
		}
		for _, p := range *ports {
			taken[p] = true
		}
		h := fnv.New32a()
		h.Write([]byte(name))
		for i := range uint32(portCount) {
			if p := firstPort + int((h.Sum32()+i)%portCount); !taken[p] && free(p) {
				port = p
				(*ports)[name] = p
				return nil
			}
		}
		return fmt.Errorf("all %d ports are remembered for other workloads or in use; choose one with --proxy-port", portCount)
	})
	if err != nil {
		return 0, fmt.Errorf("choose a port for %q: %w", name, err)
	}
	return port, nil
}

// chosenPorts are the ports of the stored workloads, but for name.
func (s *Store) chosenPorts(name string) (map[int]bool, error) {
	names, err := s.Names()
	if err != nil {
		return nil, err
	}
	ports := make(map[int]bool, len(names))
	for _, other := range names {
		if spec, err := s.Get(other); err == nil && other != name {
			ports[spec.Proxy.Port] = true
		}
	}
	return ports, nil
}
