package workload

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

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

func validLabelValue(value string) error {
	if strings.ContainsAny(value, "\x00\r\n") {
		return errors.New("a value is one line")
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
		if err := validLabelValue(value); err != nil {
			errs = append(errs, fmt.Errorf("-l %s: %w", key, err))
			continue
		}
		labels[key] = value
	}
	return labels, errors.Join(errs...)
}
