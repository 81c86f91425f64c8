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
	switch _, protocol, given := strings.Cut(value, "/"); {
	case given:
		return workload.Port{}, fmt.Errorf("-p %s: only TCP ports can be published; write hostPort:containerPort without /%s", value, protocol)
	case strings.Count(value, ":") > 1:
		return workload.Port{}, fmt.Errorf("-p %s: ports are published on the loopback address, and no other can be chosen; write hostPort:containerPort", value)
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
