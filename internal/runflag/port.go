package runflag

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/toolhaven/toolhaven/internal/workload"
)

// ParsePort reads a value of -p: hostPort:containerPort, or containerPort alone
// for any free port of the host. Ports are published on the loopback address.
func ParsePort(value string) (workload.Port, error) {
	switch {
	case strings.Count(value, ":") > 1:
		ports := strings.Split(value, ":")
		return workload.Port{}, fmt.Errorf("-p %s: an address cannot be chosen, ports are published on the loopback address; write %s", value, strings.Join(ports[len(ports)-2:], ":"))
	case strings.Contains(value, "/"):
		ports, _, _ := strings.Cut(value, "/")
		return workload.Port{}, fmt.Errorf("-p %s: a protocol cannot be chosen, TCP is published; write %s", value, ports)
	case strings.Contains(strings.TrimPrefix(value, "-"), "-"):
		return workload.Port{}, fmt.Errorf("-p %s: ranges are not supported; write -p hostPort:containerPort for each port", value)
	}
	host, inside, both := strings.Cut(value, ":")
	if !both {
		host, inside = "0", value
	}
	p := workload.Port{}
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
