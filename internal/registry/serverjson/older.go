package serverjson

import (
	"bytes"
	"encoding/json"
	"maps"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/toolhaven/toolhaven/internal/registry"
)

// The older format has no namespace and no version.
const (
	olderNamespace = "io.github.stacklok"
	olderVersion   = "1.0.0"
)

// converted is a server of the older format as server.json.
type converted struct {
	Schema      string              `json:"$schema"`
	Name        string              `json:"name"`
	Description string              `json:"description"`
	Title       string              `json:"title,omitempty"`
	Repository  *repository         `json:"repository,omitempty"`
	Version     string              `json:"version"`
	Packages    []convertedPackage  `json:"packages,omitempty"`
	Remotes     []convertedEndpoint `json:"remotes,omitempty"`
	// Meta holds what has no place above, by publisher and reference.
	Meta map[string]map[string]map[string]map[string]json.RawMessage `json:"_meta,omitempty"`

	status string
}

type repository struct {
	URL    string `json:"url"`
	Source string `json:"source"`
}

type convertedPackage struct {
	RegistryType string            `json:"registryType"`
	Identifier   string            `json:"identifier"`
	Transport    convertedEndpoint `json:"transport"`
	Environment  []convertedInput  `json:"environmentVariables,omitempty"`
}

type convertedEndpoint struct {
	Type    string           `json:"type"`
	URL     string           `json:"url,omitempty"`
	Headers []convertedInput `json:"headers,omitempty"`
}

type convertedInput struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	IsRequired  bool     `json:"isRequired,omitempty"`
	IsSecret    bool     `json:"isSecret,omitempty"`
	Default     string   `json:"default,omitempty"`
	Choices     []string `json:"choices,omitempty"`
}

// addOlder converts an entry of the older format. A group may repeat an entry that
// is listed outside it: the first counts. A server that is listed as an image and
// as a remote is both.
func addOlder(byName map[string]*converted, key string, raw json.RawMessage, status string) error {
	s, err := convert(key, raw)
	if err != nil {
		return err
	}
	s.status = status
	known := byName[s.Name]
	switch {
	case known == nil:
		byName[s.Name] = s
	case len(known.Remotes) == 0 && len(s.Remotes) > 0:
		known.join(s)
	}
	return nil
}

func marshal(s *converted) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(s)
	return b.Bytes(), err
}

// join adds the remote entry of a server that has an image.
func (s *converted) join(remote *converted) {
	s.Remotes = remote.Remotes
	for publisher, blocks := range remote.Meta[publisherProvided] {
		if s.Meta == nil {
			s.Meta = map[string]map[string]map[string]map[string]json.RawMessage{publisherProvided: {publisher: {}}}
		}
		maps.Copy(s.Meta[publisherProvided][publisher], blocks)
	}
}

// convert makes server.json of an entry of the older format. What has a place
// there goes there; everything else stays as it was written, in the block of the
// image or URL.
func convert(key string, raw json.RawMessage) (*converted, error) {
	var members map[string]json.RawMessage
	var e struct {
		Title, Description, Image, Transport, URL string
		Repository                                string                `json:"repository_url"`
		TargetPort                                int                   `json:"target_port"`
		Environment                               []registry.OlderInput `json:"env_vars"`
		Headers                                   []registry.OlderInput
	}
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return nil, err
	}
	s := &converted{Schema: schema, Name: key, Description: e.Description, Title: e.Title, Version: olderVersion}
	if !strings.Contains(key, "/") {
		s.Name = olderNamespace + "/" + key
	}
	if s.Description == "" {
		s.Description = key
	}
	if e.Repository != "" {
		s.Repository = &repository{URL: e.Repository, Source: forge(e.Repository)}
	}
	placed := []string{"title", "description", "repository_url", "transport"}
	ref := e.Image
	switch {
	case e.URL != "":
		ref = e.URL
		kind := e.Transport
		if kind == "" {
			kind = "streamable-http"
		}
		s.Remotes = []convertedEndpoint{{Type: kind, URL: e.URL, Headers: inputs(e.Headers)}}
		placed = append(placed, "url", "headers")
	default:
		p := convertedPackage{RegistryType: "oci", Identifier: e.Image, Transport: convertedEndpoint{Type: e.Transport}, Environment: inputs(e.Environment)}
		if e.TargetPort > 0 && e.Transport != "stdio" {
			p.Transport.URL = "http://" + net.JoinHostPort("localhost", strconv.Itoa(e.TargetPort))
			placed = append(placed, "target_port")
		}
		s.Packages = []convertedPackage{p}
		placed = append(placed, "image", "env_vars")
	}
	for _, name := range placed {
		delete(members, name)
	}
	var own string
	if json.Unmarshal(members["name"], &own) == nil && own == key {
		delete(members, "name")
	}
	if len(members) > 0 {
		s.Meta = map[string]map[string]map[string]map[string]json.RawMessage{publisherProvided: {olderNamespace: {ref: members}}}
	}
	return s, nil
}

func inputs(list []registry.OlderInput) []convertedInput {
	var out []convertedInput
	for _, v := range list {
		out = append(out, convertedInput{Name: v.Name, Description: v.Description, IsRequired: v.Required, IsSecret: v.Secret, Default: v.Default, Choices: v.Choices})
	}
	return out
}

// forge is what server.json calls the place of a repository.
func forge(repository string) string {
	if u, err := url.Parse(repository); err == nil && strings.Contains(u.Hostname(), "gitlab") {
		return "gitlab"
	}
	return "github"
}
