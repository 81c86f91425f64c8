package registry

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
)

// semver is Semantic Versioning 2.0.0, with or without a leading v.
var semver = regexp.MustCompile(`^v?(0|[1-9]\d{0,17})\.(0|[1-9]\d{0,17})\.(0|[1-9]\d{0,17})(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?$`)

// CompareVersions orders versions by age as the official registry does: by
// Semantic Versioning where both follow it, and one that follows it is newer
// than one that does not. Two that do not are equal: their order is unknown.
func CompareVersions(a, b string) int {
	x, y := semver.FindStringSubmatch(a), semver.FindStringSubmatch(b)
	switch {
	case x == nil && y == nil:
		return 0
	case x == nil:
		return -1
	case y == nil:
		return 1
	}
	for i := 1; i <= 3; i++ {
		if c := compareNumbers(x[i], y[i]); c != 0 {
			return c
		}
	}
	return comparePrereleases(x[4], y[4])
}

// comparePrereleases follows semver.org section 11.
func comparePrereleases(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == "":
		return 1
	case b == "":
		return -1
	}
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(x), len(y)) {
		_, errX := strconv.ParseUint(x[i], 10, 64)
		_, errY := strconv.ParseUint(y[i], 10, 64)
		var c int
		switch {
		case errX == nil && errY == nil:
			c = compareNumbers(x[i], y[i])
		case errX == nil:
			c = -1
		case errY == nil:
			c = 1
		default:
			c = cmp.Compare(x[i], y[i])
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(len(x), len(y))
}

func compareNumbers(a, b string) int {
	x, _ := strconv.ParseUint(a, 10, 64)
	y, _ := strconv.ParseUint(b, 10, 64)
	return cmp.Compare(x, y)
}
