// Package overlay finds the paths inside of mounts that a server must not see: those that
// the patterns of ignore files match (.thvignore in a mount, and a global file). The patterns
// have the meaning of gitignore(5); the tests compare it with git's own.
package overlay

import (
	"bytes"
	"fmt"
	"strings"
)

// Bounds of an ignore file. They are far beyond real files, and keep the work for one
// bounded.
const (
	maxFile    = 1 << 20 // bytes
	maxPattern = 4096    // bytes
	maxLines   = 20_000
)

// pattern is one line of an ignore file.
type pattern struct {
	line    int
	negated bool // "!": what matches is visible
	dirOnly bool // "a/": it matches directories only
	// segments are the parts of a pattern that is anchored to the file's directory; "**" is
	// any number of directories. One segment that is not anchored matches names at any depth.
	segments []string
	anchored bool
	// first is the first segment and name the last one, where they are without wildcards;
	// suffix is how a name ends that the last segment matches. "" is unknown.
	first, name, suffix string
}

// parse reads the patterns of a file; name is its path, for errors.
func parse(name string, content []byte) ([]pattern, error) {
	if len(content) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, maxFile)
	}
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	var patterns []pattern
	n := 0
	for line := range strings.SplitSeq(string(content), "\n") {
		n++
		if n > maxLines {
			return nil, fmt.Errorf("%s has more than %d lines", name, maxLines)
		}
		if len(line) > maxPattern {
			return nil, fmt.Errorf("%s: line %d is longer than %d bytes", name, n, maxPattern)
		}
		if p, ok := parseLine(strings.TrimSuffix(line, "\r")); ok {
			p.line = n
			patterns = append(patterns, p)
		}
	}
	return patterns, nil
}

// parseLine parses a line; ok is false for one without a pattern (gitignore(5), "Pattern
// format").
func parseLine(line string) (p pattern, ok bool) {
	line = trimSpaces(line)
	if line == "" || line[0] == '#' {
		return p, false
	}
	if line[0] == '!' {
		p.negated, line = true, line[1:]
	}
	if strings.HasSuffix(line, "/") {
		p.dirOnly, line = true, line[:len(line)-1]
	}
	p.anchored = strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return p, false
	}
	p.segments = splitSegments(unescapeSlashes(line))
	for i, s := range p.segments {
		if len(s) > 2 && strings.Trim(s, "*") == "" {
			p.segments[i] = "**"
		}
	}
	first, last := p.segments[0], p.segments[len(p.segments)-1]
	if !wild(first) {
		p.first = first
	}
	if !wild(last) {
		p.name = last
	} else if rest, star := strings.CutPrefix(last, "*"); star && !wild(rest) {
		p.suffix = rest
	}
	return p, true
}

