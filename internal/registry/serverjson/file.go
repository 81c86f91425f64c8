package serverjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/toolhaven/toolhaven/internal/registry"
)

// FromFile reads the servers of a registry file in either format (the older one
// is converted, see convert), of a page of the registry API, of a list of
// server.json, or of one server.json. An entry that cannot be used is left out;
// the reasons name its line or its place. The error is of the file as a whole.
func FromFile(content []byte) ([]Document, registry.LeftOut, error) {
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	g := gatherer{seen: map[[2]string]bool{}}
	if bytes.HasPrefix(bytes.TrimLeft(content, " \t\r\n"), []byte("[")) {
		var list []json.RawMessage
		if err := json.Unmarshal(content, &list); err != nil {
			return nil, g.leftOut, fmt.Errorf("it is not JSON: %w", err)
		}
		for i, raw := range list {
			g.server(i, raw)
		}
		return g.documents, g.leftOut, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(content, &members); err != nil || members == nil {
		return nil, g.leftOut, errors.New("it is neither a JSON object nor a list")
	}
	_, isWrapped := members["data"]
	_, isRemotes := members["remote_servers"]
	servers, hasServers := members["servers"]
	var err error
	switch {
	case hasServers && bytes.HasPrefix(bytes.TrimSpace(servers), []byte("[")):
		err = g.page(servers)
	case isWrapped, hasServers, isRemotes:
		err = g.file(content)
	case len(members["name"]) > 0:
		g.server(0, content)
	default:
		err = errors.New(`it is neither a registry file ("data", or "servers" and "remote_servers") nor a server.json ("name")`)
	}
	return g.documents, g.leftOut, err
}

// gatherer collects the documents of a file; a name has each version once.
type gatherer struct {
	documents []Document
	leftOut   registry.LeftOut
	seen      map[[2]string]bool
}

// server reads the i-th of a list of documents.
func (g *gatherer) server(i int, raw []byte) {
	entry, err := registry.ParseServer(raw)
	if err == nil {
		err = g.add(raw, entry, false)
	}
	if err != nil {
		g.leftOut.Add(fmt.Errorf("server %d: %w", i+1, err))
	}
}

// add reads a document, of which entry is what a client reads.
func (g *gatherer) add(raw []byte, entry *registry.Entry, mayRepeat bool) error {
	doc, err := Parse(raw)
	if err != nil {
		return err
	}
	doc.Status = entry.Status
	key := [2]string{doc.Name, doc.Version}
	switch {
	case !g.seen[key]:
		g.seen[key] = true
		g.documents = append(g.documents, doc)
	case !mayRepeat:
		return fmt.Errorf("%s %s is listed twice", doc.Name, doc.Version)
	}
	return nil
}

// page reads the servers of {servers: [{server, _meta}]} (registry API v0.1).
func (g *gatherer) page(servers json.RawMessage) error {
	var items []json.RawMessage
	if err := json.Unmarshal(servers, &items); err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	for i, raw := range items {
		var item struct {
			Server json.RawMessage `json:"server"`
		}
		if err := json.Unmarshal(raw, &item); err != nil || item.Server == nil {
			g.leftOut.Add(fmt.Errorf("servers[%d] has no server", i))
			continue
		}
		g.server(i, item.Server)
	}
	return nil
}

// file reads a registry file in either of its formats.
func (g *gatherer) file(content []byte) error {
	f, err := registry.ReadFile(content)
	if err != nil {
		return err
	}
	g.leftOut.Others = f.Others
	older := map[string]*converted{}
	for _, raw := range f.Entries {
		entry, err := raw.Read()
		switch {
		case err != nil: // it has the line
			g.leftOut.Add(err)
			continue
		case raw.Key != "":
			err = addOlder(older, raw.Key, raw.Raw(), entry.Status)
		default:
			err = g.add(raw.Raw(), entry, raw.InGroup)
		}
		if err != nil {
			g.leftOut.Add(raw.Fault(err))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(older)) {
		if err := g.converted(older[name]); err != nil {
			g.leftOut.Add(fmt.Errorf("server %.100q: %w", name, err))
		}
	}
	return nil
}

// converted reads an entry of the older format once it is a document.
func (g *gatherer) converted(s *converted) error {
	raw, err := marshal(s)
	if err != nil {
		return err
	}
	return g.add(raw, &registry.Entry{Status: s.status}, false)
}
