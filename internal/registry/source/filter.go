package source

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/registry/config"
)

// match tells whether text fits a pattern, in which * stands for any text, with
// slashes too, and everything else for itself.
func match(pattern, text string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == text
	}
	if !strings.HasPrefix(text, first) {
		return false
	}
	text = text[len(first):]
	// Each part between two stars is taken where it stands first; that leaves
	// the most for what follows.
	for {
		part, more, star := strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(text, rest)
		}
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text, rest = text[at+len(part):], more
	}
}

// selects tells whether a filter lets an entry through: no exclusion fits, and
// an inclusion fits where there are any. A server without tags fails every
// inclusion by tags.
func selects(f config.Filter, e *Entry) bool {
	name := func(pattern string) bool { return match(pattern, e.Name) }
	tag := func(t string) bool { return slices.Contains(e.Tags, t) }
	for _, by := range []struct {
		config.Match
		fits func(string) bool
	}{{f.Names, name}, {f.Tags, tag}} {
		if slices.ContainsFunc(by.Exclude, by.fits) {
			return false
		}
		if len(by.Include) > 0 && !slices.ContainsFunc(by.Include, by.fits) {
			return false
		}
	}
	return true
}

// unique holds a source to naming each version of a server once: nobody could
// say which of two counts.
func unique(entries []Entry) error {
	if len(entries) > maxVersions {
		return fmt.Errorf("it lists %d versions; the most is %d", len(entries), maxVersions)
	}
	seen := make(map[[2]string]bool, len(entries))
	for i := range entries {
		key := [2]string{entries[i].Name, entries[i].Version}
		if seen[key] {
			return fmt.Errorf("it lists %.200q in version %.200q twice", key[0], key[1])
		}
		seen[key] = true
	}
	return nil
}
