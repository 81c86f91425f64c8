package source

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/registry/config"
)

// match reports whether text matches a pattern, in which * stands for any text,
// including slashes.
func match(pattern, text string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == text
	}
	if !strings.HasPrefix(text, first) {
		return false
	}
	text = text[len(first):]
	// Each part between two stars is matched at its first occurrence, which leaves
	// the most text for the following parts.
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

// selects reports whether a filter selects an entry: no exclusion matches, and if
// there are inclusions, one of them matches. A server without tags matches no
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

// unique removes repeated entries of a version of a server and keeps the first.
func unique(entries []Entry, leftOut *registry.LeftOut) ([]Entry, error) {
	if len(entries) > maxVersions {
		return nil, fmt.Errorf("it lists %d versions; the most is %d", len(entries), maxVersions)
	}
	seen := make(map[[2]string]bool, len(entries))
	out := make([]Entry, 0, len(entries))
	for _, e := range entries {
		key := [2]string{e.Name, e.Version}
		if seen[key] {
			leftOut.Add(fmt.Errorf("%.200s %.200s is listed twice", key[0], key[1]))
			continue
		}
		seen[key] = true
		out = append(out, e)
	}
	return out, nil
}
