package runflag

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/toolhaven/toolhaven/internal/workload"
)

// ParsePort reads a value of -p: hostPort:containerPort, or containerPort alone
// for any free port of the host. Ports are published on the loopback address, unless an
// address precedes them: 0.0.0.0:80:8080, [::]:80:8080.
func ParsePort(value string) (workload.Port, error) {
	p := workload.Port{}
	ports := value
	if parts := strings.Split(value, ":"); len(parts) > 2 {
		ports = strings.Join(parts[len(parts)-2:], ":")
		text := strings.TrimSuffix(value, ":"+ports)
		if inner, bracketed := strings.CutPrefix(text, "["); bracketed {
			text = strings.TrimSuffix(inner, "]")
		}
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.Zone() != "" {
			return p, fmt.Errorf("-p %s: %q is not an IP address; write ADDRESS:hostPort:containerPort", value, text)
		}
		p.Address = addr.String()
	}
	switch {
	case strings.Contains(value, "/"):
		ports, _, _ := strings.Cut(value, "/")
		return workload.Port{}, fmt.Errorf("-p %s: a protocol cannot be chosen, TCP is published; write %s", value, ports)
	case strings.Contains(strings.TrimPrefix(ports, "-"), "-"):
		return workload.Port{}, fmt.Errorf("-p %s: ranges are not supported; write -p hostPort:containerPort for each port", value)
	}
	host, inside, both := strings.Cut(ports, ":")
	if !both {
		host, inside = "0", ports
	}
	var err error
	if p.Host, err = number(host, 0); err == nil {
		p.Container, err = number(inside, 1)
	}
	if err != nil {
		return workload.Port{}, fmt.Errorf("-p %s: %w; write hostPort:containerPort", value, err)
	}
	return p, nil
}

func number(text string, low int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > 65535 {
		return 0, fmt.Errorf("%q is not a port", text)
	}
	return n, nil
}
