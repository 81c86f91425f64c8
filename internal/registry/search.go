package registry

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxSearched bounds how much of a title or a description is searched, in bytes:
// the registry server's index holds this text of every version.
const maxSearched = 4 << 10

// SearchText is the text that Score looks at: name, title, description and then
// one tag, each on a line of its own, lower-cased by [strings.ToLower]. Title and
// description have their line when they are empty, too.
func SearchText(name, title, description string, tags []string) string {
	lines := make([]string, 0, 3+len(tags))
	for i, text := range append([]string{name, title, description}, tags...) {
		if len(text) > maxSearched {
			text = strings.ToValidUTF8(text[:maxSearched], "")
		}
		text = strings.ToLower(strings.ReplaceAll(text, "\n", " "))
		if text != "" || i < 3 {
			lines = append(lines, text)
		}
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// SearchWords are the words of a query, as Score takes them.
func SearchWords(query string) []string { return strings.Fields(strings.ToLower(query)) }

// What a word is worth where it is found. Each place is worth more than all that
// follow together. The namespace is worth least: half of all servers are in
// io.github.
const (
	inNamespace = 1 << iota
	inDescription
	inTag
	isTag
	inLastSegment
	inTitle
	wordOfLastSegment
	wordOfTitle
	isLastSegment
	isTitle
)

// Score returns how well a text of SearchText matches a query: 0 when it lacks one
// of the words, and 1 for a query without words. This is the one rule of
// order for searches in the API, on the page and on the command line.
func Score(text string, words []string) int {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return 0
		}
	}
	name, rest, _ := strings.Cut(text, "\n")
	title, rest, _ := strings.Cut(rest, "\n")
	description, tags, _ := strings.Cut(rest, "\n")
	namespace, segment := name[:strings.LastIndex(name, "/")+1], shortName(name)
	score := 1
	for _, w := range words {
		for _, place := range []struct {
			found bool
			worth int
		}{
			{strings.Contains(namespace, w), inNamespace},
			{strings.Contains(description, w), inDescription},
			{strings.Contains(tags, w), inTag},
			{hasLine(tags, w), isTag},
			{strings.Contains(segment, w), inLastSegment},
			{strings.Contains(title, w), inTitle},
			{hasWord(segment, w), wordOfLastSegment},
			{hasWord(title, w), wordOfTitle},
		} {
			if place.found {
				score += place.worth
			}
		}
	}
	if len(words) > 0 {
		if bare(segment) == strings.Join(words, "-") {
			score += isLastSegment * len(words)
		}
		if title == strings.Join(words, " ") {
			score += isTitle * len(words)
		}
	}
	return score
}

// bare is the last segment of a name without what most servers' names have:
// github-mcp-server and mcp-github are github.
func bare(segment string) string {
	parts := strings.FieldsFunc(segment, func(r rune) bool { return r == '-' || r == '_' || r == '.' })
	kept := parts[:0]
	for _, p := range parts {
		if p != "mcp" && p != "server" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, "-")
}

// hasLine reports whether one of the lines of a text is w.
func hasLine(lines, w string) bool {
	for line := range strings.SplitSeq(lines, "\n") {
		if line == w {
			return true
		}
	}
	return false
}

// hasWord reports whether w is in a text with no letter or digit beside it.
func hasWord(text, w string) bool {
	for from := 0; ; {
		at := strings.Index(text[from:], w)
		if at < 0 {
			return false
		}
		at += from
		before, _ := utf8.DecodeLastRuneInString(text[:at])
		after, _ := utf8.DecodeRuneInString(text[at+len(w):])
		if !isWordRune(before) && !isWordRune(after) {
			return true
		}
		from = at + len(w)
	}
}

func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
