package serverjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/toolhaven/toolhaven/internal/registry"
)

// FromFile reads the servers of a registry file in either format (the older one
// is converted, see convert), of a registry's answer, of a list of server.json,
// or of one server.json. Errors name the line or the server.
func FromFile(content []byte) ([]Document, error) {
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	if bytes.HasPrefix(bytes.TrimLeft(content, " \t\r\n"), []byte("[")) {
		var list []json.RawMessage
		if err := json.Unmarshal(content, &list); err != nil {
			return nil, fmt.Errorf("it is not JSON: %w", err)
		}
		return parseAll(list)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(content, &members); err != nil || members == nil {
		return nil, errors.New("it is neither a JSON object nor a list")
	}
	_, isWrapped := members["data"]
	_, isRemotes := members["remote_servers"]
	servers, hasServers := members["servers"]
	switch {
	case hasServers && bytes.HasPrefix(bytes.TrimSpace(servers), []byte("[")):
		return fromAnswer(servers)
	case isWrapped, hasServers, isRemotes:
		// The one reader of registry files says what is wrong with one, and where.
		if _, err := registry.Parse(content); err != nil {
			return nil, err
		}
		if isWrapped {
			return fromWrapped(members["data"])
		}
		return fromOlder(content)
	case len(members["name"]) > 0:
		return parseAll([]json.RawMessage{content})
	}
	return nil, errors.New(`it is neither a registry file ("data", or "servers" and "remote_servers") nor a server.json ("name")`)
}

// parseAll reads documents; a name has each version once.
func parseAll(list []json.RawMessage) ([]Document, error) {
	out := make([]Document, 0, len(list))
	seen := map[[2]string]bool{}
	for i, raw := range list {
		doc, err := Parse(raw)
		if err != nil {
			return nil, fmt.Errorf("server %d: %w", i+1, err)
		}
		key := [2]string{doc.Name, doc.Version}
		if seen[key] {
			return nil, fmt.Errorf("server %d: %s %s is there twice", i+1, doc.Name, doc.Version)
		}
		seen[key] = true
		out = append(out, doc)
	}
	return out, nil
}

// fromAnswer reads the servers of {servers: [{server, _meta}]} (registry API v0.1).
func fromAnswer(servers json.RawMessage) ([]Document, error) {
	var items []map[string]json.RawMessage
	if err := json.Unmarshal(servers, &items); err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	list := make([]json.RawMessage, len(items))
	for i, item := range items {
		if list[i] = item["server"]; list[i] == nil {
			return nil, fmt.Errorf("servers[%d] has no server", i)
		}
	}
	return parseAll(list)
}

func fromWrapped(data json.RawMessage) ([]Document, error) {
	var d struct {
		Servers []json.RawMessage `json:"servers"`
		Groups  []struct {
			Servers []json.RawMessage `json:"servers"`
		} `json:"groups"`
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	documents, err := parseAll(d.Servers)
	if err != nil {
		return nil, err
	}
	seen := map[[2]string]bool{}
	for _, doc := range documents {
		seen[[2]string{doc.Name, doc.Version}] = true
	}
	for _, g := range d.Groups {
		members, err := parseAll(g.Servers)
		if err != nil {
			return nil, fmt.Errorf("a group: %w", err)
		}
		for _, doc := range members {
			// A group may repeat servers that stand outside it.
			if key := [2]string{doc.Name, doc.Version}; !seen[key] {
				seen[key] = true
				documents = append(documents, doc)
			}
		}
	}
	return documents, nil
}
