package serverjson

import (
	"cmp"
	"encoding/json"
	"slices"
)

// publisherProvided is where a publisher adds to server.json.
const publisherProvided = "io.modelcontextprotocol.registry/publisher-provided"

// ourBlock is our own part of it; every other publisher has one block for each
// image reference or URL.
const ourBlock = "dev.toolhaven"

// Bounds on tags; what is beyond them is passed over.
const (
	maxTags     = 100
	maxTagBytes = 100
)

// tags gathers the tags that publishers gave, each once, in the order of the
// publishers' names and references; what is not understood is passed over.
func tags(meta json.RawMessage) []string {
	publishers := objectIn(find(objectIn(meta), publisherProvided))
	var out []string
	take := func(block json.RawMessage) {
		raw := find(objectIn(block), "tags")
		var list []string
		if raw == nil || json.Unmarshal(raw, &list) != nil {
			return
		}
		for _, tag := range list {
			if tag != "" && len(tag) <= maxTagBytes && len(out) < maxTags && !slices.Contains(out, tag) {
				out = append(out, tag)
			}
		}
	}
	byName := func(a, b member) int { return cmp.Compare(a.name, b.name) }
	for _, publisher := range slices.SortedFunc(slices.Values(publishers), byName) {
		if publisher.name == ourBlock {
			take(publisher.value)
			continue
		}
		for _, block := range slices.SortedFunc(slices.Values(objectIn(publisher.value)), byName) {
			take(block.value)
		}
	}
	return out
}

// objectIn are the members of a value that has been scanned; none when it is no
// object.
func objectIn(value json.RawMessage) []member {
	if len(value) == 0 || value[0] != '{' {
		return nil
	}
	s, err := scan(value, maxDepth)
	if err != nil {
		return nil
	}
	return s.members
}
