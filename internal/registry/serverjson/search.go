package serverjson

import "strings"

// maxSearched bounds how much of a title or a description is searched, in bytes:
// an index holds this text of every server.
const maxSearched = 4 << 10

// Search is the text that a search looks at, lower-cased by [strings.ToLower]:
// name, title, description and tags, one a line.
func Search(doc Document) string {
	lines := make([]string, 0, 3+len(doc.Tags))
	for _, text := range append([]string{doc.Name, doc.Title, doc.Description}, doc.Tags...) {
		if len(text) > maxSearched {
			text = strings.ToValidUTF8(text[:maxSearched], "")
		}
		if text != "" {
			lines = append(lines, strings.ToLower(text))
		}
	}
	return strings.Join(lines, "\n")
}
