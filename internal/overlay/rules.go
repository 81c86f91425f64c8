package overlay

import "strings"

// rules are the patterns of one ignore file. The last one that matches decides.
type rules struct {
	file     string
	base     []string // the directory of the file, below the mount; patterns are relative to it
	patterns []pattern
	// names and suffixes are the patterns for a name, and for the end of a name, at any depth.
	names, suffixes map[string][]int
	// The anchored patterns are tried one by one: those whose first segment, or else last
	// segment, or else end of the last segment is the path's, and all others.
	firsts, lasts, ends map[string][]int
	others              []int
}

func newRules(file string, base []string, patterns []pattern) *rules {
	r := &rules{
		file: file, base: base, patterns: patterns, names: map[string][]int{}, suffixes: map[string][]int{},
		firsts: map[string][]int{}, lasts: map[string][]int{}, ends: map[string][]int{},
	}
	for i, p := range patterns {
		switch {
		case !p.anchored && p.name != "":
			r.names[p.name] = append(r.names[p.name], i)
		case !p.anchored && p.suffix != "":
			r.suffixes[p.suffix] = append(r.suffixes[p.suffix], i)
		case p.anchored && p.first != "":
			r.firsts[p.first] = append(r.firsts[p.first], i)
		case p.anchored && p.name != "":
			r.lasts[p.name] = append(r.lasts[p.name], i)
		case p.anchored && p.suffix != "":
			r.ends[p.suffix] = append(r.ends[p.suffix], i)
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

// tried returns the last of the patterns that matches a path, at least after.
func (r *rules) tried(indexes []int, path []string, dir bool, after int) int {
	for i := len(indexes) - 1; i >= 0 && indexes[i] > after; i-- {
		if p := &r.patterns[indexes[i]]; (!p.dirOnly || dir) && p.matches(path) {
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
		if len(r.ends) > 0 {
			found = r.tried(r.ends[name[i:]], path, dir, found)
		}
	}
	found = r.tried(r.firsts[path[0]], path, dir, found)
	found = r.tried(r.lasts[name], path, dir, found)
	found = r.tried(r.others, path, dir, found)
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
