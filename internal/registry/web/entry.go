package web

import (
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/registry/catalog"
	"github.com/toolhaven/toolhaven/internal/registry/runline"
)

// card is a server in a list.
type card struct {
	URL, Name, Title, Description, Version string
	Kinds, Tags                            []string
	MoreTags                               int
	Status                                 string // "" for an active one
}

const (
	maxCardTags = 5
	maxCardText = 240
)

func newCard(server catalog.Server, url string) card {
	c := card{URL: url, Name: clean(server.Name, maxLabel), Version: clean(server.Version.Version, maxLabel), Status: status(server)}
	c.Title = shortName(c.Name)
	entry, err := registry.ParseServer(server.Document)
	if err != nil {
		c.Description = "The document of this server cannot be read."
		return c
	}
	if title := clean(entry.Title, maxTitle); title != "" {
		c.Title = title
	}
	c.Description = clean(entry.Description, maxCardText)
	c.Kinds = kinds(entry)
	tags := slices.DeleteFunc(labels(entry.Tags), func(tag string) bool { return slices.Contains(c.Kinds, tag) })
	c.Tags, c.MoreTags = runline.Some(tags, maxCardTags)
	return c
}

// shortName is the title of a server without one: its name without the namespace.
func shortName(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

func status(server catalog.Server) string {
	if server.Status == registry.Active {
		return ""
	}
	return clean(server.Status, maxLabel)
}

// labels removes duplicates and texts without visible characters.
func labels(texts []string) []string {
	var out []string
	for _, t := range texts {
		if t = clean(t, 40); t != "" && !slices.Contains(out, t) {
			if out = append(out, t); len(out) == maxListed {
				break
			}
		}
	}
	return out
}

// kinds are the ways to run a server, named as in thv run.
func kinds(e *registry.Entry) []string {
	var out []string
	for i := range e.Packages {
		out = append(out, kind(e.Packages[i].RegistryType))
	}
	if len(e.Remotes) > 0 {
		out = append(out, "remote")
	}
	return labels(out)
}

func kind(registryType string) string {
	switch registryType {
	case "oci":
		return "container"
	case "npm":
		return "npx"
	case "pypi":
		return "uvx"
	}
	return registryType
}
