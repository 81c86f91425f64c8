package source

import (
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/workload"
)

// maxName is the length of a workload's name; see workload.ValidName.
const maxName = 63

// validName makes a workload name of any text: lower case, with a dash for
// every run of characters that a name cannot have.
func validName(text string) string {
	var b strings.Builder
	dash := false
	for _, r := range strings.ToLower(text) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_':
			if dash && b.Len() > 0 {
				b.WriteByte('-')
			}
			dash = false
			b.WriteRune(r)
		default:
			dash = true
		}
	}
	name := strings.TrimLeft(b.String(), "-_")
	if len(name) > maxName {
		name = name[:maxName]
	}
	if name = strings.TrimRight(name, "-_"); name == "" {
		return "workload"
	}
	return name
}

// hostName names a remote server: api.github.com is github, an address is
// ip-127-0-0-1.
func hostName(host string) string {
	if addr, err := netip.ParseAddr(host); err == nil {
		return validName("ip-" + addr.WithZone("").String())
	}
	labels := strings.Split(strings.Trim(strings.ToLower(host), "."), ".")
	n := len(labels)
	switch {
	case n == 1:
		return validName(labels[0])
	case n > 2 && len(labels[n-1]) == 2 && slices.Contains(secondLevel[:], labels[n-2]):
		return validName(labels[n-3])
	}
	return validName(labels[n-2])
}

// secondLevel are labels under which countries register names: example.co.uk.
var secondLevel = [...]string{"ac", "co", "com", "edu", "go", "gov", "ne", "net", "or", "org"}

// packageName names a package's server by its whole path, without its version:
// a newer version keeps the name and so the URL. A path that is too long keeps
// its end.
func packageName(p *workload.Package) string {
	if p.Scheme == "go" && isLocal(p.Name) {
		onlyDots := strings.Trim(p.Name, "./") == ""
		if abs, err := filepath.Abs(p.Name); err == nil && (onlyDots || filepath.IsAbs(p.Name)) {
			return validName(filepath.Base(abs))
		}
		return validName(p.Name)
	}
	text := p.Name
	for len(text) > maxName {
		_, rest, ok := strings.Cut(text, "/")
		if !ok {
			break
		}
		text = rest
	}
	return validName(text)
}

// imageName names an image's server by the last two parts of its repository.
func imageName(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	parts := strings.Split(ref, "/")
	for i := range parts {
		parts[i], _, _ = strings.Cut(parts[i], ":") // a port or the tag
	}
	if n := len(parts); n > 2 {
		parts = parts[n-2:]
	}
	return validName(strings.Join(parts, "-"))
}
