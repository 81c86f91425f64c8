package runflag

import (
	"errors"
	"fmt"
	"strings"

	"github.com/toolhaven/toolhaven/internal/workload"
)

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
		if err := workload.ValidLabelKey(key); err != nil {
			errs = append(errs, fmt.Errorf("-l: %w", err))
			continue
		}
		if err := workload.ValidLabelValue(value); err != nil {
			errs = append(errs, fmt.Errorf("-l %s: %w", key, err))
			continue
		}
		labels[key] = value
	}
	return labels, errors.Join(errs...)
}
