// Package serverjson reads server.json, the official description of one version
// of a tool server (schema 2025-12-11), for the registry server, which keeps it
// as it was written and looks at what it must know.
package serverjson

import "encoding/json"

// Document is a server.json that has been read.
type Document struct {
	Name, Version, Title, Description string
	// Tags are those of the publisher's extensions that we understand.
	Tags []string
	// Raw is the document, compact, its members in the order they were written.
	Raw json.RawMessage
}
