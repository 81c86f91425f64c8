package catalog

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry"
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
// until it returns false. Where there are words, it may leave out servers that do
// not have them.
func (v view) each(from string, words []string, visit func([]*entry) bool) {
	at := make([]*cursor, len(v)) // of each snapshot, at the first version of a server
	for i, s := range v {
		at[i] = s.from(s.find(from), words)
	}
	groups := make([][]*entry, len(v))
	for {
		name, any := "", false
		for _, c := range at {
			if r := c.rest(); len(r) > 0 && (!any || r[0].Name < name) {
				name, any = r[0].Name, true
			}
		}
		if !any {
			return
		}
		for i, c := range at {
			r := c.rest()
			switch {
			case len(r) > 0 && r[0].Name == name:
				groups[i] = group(r, name)
				c.skip(len(groups[i]))
			case c.text == nil:
				groups[i] = nil
			default: // it has the server without the words, perhaps: the rule on sources asks
				groups[i] = group(v[i].entries[v[i].find(name):], name)
			}
		}
		if !visit(owner(groups)) {
			return
		}
	}
}

// list selects a page, with the cursor of the page after.
func (v view) list(q Query) ([]*entry, string, error) {
	after, err := parseCursor(q.Cursor)
	if err != nil {
		return nil, "", err
	}
	if !after.until.IsZero() && q.UpdatedSince.IsZero() {
		return nil, "", ErrCursor // of another list
	}
	if !after.until.IsZero() && after.until.Before(q.until) {
		q.until = after.until // all pages of a list look as far as the first
	}
	words := make([]string, len(q.Words))
	for i, w := range q.Words {
		words[i] = strings.ToLower(w)
	}
	var page []*entry
	more := false
	v.each(after.name, words, func(versions []*entry) bool {
		for _, e := range versions {
			if e.Name == after.name && e.Version <= after.version || !q.selects(e, words) {
				continue
			}
			if len(page) == q.Limit {
				more = true
				return false
			}
			page = append(page, e)
		}
		return true
	})
	if !more {
		return page, "", nil
	}
	last := page[len(page)-1]
	next := position{name: last.Name, version: last.Version}
	if !q.UpdatedSince.IsZero() {
		next.until = q.until
	}
	return page, next.cursor(), nil
}

func (q Query) selects(e *entry, words []string) bool {
	switch {
	case e.Status == registry.Deleted && !q.IncludeDeleted,
		q.Version == "latest" && !e.latest,
		q.Version != "" && q.Version != "latest" && e.Version != q.Version,
		!q.UpdatedSince.IsZero() && (!e.UpdatedAt.After(q.UpdatedSince) || e.UpdatedAt.After(q.until)):
		return false
	}
	for _, w := range words {
		if !strings.Contains(e.Search, w) {
			return false
		}
	}
	return true
}

// position is the last version of a page.
type position struct {
	name, version string
	until         time.Time // of a list of what was changed; else zero
}

// maxCursor bounds a cursor, in bytes: a name, a version and a time in base64.
const maxCursor = 1 << 10

func (p position) cursor() string {
	text := p.name + "\n" + p.version
	if !p.until.IsZero() {
		text += "\n" + strconv.FormatInt(p.until.UnixMicro(), 10)
	}
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
	if len(parts) < 2 || len(parts) > 3 || !registry.ValidName(parts[0]) || parts[1] == "" {
		return position{}, ErrCursor
	}
	p := position{name: parts[0], version: parts[1]}
	if len(parts) == 3 {
		until, err := strconv.ParseInt(parts[2], 10, 64)
		if err != nil {
			return position{}, ErrCursor
		}
		p.until = time.UnixMicro(until).UTC()
	}
	return p, nil
}
