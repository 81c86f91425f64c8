// Package serverjson reads server.json, the official description of one version
// of a tool server (schema 2025-12-11), for the registry server, which keeps it
// as it was written and looks at what it must know.
//
// There are two readers. [Parse] is for what comes from elsewhere, a file or
// another registry: it refuses what could not be kept or found again, and passes
// over what it does not know, because the format grows. [Validate] is for what is
// published here: it holds a document to the official rules and reports all
// faults at once. What Validate accepts, Parse accepts.
package serverjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds on a document.
const (
	MaxSize     = 1 << 20 // bytes
	maxDepth    = 64
	maxName     = 200
	maxVersion  = 255
	maxTags     = 100
	maxTagBytes = 100
)

// Document is a server.json that has been read.
type Document struct {
	Name, Version, Title, Description string
	// Tags are those of the publisher's extensions that we understand.
	Tags []string
	// Raw is the document, compact, its members in the order they were written.
	Raw json.RawMessage
}

// Parse reads a document that somebody else vouches for.
func Parse(raw []byte) (Document, error) {
	members, err := object(raw)
	if err != nil {
		return Document{}, err
	}
	var doc Document
	for _, m := range []struct {
		name string
		into *string
	}{{"name", &doc.Name}, {"version", &doc.Version}, {"title", &doc.Title}, {"description", &doc.Description}} {
		if value, there := members[m.name]; there && (string(value) == "null" || json.Unmarshal(value, m.into) != nil) {
			return Document{}, fmt.Errorf("%s: it must be a text", m.name)
		}
	}
	if problem := nameProblem(doc.Name); problem != "" {
		return Document{}, fmt.Errorf("name %.100q: %s", doc.Name, problem)
	}
	if problem := versionProblem(doc.Version); problem != "" {
		return Document{}, fmt.Errorf("%s: version %.100q: %s", doc.Name, doc.Version, problem)
	}
	doc.Tags = tags(members["_meta"])
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return Document{}, err
	}
	doc.Raw = compact.Bytes()
	return doc, nil
}

// object takes a document for one JSON object that every reader understands
// alike and every database can keep.
func object(raw []byte) (map[string]json.RawMessage, error) {
	switch {
	case len(raw) > MaxSize:
		return nil, fmt.Errorf("it is larger than %d bytes", MaxSize)
	case !utf8.Valid(raw):
		return nil, errors.New("it is not UTF-8")
	case !json.Valid(raw):
		return nil, errors.New("it is not JSON")
	}
	if err := (&scanner{text: raw}).document(); err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return nil, errors.New("it is not a JSON object")
	}
	return members, nil
}

// namePattern is the official one, both parts beginning with a letter or digit
// as ours do: a part is a segment of a path.
var namePattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9.-]*/[a-zA-Z0-9][a-zA-Z0-9._-]*$`)

func nameProblem(name string) string {
	switch {
	case name == "":
		return "it is required"
	case len(name) > maxName:
		return fmt.Sprintf("it is longer than %d characters", maxName)
	case !namePattern.MatchString(name):
		return "it must be namespace/name, of letters, digits, dots and dashes (the name: underscores too)"
	}
	return ""
}

// ranges are how other ecosystems write a range; a registry's version is one.
var ranges = regexp.MustCompile(`^(\^|~|>|<|=|\*|[xX]$)|\|\||(^|[.\d])[*]|\.[xX](\.|$)| - `)

func versionProblem(version string) string {
	switch {
	case version == "":
		return "it is required"
	case len(version) > maxVersion:
		return fmt.Sprintf("it is longer than %d bytes", maxVersion)
	case version == "latest":
		return "latest is what the registry calls the newest version"
	case ranges.MatchString(version):
		return "it is a range, and must be one version"
	case strings.ContainsFunc(version, func(r rune) bool {
		return r <= ' ' || r == 0x7f || r == utf8.RuneError || strings.ContainsRune(`/\%@?#`, r)
	}):
		return `it has a character that a path cannot hold (blank, / \ % @ ? #)`
	}
	return ""
}

// publisherProvided is where a publisher adds to server.json.
const publisherProvided = "io.modelcontextprotocol.registry/publisher-provided"

// ourBlock is our own part of it; every other publisher has one block for each
// image reference or URL.
const ourBlock = "dev.toolhaven"

// tags gathers the tags that publishers gave, each once, in the order of their
// names; what is not understood is passed over.
func tags(meta json.RawMessage) []string {
	var extensions map[string]json.RawMessage
	var publishers map[string]json.RawMessage
	if len(meta) == 0 || json.Unmarshal(meta, &extensions) != nil || json.Unmarshal(extensions[publisherProvided], &publishers) != nil {
		return nil
	}
	var out []string
	take := func(block json.RawMessage) {
		var members map[string]json.RawMessage
		var list []string
		if json.Unmarshal(block, &members) != nil || json.Unmarshal(members["tags"], &list) != nil {
			return
		}
		for _, tag := range list {
			if tag != "" && len(tag) <= maxTagBytes && len(out) < maxTags && !slices.Contains(out, tag) {
				out = append(out, tag)
			}
		}
	}
	for _, publisher := range slices.Sorted(maps.Keys(publishers)) {
		if publisher == ourBlock {
			take(publishers[publisher])
			continue
		}
		var blocks map[string]json.RawMessage
		if json.Unmarshal(publishers[publisher], &blocks) != nil {
			continue
		}
		for _, ref := range slices.Sorted(maps.Keys(blocks)) {
			take(blocks[ref])
		}
	}
	return out
}
