package serverjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolhaven/toolhaven/internal/settings"
)

// Fault is one thing wrong with a document.
type Fault struct {
	Pointer string `json:"pointer"` // where (RFC 6901); "" is the whole
	Message string `json:"message"`
}

// Faults is everything that is wrong with a document.
type Faults struct{ List []Fault }

func (f *Faults) Error() string {
	lines := make([]string, len(f.List))
	for i, fault := range f.List {
		lines[i] = strings.TrimPrefix(fault.Pointer+": "+fault.Message, ": ")
	}
	return strings.Join(lines, "\n")
}

// schema is the one that documents follow.
const schema = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"

// maxPublisherMeta bounds what a publisher adds, in bytes.
const maxPublisherMeta = 256 << 10

// maxFaults ends a report that would have no end.
const maxFaults = 100

// Validate reads a document that is to be published, and holds it to the official
// rules. The error is a *Faults.
func Validate(raw []byte) (Document, error) {
	if _, err := object(raw); err != nil {
		return Document{}, &Faults{[]Fault{{"", err.Error()}}}
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var whole map[string]any
	if err := dec.Decode(&whole); err != nil {
		return Document{}, &Faults{[]Fault{{"", "it is not a JSON object"}}}
	}
	c := &checker{}
	c.server(whole)
	if len(c.faults) > 0 {
		slices.SortStableFunc(c.faults, func(a, b Fault) int { return strings.Compare(a.Pointer, b.Pointer) })
		return Document{}, &Faults{c.faults}
	}
	doc, err := Parse(raw)
	if err != nil {
		return Document{}, &Faults{[]Fault{{"", err.Error()}}}
	}
	return doc, nil
}

// checker gathers faults.
type checker struct{ faults []Fault }

func (c *checker) add(pointer, format string, args ...any) {
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, Fault{pointer, fmt.Sprintf(format, args...)})
	}
}

// below is the pointer to a member (RFC 6901 section 3).
func below(pointer, member string) string {
	return pointer + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(member)
}

func item(pointer string, i int) string { return pointer + "/" + strconv.Itoa(i) }

// object takes v for an object with these members and no others.
func (c *checker) object(pointer string, v any, known ...string) map[string]any {
	o, ok := v.(map[string]any)
	if !ok {
		c.add(pointer, "it must be an object")
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(o)) {
		if slices.Contains(known, key) {
			continue
		}
		if near := settings.Nearest(key, known); near != "" {
			c.add(below(pointer, key), "there is no such member; did you mean %s?", near)
		} else {
			c.add(below(pointer, key), "there is no such member; there are: %s", strings.Join(known, ", "))
		}
	}
	return o
}

// each visits the objects of a list that may be left out.
func (c *checker) each(pointer string, o map[string]any, key string, visit func(pointer string, v any)) {
	v, there := o[key]
	if !there {
		return
	}
	list, ok := v.([]any)
	if !ok {
		c.add(below(pointer, key), "it must be a list")
		return
	}
	for i, e := range list {
		visit(item(below(pointer, key), i), e)
	}
}

// text is a member that is a text of at most max characters; need means that it
// cannot be left out or empty.
func (c *checker) text(pointer string, o map[string]any, key string, need bool, max int) string {
	v, there := o[key]
	at := below(pointer, key)
	if !there {
		if need {
			c.add(at, "it is required")
		}
		return ""
	}
	s, ok := v.(string)
	switch {
	case !ok:
		c.add(at, "it must be a text")
	case need && strings.TrimSpace(s) == "":
		c.add(at, "it must not be empty")
	case utf8.RuneCountInString(s) > max:
		c.add(at, "it is longer than %d characters", max)
	case strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' }):
		c.add(at, "it has a control character")
	default:
		return s
	}
	return ""
}

func (c *checker) oneOf(pointer string, o map[string]any, key string, need bool, values ...string) string {
	s := c.text(pointer, o, key, need, 100)
	if s != "" && !slices.Contains(values, s) {
		c.add(below(pointer, key), "it must be one of %s", strings.Join(values, ", "))
		return ""
	}
	return s
}

