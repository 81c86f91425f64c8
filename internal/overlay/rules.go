package overlay

import "strings"

// rules are the patterns of one ignore file. The last one that matches decides.
type rules struct {
	file     string
	base     []string // the directory of the file, below the mount; patterns are relative to it
	patterns []pattern
	// names and suffixes are the last patterns for a name, and for the end of a name; the
	// others are tried one by one.
	names, suffixes map[string][]int
	others          []int
}

func newRules(file string, base []string, patterns []pattern) *rules {
	r := &rules{file: file, base: base, patterns: patterns, names: map[string][]int{}, suffixes: map[string][]int{}}
	for i, p := range patterns {
		switch {
		case !p.anchored && p.name != "":
			r.names[p.name] = append(r.names[p.name], i)
		case !p.anchored && p.suffix != "":
			r.suffixes[p.suffix] = append(r.suffixes[p.suffix], i)
		default:
			r.others = append(r.others, i)
		}
	}
	return r
}

// last returns the last of the patterns that applies to what dir describes, at least after.
func (r *rules) last(indexes []int, dir bool, after int) int {
	for i := len(indexes) - 1; i >= 0 && indexes[i] > after; i-- {
		if !r.patterns[indexes[i]].dirOnly || dir {
			return indexes[i]
		}
	}
	return after
}

// match returns the pattern that decides about a path below the mount; nil for none.
func (r *rules) match(path []string, dir bool) *pattern {
	path = path[len(r.base):]
	name := path[len(path)-1]
	found := r.last(r.names[name], dir, -1)
	for i := range len(name) {
		found = r.last(r.suffixes[name[i:]], dir, found)
	}
	for i := len(r.others) - 1; i >= 0 && r.others[i] > found; i-- {
		if p := &r.patterns[r.others[i]]; (!p.dirOnly || dir) && p.matches(path) {
			found = r.others[i]
			break
		}
	}
	if found < 0 {
		return nil
	}
	return &r.patterns[found]
}

func (p *pattern) matches(path []string) bool {
	name := path[len(path)-1]
	switch {
	case !p.anchored:
		return matchName(p.segments[0], name)
	case p.first != "" && p.first != path[0], p.name != "" && p.name != name, !strings.HasSuffix(name, p.suffix):
		return false // most patterns, without a look at the rest
	}
	return matchPath(p.segments, path)
}

// String is the pattern as it was written, for people.
func (p *pattern) String() string {
	s := strings.Join(p.segments, "/")
	if p.anchored && len(p.segments) == 1 {
		s = "/" + s
	}
	if p.dirOnly {
		s += "/"
	}
	if p.negated {
		s = "!" + s
	}
	return s
}
