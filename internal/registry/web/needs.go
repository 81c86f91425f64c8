package web

import (
	"maps"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/registry/runline"
)

// way is one way to run a server: a package or a remote.
type way struct {
	Kind, Identifier string
	Version          string
	Transport        string
	Chosen           bool // thv run without flags uses it
	Needs            []need
	MoreNeeds        int
	Permissions      []string
}

// need is a setting of a server: a variable, a header, an argument, or a part of its
// address.
type need struct {
	What        string
	Name        string
	Description string
	Required    bool
	Secret      bool
	Default     string
	Fixed       string
	Choices     []string
}

// maxWays bounds the shown packages and remotes.
const maxWays = 20

func ways(e *registry.Entry) []way {
	pkg, remote := runline.Chosen(e)
	var out []way
	for i := range e.Packages {
		p := &e.Packages[i]
		w := way{
			Kind: kind(p.RegistryType), Identifier: clean(p.Identifier, maxShown), Version: clean(p.Version, maxLabel),
			Transport: clean(p.Transport.Type, 40), Chosen: p == pkg, Permissions: permissions(p.Hints.Permissions),
		}
		w.Kind = clean(w.Kind, 40)
		for _, kv := range p.Environment {
			w.add("Variable", kv.Name, kv.Input)
		}
		for _, a := range p.PackageArguments {
			w.add("Argument", argumentName(a), a.Input)
		}
		for _, text := range p.Hints.Args {
			w.add("Argument", text, registry.Input{})
		}
		if p.RegistryType == "oci" {
			for _, a := range p.RuntimeArguments {
				w.add("Container option", argumentName(a), a.Input)
			}
		}
		out = append(out, w)
	}
	for i := range e.Remotes {
		m := &e.Remotes[i]
		w := way{Kind: "remote", Identifier: clean(m.URL, maxShown), Transport: clean(m.Type, 40), Chosen: m == remote}
		w.Permissions = []string{"It runs elsewhere. It sees what clients send to it, and nothing else of your machine."}
		for _, kv := range m.Headers {
			w.add("Header", kv.Name, kv.Input)
		}
		for _, name := range slices.Sorted(maps.Keys(m.Variables)) {
			w.add("Part of the address", name, m.Variables[name])
		}
		if len(m.Hints.OAuth) > 0 {
			w.Permissions = append(w.Permissions, "It requires you to sign in with OAuth.")
		}
		out = append(out, w)
	}
	out, _ = runline.Some(out, maxWays)
	return out
}

func (w *way) add(what, name string, in registry.Input) {
	if len(w.Needs) == maxListed {
		w.MoreNeeds++
		return
	}
	n := need{
		What: what, Name: clean(name, maxLabel), Description: clean(in.Description, maxProse), Required: in.IsRequired,
		Secret: in.IsSecret, Default: clean(in.Default, maxLabel), Fixed: clean(in.Value, maxLabel), Choices: labels(in.Choices),
	}
	for _, name := range slices.Sorted(maps.Keys(in.Variables)) {
		v := in.Variables[name]
		n.Secret = n.Secret || v.IsSecret
		n.Required = n.Required || v.IsRequired && in.Value != ""
		if n.Description == "" {
			n.Description = clean(v.Description, maxProse)
		}
	}
	if n.Fixed == n.Name { // a positional argument without a name
		n.Fixed = ""
	}
	if n.Secret { // a value in a document is public, and still hidden here
		n.Default = hide(n.Default)
		if !strings.Contains(n.Fixed, "{") {
			n.Fixed = hide(n.Fixed)
		}
	}
	w.Needs = append(w.Needs, n)
}

func hide(text string) string {
	if text == "" {
		return ""
	}
	return "(hidden)"
}

func argumentName(a registry.Argument) string {
	switch {
	case a.Name != "":
		return a.Name
	case a.ValueHint != "":
		return a.ValueHint
	}
	return a.Value
}
