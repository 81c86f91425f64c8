package registry

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// publisherProvided is where server.json lets a publisher add to it.
const publisherProvided = "io.modelcontextprotocol.registry/publisher-provided"

// The blocks under publisherProvided that are read: ours, which describes how to run
// what the official registry types cannot, and ToolHive's, which holds one block
// for each image reference or URL.
const (
	ourBlock      = "dev.toolhaven"
	toolhiveBlock = "io.github.stacklok"
)

// block holds the members of ToolHive's formats beyond server.json, and ours.
type block struct {
	Package     string          `json:"package"`         // ours only: go://module/path@version
	System      []string        `json:"system_packages"` // ours only: what `apk add` or `apt-get install` takes
	Args        []string        `json:"args"`
	Status      string          `json:"status"`
	Tier        string          `json:"tier"`
	Tags        []string        `json:"tags"`
	Tools       []string        `json:"tools"`
	Permissions json.RawMessage `json:"permissions"`
	Provenance  json.RawMessage `json:"provenance"`
	ProxyPort   int             `json:"proxy_port"`
	Stateless   bool            `json:"stateless"`
	OAuth       json.RawMessage `json:"oauth_config"`
	Environment []OlderInput    `json:"env_vars"`
}

func (b *block) hints() Hints {
	h := Hints{
		Args: b.Args, Permissions: present(b.Permissions), Provenance: present(b.Provenance), OAuth: present(b.OAuth),
		ProxyPort: b.ProxyPort, Stateless: b.Stateless,
	}
	for _, v := range b.Environment {
		h.Environment = append(h.Environment, v.keyValue())
	}
	return h
}

// present drops a JSON null.
func present(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// describe applies the members of a block that are about the server as a whole.
func (e *Entry) describe(b *block) {
	if e.Tier == "" {
		e.Tier = b.Tier
	}
	if e.Status == "" {
		e.Status = b.Status
	}
	if len(e.Tags) == 0 {
		e.Tags = b.Tags
	}
	if len(e.Tools) == 0 {
		e.Tools = b.Tools
	}
}

// extend reads what the publisher added, where we understand it.
func (e *Entry) extend(meta json.RawMessage) error {
	if len(present(meta)) == 0 {
		return nil
	}
	var publishers map[string]json.RawMessage
	if err := json.Unmarshal(meta, &publishers); err != nil {
		return nil //nolint:nilerr // it is free to be anything
	}
	if raw, ok := publishers[ourBlock]; ok {
		if err := e.extendOurs(raw); err != nil {
			return fmt.Errorf("%s: %w", ourBlock, err)
		}
	}
	for _, publisher := range slices.Sorted(maps.Keys(publishers)) {
		var blocks map[string]json.RawMessage
		if publisher == ourBlock || json.Unmarshal(publishers[publisher], &blocks) != nil {
			continue
		}
		// ToolHive's own block belongs to the only package even when its key was
		// not kept in step with the identifier.
		only := publisher == toolhiveBlock && len(blocks) == 1 && len(e.Packages)+len(e.Remotes) == 1
		for _, ref := range slices.Sorted(maps.Keys(blocks)) {
			if err := e.extendOne(ref, blocks[ref], only); err != nil {
				return fmt.Errorf("%s: %w", publisher, err)
			}
		}
	}
	return nil
}

func (e *Entry) extendOne(ref string, raw json.RawMessage, only bool) error {
	var into []*Hints
	for i := range e.Packages {
		if only || e.Packages[i].Identifier == ref {
			into = append(into, &e.Packages[i].Hints)
		}
	}
	for i := range e.Remotes {
		if only || e.Remotes[i].URL == ref {
			into = append(into, &e.Remotes[i].Hints)
		}
	}
	if len(into) == 0 {
		return nil
	}
	var b block
	if err := json.Unmarshal(raw, &b); err != nil {
		return fmt.Errorf("%.200q: %w", ref, err)
	}
	for _, h := range into {
		*h = b.hints()
	}
	e.describe(&b)
	return nil
}

// extendOurs reads our own block, which speaks of the entry as a whole.
func (e *Entry) extendOurs(raw json.RawMessage) error {
	var b block
	if err := json.Unmarshal(raw, &b); err != nil {
		return err
	}
	if b.Package != "" {
		ref, ok := strings.CutPrefix(b.Package, "go://")
		if !ok {
			return fmt.Errorf("package %.200q: only go:// is read here; npm, PyPI and images have official registry types", b.Package)
		}
		name, version, _ := strings.Cut(ref, "@")
		e.Packages = append(e.Packages, Package{RegistryType: "go", Identifier: name, Version: version, Transport: Transport{Type: "stdio"}})
	}
	for i := range e.Packages {
		e.Packages[i].Hints = b.hints()
		e.Packages[i].Hints.SystemPackages = b.System
	}
	for i := range e.Remotes {
		e.Remotes[i].Hints = b.hints()
	}
	e.describe(&b)
	return nil
}
