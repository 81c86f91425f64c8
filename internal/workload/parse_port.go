package workload

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// ParsePort reads a value of -p: hostPort:containerPort, or containerPort alone
// for any free port of the host. Ports are published on the loopback address.
func ParsePort(value string) (Port, error) {
	host, inside, both := strings.Cut(value, ":")
	if !both {
		host, inside = "0", value
	}
	p := Port{}
	var err error
	if p.Host, err = number(host, 0); err == nil {
		p.Container, err = number(inside, 1)
	}
	if err != nil {
		return Port{}, fmt.Errorf("-p %s: %w; write hostPort:containerPort", value, err)
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

// labelKey: what engines and Kubernetes both accept.
var labelKey = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]{0,251}[A-Za-z0-9])?$`)

// reservedLabels begin the labels that Toolhaven itself puts on containers.
const reservedLabels = "dev.toolhaven."

func validLabelKey(key string) error {
	if !labelKey.MatchString(key) {
		return fmt.Errorf("label %q: a key has letters, digits, dots, dashes, underscores and slashes", key)
	}
	if strings.HasPrefix(key, reservedLabels) {
		return fmt.Errorf("label %q: keys that begin with %s are ours", key, reservedLabels)
	}
	return nil
}

// ParseLabels reads values of -l, each key=value; the last of one key wins.
func ParseLabels(values []string) (map[string]string, error) {
	if len(values) == 0 {
		return nil, nil
	}
	labels := map[string]string{}
	var errs []error
	for _, v := range values {
		key, value, ok := strings.Cut(v, "=")
		if !ok {
			errs = append(errs, fmt.Errorf("-l %s: write key=value", v))
			continue
		}
		if err := validLabelKey(key); err != nil {
			errs = append(errs, fmt.Errorf("-l: %w", err))
			continue
		}
		if strings.ContainsAny(value, "\x00\r\n") {
			errs = append(errs, fmt.Errorf("-l %s: a value is one line", key))
			continue
		}
		labels[key] = value
	}
	return labels, errors.Join(errs...)
}
