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

// readOlder reads the structure of the older format:
//
//	{version, last_updated, servers: {name: image}, remote_servers: {name: remote}, groups}
//
// A group may repeat a server that is listed outside it; the first counts.
func (f *File) readOlder(members []member) error {
	root, err := onlyKnown("a registry file", members, olderRoot)
	if err != nil {
		return err
	}
	if err := f.addOlder(root, false); err != nil {
		return err
	}
	groups, ok := root["groups"]
	if !ok || groups.isNull() {
		return nil
	}
	list, err := groups.elements("groups")
	if err != nil {
		return err
	}
	for _, group := range list {
		g, err := group.fields("a group", []string{"name", "description", "servers", "remote_servers"})
		if err != nil {
			return err
		}
		if err := f.addOlder(g, true); err != nil {
			return err
		}
	}
	return nil
}

func (f *File) addOlder(g map[string]node, inGroup bool) error {
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
			f.Entries = append(f.Entries, FileEntry{Key: m.key, InGroup: inGroup, value: m.value, keys: part.keys})
		}
	}
	return nil
}

// readOlder reads an entry of the older format.
func readOlder(raw FileEntry) (*Entry, error) {
	what := fmt.Sprintf("server %.100q", raw.Key)
	fields, err := raw.value.fields(what, raw.keys)
	if err != nil {
		return nil, err
	}
	for _, list := range []string{"env_vars", "headers"} {
		if at, ok := fields[list]; ok && !at.isNull() {
			if err := checkOlderInputs(what+": "+list, at); err != nil {
				return nil, err
			}
		}
	}
	var s olderServer
	if err := raw.value.decode(what, &s); err != nil {
		return nil, err
	}
	e, err := s.entry(raw.Key)
	if err == nil {
		err = e.check()
	}
	if err != nil {
		return nil, raw.value.fault("%s: %w", what, err)
	}
	return e, nil
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
