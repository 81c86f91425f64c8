package catalog

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// view is a registry at one moment: its sources' snapshots, in order.
type view []*snapshot

// owner chooses among the versions of one server in each source, in order: the
// first source with a version that is not deleted shows the server, or else the
// first that has it at all. This is the one place of that rule.
func owner(groups [][]*entry) []*entry {
	var first []*entry
	for _, g := range groups {
		if slices.ContainsFunc(g, func(e *entry) bool { return e.Status != registry.Deleted }) {
			return g
		}
		if first == nil && len(g) > 0 {
			first = g
		}
	}
	return first
}

// versions returns those of a server, in the order of the snapshot.
func (v view) versions(name string) []*entry {
	groups := make([][]*entry, len(v))
	for i, s := range v {
		groups[i] = group(s.entries[s.find(name):], name)
	}
	return owner(groups)
}

// find is where the versions of name begin, or would.
func (s *snapshot) find(name string) int {
	i, _ := slices.BinarySearchFunc(s.entries, name, func(e *entry, name string) int { return strings.Compare(e.Name, name) })
	return i
}

// each calls visit for the versions of each server from the name on, in order,
// until it returns false.
func (v view) each(from string, visit func([]*entry) bool) {
	rest := make([][]*entry, len(v)) // of each snapshot
	for i, s := range v {
		rest[i] = s.entries[s.find(from):]
	}
	groups := make([][]*entry, len(v))
	for {
		name, more := "", false
		for _, r := range rest {
			if len(r) > 0 && (!more || r[0].Name < name) {
				name, more = r[0].Name, true
			}
		}
		if !more {
			return
		}
		for i, r := range rest {
			groups[i] = group(r, name)
			rest[i] = r[len(groups[i]):]
		}
		if !visit(owner(groups)) {
			return
		}
	}
}

// list selects a page, with the cursor of the page after: in the order of names and
// versions, or of a search's scores.
func (v view) list(q Query) ([]*entry, string, error) {
	after, err := parseCursor(q.Cursor)
	if err != nil {
		return nil, "", err
	}
	if !after.until.IsZero() && q.UpdatedSince.IsZero() || q.Cursor != "" && (after.score > 0) != (len(q.Words) > 0) {
		return nil, "", ErrCursor // of another list
	}
	if !after.until.IsZero() && after.until.Before(q.until) {
		q.until = after.until // all pages of a list end at the horizon of the first
	}
	var page []scored
	if len(q.Words) > 0 {
		page = v.search(q, after)
	} else {
		page = v.inOrder(q, after)
	}
	next := ""
	if len(page) > q.Limit {
		page = page[:q.Limit]
		last := page[q.Limit-1]
		at := position{name: last.Name, version: last.Version, score: last.score}
		if !q.UpdatedSince.IsZero() {
			at.until = q.until
		}
		next = at.cursor()
	}
	entries := make([]*entry, len(page))
	for i, e := range page {
		entries[i] = e.entry
	}
	return entries, next, nil
}

// scored is an entry with its score in a search; 0 in a list without words.
type scored struct {
	*entry
	score int
}

// inOrder selects one entry more than a page has.
func (v view) inOrder(q Query, after position) []scored {
	var page []scored
	v.each(after.name, func(versions []*entry) bool {
		for _, e := range versions {
			if q.selects(e) && (e.Name != after.name || e.Version > after.version) {
				page = append(page, scored{entry: e})
			}
		}
		return len(page) <= q.Limit
	})
	return page[:min(len(page), q.Limit+1)]
}

// search selects the best matches after a position, one more than a page has.
func (v view) search(q Query, after position) []scored {
	words := registry.SearchWords(strings.Join(q.Words, " "))
	begin := scored{&entry{Head: store.Head{Name: after.name, Version: after.version}}, after.score}
	best := make([]scored, 0, q.Limit+2)
	text, score := "", registry.Score("", words) // versions of a server mostly share a text
	v.each("", func(versions []*entry) bool {
		for _, e := range versions {
			if !q.selects(e) {
				continue
			}
			if e.Search != text {
				text, score = e.Search, registry.Score(e.Search, words)
			}
			s := scored{e, score}
			if score == 0 || after.score > 0 && s.compare(begin) <= 0 {
				continue
			}
			at, _ := slices.BinarySearchFunc(best, s, scored.compare)
			if best = slices.Insert(best, at, s); len(best) > q.Limit+1 {
				best = best[:q.Limit+1]
			}
		}
		return true
	})
	return best
}

// compare orders by score, the highest first, then by name and version.
func (s scored) compare(t scored) int {
	return cmp.Or(cmp.Compare(t.score, s.score), order(s.entry, t.entry))
}

// selects reports whether an entry meets the conditions of a query except its words.
func (q Query) selects(e *entry) bool {
	switch {
	case e.Status == registry.Deleted && !q.IncludeDeleted,
		q.Version == "latest" && !e.latest,
		q.Version != "" && q.Version != "latest" && e.Version != q.Version,
		!q.UpdatedSince.IsZero() && (!e.UpdatedAt.After(q.UpdatedSince) || e.UpdatedAt.After(q.until)):
		return false
	}
	return true
}

// position is the last version of a page.
type position struct {
	name, version string
	until         time.Time // of a list of changes; else zero
	score         int       // of a search; else 0
}

// maxCursor bounds a cursor, in bytes: a name, a version and two numbers in base64.
const maxCursor = 1 << 10

func (p position) cursor() string {
	until := ""
	if !p.until.IsZero() {
		until = strconv.FormatInt(p.until.UnixMicro(), 10)
	}
	text := strings.Join([]string{p.name, p.version, until, strconv.Itoa(p.score)}, "\n")
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

func parseCursor(cursor string) (position, error) {
	if cursor == "" {
		return position{}, nil
	}
	if len(cursor) > maxCursor {
		return position{}, ErrCursor
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil {
		return position{}, ErrCursor
	}
	parts := strings.Split(string(text), "\n")
	if len(parts) != 4 || !registry.ValidName(parts[0]) || parts[1] == "" {
		return position{}, ErrCursor
	}
	p := position{name: parts[0], version: parts[1]}
	if p.score, err = strconv.Atoi(parts[3]); err != nil || p.score < 0 {
		return position{}, ErrCursor
	}
	if parts[2] != "" {
		until, err := strconv.ParseInt(parts[2], 10, 64)
		if err != nil {
			return position{}, ErrCursor
		}
		p.until = time.UnixMicro(until).UTC()
	}
	return p, nil
}