func wild(segment string) bool { return strings.ContainsAny(segment, `*?[\`) }

// splitSegments splits a pattern at its slashes. One in a bracket expression separates nothing,
// and matches nothing. After a bracket that is not closed no path matches.
func splitSegments(line string) []string {
	var segments []string
	begin, closed := 0, true
	for i := 0; i < len(line); {
		switch {
		case line[i] == '/':
			segments = append(segments, line[begin:i])
			i++
			begin = i
			continue
		case line[i] == '\\':
			i++
		case line[i] == '[' && closed:
			width, _ := matchBracket(line[i:], 0)
			if closed = width > 0; closed {
				i += width
				continue
			}
		}
		i++
	}
	return append(segments, line[begin:])
}

// unescapeSlashes removes backslashes before slashes: an escaped slash separates, too.
func unescapeSlashes(line string) string {
	if !strings.Contains(line, `\/`) {
		return line
	}
	var b strings.Builder
	for i := 0; i < len(line); i++ {
		if line[i] == '\\' && i+1 < len(line) {
			if i++; line[i] != '/' {
				b.WriteByte('\\')
			}
		}
		b.WriteByte(line[i])
	}
	return b.String()
}

// trimSpaces removes the spaces at the end that no backslash escapes.
func trimSpaces(line string) string {
	end := 0 // of what stays
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '\\' && i+1 < len(line):
			i++
			end = i + 1
		case line[i] != ' ':
			end = i + 1
		}
	}
	return line[:end]
}

// matchPath reports whether the segments of an anchored pattern match those of a path.
func matchPath(pattern, path []string) bool {
	for len(pattern) > 0 {
		if pattern[0] == "**" {
			for len(pattern) > 1 && pattern[1] == "**" {
				pattern = pattern[1:]
			}
			if len(pattern) == 1 {
				return len(path) > 0 // "a/**" is what is in a, not a itself
			}
			return matchAnywhere(pattern[1:], path)
		}
		if len(path) == 0 || !matchName(pattern[0], path[0]) {
			return false
		}
		pattern, path = pattern[1:], path[1:]
	}
	return len(path) == 0
}

// matchAnywhere reports whether the pattern after a "**" matches some end of the path. Like
// matchName it goes back to the last "**" only, so that its time is bounded by the product of
// the lengths.
func matchAnywhere(pattern, path []string) bool {
	rest, tail := pattern, path
	for {
		switch {
		case len(rest) > 0 && rest[0] == "**":
			for len(rest) > 1 && rest[1] == "**" {
				rest = rest[1:]
			}
			if len(rest) == 1 {
				return len(tail) > 0
			}
			pattern, path = rest[1:], tail
			rest, tail = pattern, path
		case len(rest) == 0 && len(tail) == 0:
			return true
		case len(rest) > 0 && len(tail) > 0 && matchName(rest[0], tail[0]):
			rest, tail = rest[1:], tail[1:]
		case len(path) == 0:
			return false
		default:
			path = path[1:]
			rest, tail = pattern, path
		}
	}
}

// matchName reports whether a segment matches a name, which has no slash. It goes back to the
// last star only, so that its time is bounded by the product of the lengths.
func matchName(pattern, name string) bool {
	back, backName := -1, 0 // after the last star, and the name there
	p, n := 0, 0
	for n < len(name) || p < len(pattern) {
		if p < len(pattern) {
			if pattern[p] == '*' {
				p++
				back, backName = p, n
				continue
			}
			if n < len(name) {
				if width, ok := matchByte(pattern[p:], name[n]); ok {
					p += width
					n++
					continue
				} else if width == 0 {
					return false // not a pattern: an unclosed bracket, or a backslash at the end
				}
			}
		}
		if back < 0 || backName >= len(name) {
			return false
		}
		backName++
		p, n = back, backName
	}
	return true
}

// matchByte reports whether the beginning of a pattern matches a byte, and how long that
// beginning is; 0 if it is malformed.
func matchByte(pattern string, c byte) (width int, ok bool) {
	switch pattern[0] {
	case '?':
		return 1, true
	case '\\':
		if len(pattern) == 1 {
			return 0, false
		}
		return 2, pattern[1] == c
	case '[':
		return matchBracket(pattern, c)
	}
	return 1, pattern[0] == c
}

// matchBracket matches a bracket expression, such as [a-z], [!0-9] and [[:alpha:]_].
func matchBracket(pattern string, c byte) (width int, ok bool) {
	i := 1
	negated := i < len(pattern) && (pattern[i] == '!' || pattern[i] == '^')
	if negated {
		i++
	}
	found := false
	for first := true; ; first = false {
		if i >= len(pattern) {
			return 0, false
		}
		if pattern[i] == ']' && !first {
			break
		}
		if class, length := posixClass(pattern[i:]); length > 0 {
			if class == nil {
				return 0, false // an unknown class
			}
			found = found || class(c)
			i += length
			continue
		}
		low, length := bracketByte(pattern[i:])
		if length == 0 {
			return 0, false
		}
		i += length
		high := low
		if i+1 < len(pattern) && pattern[i] == '-' && pattern[i+1] != ']' {
			if high, length = bracketByte(pattern[i+1:]); length == 0 {
				return 0, false
			}
			i += 1 + length
		}
		found = found || c == low || low <= c && c <= high // also where high is below low
	}
	return i + 1, found != negated
}

// bracketByte is a byte in a bracket expression, and the length of what stands for it.
func bracketByte(s string) (c byte, length int) {
	if s[0] != '\\' {
		return s[0], 1
	}
	if len(s) == 1 {
		return 0, 0
	}
	return s[1], 2
}

// classes are those of POSIX, in the C locale.
var classes = map[string]func(byte) bool{
	"alpha":  isAlpha,
	"digit":  isDigit,
	"alnum":  func(c byte) bool { return isAlpha(c) || isDigit(c) },
	"upper":  func(c byte) bool { return 'A' <= c && c <= 'Z' },
	"lower":  func(c byte) bool { return 'a' <= c && c <= 'z' },
	"space":  func(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' },
	"blank":  func(c byte) bool { return c == ' ' || c == '\t' },
	"cntrl":  func(c byte) bool { return c < ' ' || c == 0x7f },
	"graph":  func(c byte) bool { return '!' <= c && c <= '~' },
	"print":  func(c byte) bool { return ' ' <= c && c <= '~' },
	"punct":  func(c byte) bool { return '!' <= c && c <= '~' && !isAlpha(c) && !isDigit(c) },
	"xdigit": func(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' },
}

func isAlpha(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// posixClass returns the class at the beginning of s, and its length; 0 if there is none, and
// nil if it is unknown.
func posixClass(s string) (func(byte) bool, int) {
	if !strings.HasPrefix(s, "[:") {
		return nil, 0
	}
	end := strings.IndexByte(s, ']')
	if end < 3 || s[end-1] != ':' {
		return nil, 0
	}
	return classes[s[2:end-1]], end + 1
}
