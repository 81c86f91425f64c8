package runflag

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

var memoryPattern = regexp.MustCompile(`^([0-9]{1,15}(?:\.[0-9]{1,6})?)([kmgt]?)(?:i?b)?$`)

// Memory parses an amount of memory, such as 512m, 1.5g, 2GiB or 1073741824: its unit is a
// power of 1024. The result is in bytes.
func Memory(text string) (int64, error) {
	m := memoryPattern.FindStringSubmatch(strings.ToLower(text))
	if m == nil {
		return 0, fmt.Errorf("%.40q is not an amount of memory such as 512m or 2g", text)
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not an amount of memory such as 512m or 2g", text)
	}
	if m[2] != "" {
		n *= math.Pow(1024, float64(strings.Index("kmgt", m[2])+1))
	}
	if n > math.MaxInt64/2 {
		return 0, fmt.Errorf("%.40q is too much memory", text)
	}
	return int64(n), nil
}
