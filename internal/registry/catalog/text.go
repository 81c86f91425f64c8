package catalog

import "strings"

// texts are what is searched in the entries of a snapshot, one after the other in
// one string. Most searches find little: to run through one string is several
// times faster than to visit the entries, which lie all over the memory.
type texts struct {
	all    string
	starts []int // of each entry's in all; versions of a server share a text
}

func newTexts(entries []*entry) *texts {
	shared := func(i int) bool {
		return i > 0 && entries[i].Name == entries[i-1].Name && entries[i].Search == entries[i-1].Search
	}
	size := 0
	for i, e := range entries {
		if !shared(i) {
			size += len(e.Search) + 1
		}
	}
	var all strings.Builder
	all.Grow(size)
	t := &texts{starts: make([]int, len(entries))}
	for i, e := range entries {
		if shared(i) {
			t.starts[i] = t.starts[i-1]
			continue
		}
		t.starts[i] = all.Len()
		all.WriteString(e.Search)
		all.WriteByte('\n') // no word has one
	}
	t.all = all.String()
	return t
}

// sample is how much of the text shows which word is the rarest, in bytes.
const sample = 32 << 10

// rarest chooses among words the one to look for first.
func (t *texts) rarest(words []string) string {
	some := t.all[:min(len(t.all), sample)]
	rarest, least := words[0], -1
	for _, w := range words {
		if n := strings.Count(some, w); least < 0 || n < least || n == least && len(w) > len(rarest) {
			rarest, least = w, n
		}
	}
	return rarest
}

// cursor runs through a snapshot. Where there are words it stops only at servers
// with a version that has one of them, the rarest.
type cursor struct {
	*snapshot
	text *texts // nil without words
	word string
	at   int // the first version of a server, or the end
}

func (s *snapshot) from(at int, words []string) *cursor {
	c := &cursor{snapshot: s, at: at}
	if len(words) > 0 {
		c.text = s.texts()
		c.word = c.text.rarest(words)
		c.skip(0)
	}
	return c
}

func (c *cursor) rest() []*entry { return c.entries[c.at:] }

// skip goes n entries on, and to the next server that may be asked for.
func (c *cursor) skip(n int) {
	c.at += n
	if c.text == nil || c.at == len(c.entries) {
		return
	}
	starts := c.text.starts
	found := strings.Index(c.text.all[starts[c.at]:], c.word)
	if found < 0 {
		c.at = len(c.entries)
		return
	}
	found += starts[c.at]
	hit := c.at
	for hit+1 < len(starts) && starts[hit+1] <= found {
		hit++
	}
	// Versions before it, which do not have the word, are the same server's. So
	// are none before c.at, which is where a server begins.
	for hit > c.at && c.entries[hit-1].Name == c.entries[hit].Name {
		hit--
	}
	c.at = hit
}
