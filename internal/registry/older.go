package registry

import (
	"fmt"
	"net"
	"strconv"
)

// Keys of the older format (ToolHive's registry.json).
var (
	olderRoot   = []string{"$schema", "version", "last_updated", "servers", "remote_servers", "groups"}
	olderCommon = []string{
		"name", "title", "description", "tier", "status", "transport", "stateless", "tools", "metadata", "repository_url",
		"tags", "overview", "tool_definitions", "custom_metadata", "proxy_port", "env_vars",
	}
	olderImage  = append([]string{"image", "target_port", "permissions", "args", "docker_tags", "provenance"}, olderCommon...)
	olderRemote = append([]string{"url", "headers", "oauth_config"}, olderCommon...)
	olderKeys   = []string{"name", "description", "required", "default", "secret", "choices"}
)

// olderServer is an entry of the older format; the key it stands under is its
// name.
type olderServer struct {
	block
	Title       string       `json:"title"`
	Description string       `json:"description"`
	Repository  string       `json:"repository_url"`
	Transport   string       `json:"transport"`
	Image       string       `json:"image"`
	TargetPort  int          `json:"target_port"`
	URL         string       `json:"url"`
	Headers     []OlderInput `json:"headers"`
}

// OlderInput is a variable or header of the older format, as it is written there.
type OlderInput struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Required    bool     `json:"required"`
	Default     string   `json:"default"`
	Secret      bool     `json:"secret"`
	Choices     []string `json:"choices"`
}

func (v OlderInput) keyValue() KeyValue {
	return KeyValue{Name: v.Name, Input: Input{
		Description: v.Description, IsRequired: v.Required, Default: v.Default, IsSecret: v.Secret, Choices: v.Choices,
	}}
}

func keyValues(list []OlderInput) []KeyValue {
	var out []KeyValue
	for _, v := range list {
		out = append(out, v.keyValue())
	}
	return out
}

// parseOlder reads the older format:
//
//	{version, last_updated, servers: {name: image}, remote_servers: {name: remote}, groups}
func parseOlder(doc node) ([]*Entry, error) {
	root, err := doc.fields("a registry file", olderRoot)
	if err != nil {
		return nil, err
	}
	all := &older{byName: map[string]*Entry{}}
	if err := all.addGroup(root); err != nil {
		return nil, err
	}
	if groups, ok := root["groups"]; ok && !groups.isNull() {
		list, err := groups.elements("groups")
		if err != nil {
			return nil, err
		}
		for _, group := range list {
			g, err := group.fields("a group", []string{"name", "description", "servers", "remote_servers"})
			if err != nil {
				return nil, err
			}
			if err := all.addGroup(g); err != nil {
				return nil, err
			}
		}
	}
	return all.list, nil
}

// older gathers entries by name. A group may repeat a server that stands outside
// it; the first counts.
type older struct {
	list   []*Entry
	byName map[string]*Entry
}

func (all *older) addGroup(g map[string]node) error {
	for _, part := range []struct {
		key  string
		keys []string
	}{{"servers", olderImage}, {"remote_servers", olderRemote}} {
		at, ok := g[part.key]
		if !ok || at.isNull() {
			continue
		}
		members, err := at.members(part.key)
		if err != nil {
			return err
		}
		for _, m := range members {
			if err := all.add(m, part.keys); err != nil {
				return err
			}
		}
	}
	return nil
}

func (all *older) add(m member, keys []string) error {
	what := fmt.Sprintf("server %.100q", m.key)
	fields, err := m.value.fields(what, keys)
	if err != nil {
		return err
	}
	for _, list := range []string{"env_vars", "headers"} {
		if at, ok := fields[list]; ok && !at.isNull() {
			if err := checkOlderInputs(what+": "+list, at); err != nil {
				return err
			}
		}
	}
	var s olderServer
	if err := m.value.decode(what, &s); err != nil {
		return err
	}
	e, err := s.entry(m.key)
	if err == nil {
		err = e.check()
	}
	if err != nil {
		return m.value.fault("%s: %w", what, err)
	}
	if known := all.byName[e.Name]; known == nil {
		all.byName[e.Name] = e
		all.list = append(all.list, e)
	} else if len(known.Remotes) == 0 && len(e.Remotes) > 0 {
		// A server may be there as an image and as a remote.
		known.Remotes = e.Remotes
	}
	return nil
}

func checkOlderInputs(what string, list node) error {
	items, err := list.elements(what)
	if err != nil {
		return err
	}
	for _, item := range items {
		if _, err := item.fields(what, olderKeys); err != nil {
			return err
		}
	}
	return nil
}

func (s *olderServer) entry(name string) (*Entry, error) {
	e := &Entry{Name: name, Title: s.Title, Description: s.Description, Repository: s.Repository}
	e.describe(&s.block)
	hints := s.hints()
	if s.Image == "" && s.URL == "" {
		return nil, fmt.Errorf("there is neither an image nor a URL")
	}
	if s.URL != "" {
		if s.Transport == "" {
			s.Transport = "streamable-http"
		}
		e.Remotes = []Remote{{Type: s.Transport, URL: s.URL, Headers: keyValues(s.Headers), Hints: hints}}
		return e, nil
	}
	// The variables of an image are its package's, not a hint.
	hints.Environment = nil
	p := Package{RegistryType: "oci", Identifier: s.Image, Transport: Transport{Type: s.Transport}, Environment: keyValues(s.Environment), Hints: hints}
	if s.TargetPort < 0 || s.TargetPort > 65535 {
		return nil, fmt.Errorf("target_port %d is not a port", s.TargetPort)
	}
	if s.TargetPort > 0 && s.Transport != "stdio" {
		p.Transport.URL = "http://" + net.JoinHostPort("localhost", strconv.Itoa(s.TargetPort))
	}
	e.Packages = []Package{p}
	return e, nil
}