func (c *checker) flag(pointer string, o map[string]any, key string) bool {
	v, there := o[key]
	b, ok := v.(bool)
	if there && !ok {
		c.add(below(pointer, key), "it must be true or false")
	}
	return b
}

// webURL is a member that is an absolute http or https URL.
func (c *checker) webURL(pointer string, o map[string]any, key string, need bool, schemes ...string) string {
	s := c.text(pointer, o, key, need, 2048)
	if s == "" {
		return ""
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || !slices.Contains(schemes, u.Scheme) || u.Host == "":
		c.add(below(pointer, key), "it must be an absolute URL (%s)", strings.Join(schemes, " or "))
		return ""
	case u.User != nil:
		c.add(below(pointer, key), "it must not hold a user or a password")
		return ""
	}
	return s
}

func (c *checker) server(o map[string]any) {
	c.object("", o, "$schema", "name", "description", "version", "title", "repository", "websiteUrl", "icons", "packages", "remotes", "_meta")
	if s := c.text("", o, "$schema", false, 300); s != "" && s != schema {
		c.add("/$schema", "it must be %s", schema)
	}
	if _, isText := o["name"].(string); isText || o["name"] == nil {
		if problem := nameProblem(c.text("", o, "name", false, 10*maxName)); problem != "" {
			c.add("/name", "%s", problem)
		}
	} else {
		c.add("/name", "it must be a text")
	}
	if _, isText := o["version"].(string); isText || o["version"] == nil {
		if problem := versionProblem(c.text("", o, "version", false, 10*maxVersion)); problem != "" {
			c.add("/version", "%s", problem)
		}
	} else {
		c.add("/version", "it must be a text")
	}
	c.text("", o, "description", true, 100)
	if _, there := o["title"]; there {
		c.text("", o, "title", true, 100)
	}
	c.webURL("", o, "websiteUrl", false, "https", "http")
	if v, there := o["repository"]; there {
		if r := c.object("/repository", v, "url", "source", "id", "subfolder"); r != nil {
			c.webURL("/repository", r, "url", true, "https", "http")
			c.text("/repository", r, "source", true, 100)
			c.text("/repository", r, "id", false, 200)
			c.text("/repository", r, "subfolder", false, 500)
		}
	}
	c.each("", o, "icons", c.icon)
	c.each("", o, "packages", c.pkg)
	c.each("", o, "remotes", func(at string, v any) { c.transport(at, v, true) })
	c.meta(o["_meta"])
}

var iconSize = regexp.MustCompile(`^(\d+x\d+|any)$`)

func (c *checker) icon(at string, v any) {
	o := c.object(at, v, "src", "mimeType", "sizes", "theme")
	if o == nil {
		return
	}
	if src := c.webURL(at, o, "src", true, "https"); len(src) > 255 {
		c.add(below(at, "src"), "it is longer than 255 characters")
	}
	c.oneOf(at, o, "mimeType", false, "image/png", "image/jpeg", "image/jpg", "image/svg+xml", "image/webp")
	c.oneOf(at, o, "theme", false, "light", "dark")
	c.each(at, o, "sizes", func(at string, v any) {
		if s, ok := v.(string); !ok || !iconSize.MatchString(s) {
			c.add(at, `it must be WIDTHxHEIGHT or "any"`)
		}
	})
}

func (c *checker) meta(v any) {
	if v == nil {
		return
	}
	o := c.object("/_meta", v, publisherProvided)
	if extension, there := o[publisherProvided]; there {
		at := below("/_meta", publisherProvided)
		if _, ok := extension.(map[string]any); !ok {
			c.add(at, "it must be an object")
		}
		if b, err := json.Marshal(extension); err != nil || len(b) > maxPublisherMeta {
			c.add(at, "it is larger than %d bytes", maxPublisherMeta)
		}
	}
}
