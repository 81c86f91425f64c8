// Package serverjson reads server.json, the official description of one version
// of a tool server (schema 2025-12-11), for the registry server. The server stores
// a document as it was written and reads the members that it needs.
//
// There are two readers. [Parse] is for documents from elsewhere, a file or
// another registry: it rejects those that could not be stored or addressed, and
// ignores unknown members, because the format grows. [Validate] is for documents
// that are published here: it checks them against the official rules and reports
// all faults at once. What Validate accepts, Parse accepts, and so do our clients.
//
// [FromFile] reads registry files, in either of their formats, as such documents.
package serverjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolhaven/toolhaven/internal/registry"
)

// Bounds on a document.
const (
	MaxSize    = 1 << 20 // bytes
	maxDepth   = 64
	maxName    = 200
	maxVersion = registry.MaxVersion
)

// Document is a server.json that has been read.
type Document struct {
	Name, Version, Title, Description string
	// Tags are those of the publisher's extensions that we understand.
	Tags []string
	// Status of a document from a file: active, deprecated or deleted. "" elsewhere.
	Status string
	// Raw is the document, compact, its members in the order they were written
	// and its numbers as they were written.
	Raw json.RawMessage
}

// SearchText is the text that a search looks at (see [registry.SearchText]).
func (d Document) SearchText() string {
	return registry.SearchText(d.Name, d.Title, d.Description, d.Tags)
}

// Parse reads a document from another registry or a file.
func Parse(raw []byte) (Document, error) {
	s, err := object(raw)
	if err != nil {
		return Document{}, err
	}
	var doc Document
	for _, m := range []struct {
		name string
		into *string
	}{{"name", &doc.Name}, {"version", &doc.Version}, {"title", &doc.Title}, {"description", &doc.Description}} {
		// A null, as some programs write what is not there, is nothing.
		if value := find(s.members, m.name); value != nil && json.Unmarshal(value, m.into) != nil {
			return Document{}, fmt.Errorf("%s: it must be a text", m.name)
		}
	}
	if problem := nameProblem(doc.Name); problem != "" {
		return Document{}, fmt.Errorf("name %.100q: %s", doc.Name, problem)
	}
	if problem := versionProblem(doc.Version); problem != "" {
		return Document{}, fmt.Errorf("%s: version %.100q: %s", doc.Name, doc.Version, problem)
	}
	doc.Tags = tags(find(s.members, "_meta"))
	// A copy, so that it keeps no larger text alive that it is a part of.
	doc.Raw = bytes.Clone(s.compact)
	return doc, nil
}

// Members are those of a JSON object that is not a document, taken as strictly:
// UTF-8, no member twice, no half of a character, no NUL, nothing after its end.
func Members(raw []byte) (map[string]json.RawMessage, error) {
	s, err := object(raw)
	if err != nil {
		return nil, err
	}
	members := make(map[string]json.RawMessage, len(s.members))
	for _, m := range s.members {
		members[m.name] = m.value
	}
	return members, nil
}

// object reads a document as one JSON object within bounds.
func object(raw []byte) (scanned, error) {
	if len(raw) > MaxSize {
		return scanned{}, fmt.Errorf("it is larger than %d bytes", MaxSize)
	}
	s, err := scan(raw, maxDepth)
	if err != nil {
		return scanned{}, err
	}
	if s.compact[0] != '{' {
		return scanned{}, errors.New("it is not a JSON object")
	}
	return s, nil
}

// namePattern is the official one, both parts beginning with a letter or digit
// as required here: a part is a segment of a path.
var namePattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9.-]*/[a-zA-Z0-9][a-zA-Z0-9._-]*$`)

func nameProblem(name string) string {
	switch {
	case name == "":
		return "it is required"
	case len(name) > maxName:
		return fmt.Sprintf("it is longer than %d characters", maxName)
	case !namePattern.MatchString(name):
		return "it must be namespace/name, of letters, digits, dots and dashes (the name: underscores too), both beginning with a letter or digit"
	}
	return ""
}

// ranges are how ecosystems write a range; a registry's version is one version.
var ranges = regexp.MustCompile(`^[\^~><=*\[(]|^[xX]$|\|\||(^|\.)[*]|\.[xX](\.|$)| - `)

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
	case version == "." || version == "..":
		return "in a path it is no version (RFC 3986 section 5.2.4)"
	case strings.ContainsFunc(version, func(r rune) bool {
		return !unicode.IsPrint(r) || r == ' ' || r == utf8.RuneError || strings.ContainsRune(`/\%@?#`, r)
	}):
		return `it has a character that a path cannot hold (blank, / \ % @ ? #)`
	}
	return ""
}
