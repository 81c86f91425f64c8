package runflag

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/toolhaven/toolhaven/internal/workload"
)

var amountPattern = regexp.MustCompile(`^([0-9]{1,15}(?:\.[0-9]{1,6})?)([kmgt]?)(?:i?b)?$`)

// Memory parses an amount of memory, such as 512m, 1.5g, 2GiB or 1073741824: its unit is a
// power of 1024. The result is in bytes.
func Memory(text string) (int64, error) { return amount(text, "memory") }

// Disk parses the value of --disk-limit: an amount as for [Memory], or "none" or 0, which are
// [workload.NoDiskLimit].
func Disk(text string) (int64, error) {
	if strings.EqualFold(text, "none") {
		return workload.NoDiskLimit, nil
	}
	n, err := amount(text, "disk")
	if n == 0 && err == nil {
		n = workload.NoDiskLimit
	}
	return n, err
}

func amount(text, what string) (int64, error) {
	m := amountPattern.FindStringSubmatch(strings.ToLower(text))
	if m == nil {
		return 0, fmt.Errorf("%.40q is not an amount of %s such as 512m or 2g", text, what)
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not an amount of %s such as 512m or 2g", text, what)
	}
	if m[2] != "" {
		n *= math.Pow(1024, float64(strings.Index("kmgt", m[2])+1))
	}
	if n > math.MaxInt64/2 {
		return 0, fmt.Errorf("%.40q is too much %s", text, what)
	}
	return int64(n), nil
}
