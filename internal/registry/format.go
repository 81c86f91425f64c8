package registry

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// Bounds on a registry's data.
const (
	maxFile    = 64 << 20 // bytes
	maxEntries = 100_000
	// MaxVersion bounds a version, in bytes.
	MaxVersion = 255
)

// namePattern: an official name is namespace/name; older files have names
// without a slash.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?$`)

// ValidName tells whether name, without a version, can be an entry's.
func ValidName(name string) bool { return len(name) <= 200 && namePattern.MatchString(name) }

// Parse reads a registry file in either format: the wrapped one (data.servers
// holds server.json objects) or the older one of ToolHive (servers and
// remote_servers are objects by name). Errors name the line.
func Parse(content []byte) ([]*Entry, error) {
	if len(content) > maxFile {
		return nil, fmt.Errorf("it is larger than %d bytes", maxFile)
	}
	doc, err := parseDocument(content)
	if err != nil {
		return nil, err
	}
	members, err := doc.members("a registry file")
	if err != nil {
		return nil, err
	}
	has := map[string]node{}
	for _, m := range members {
		has[m.key] = m.value
	}
	var entries []*Entry
	_, isWrapped := has["data"]
	servers, isOlder := has["servers"]
	_, hasRemotes := has["remote_servers"]
	switch {
	case isWrapped:
		entries, err = parseWrapped(doc)
	case isOlder && servers.isList():
		return nil, servers.fault("it looks like an answer of the registry API, not like a registry file: in a file, the list of servers is in \"data\"")
	case isOlder, hasRemotes:
		entries, err = parseOlder(doc)
	default:
		return nil, errors.New(`it is not a registry file: it has neither "data" (the wrapped format) nor "servers" or "remote_servers" (the older one)`)
	}
	if err != nil {
		return nil, err
	}
	if len(entries) > maxEntries {
		return nil, fmt.Errorf("it has %d servers; the most is %d", len(entries), maxEntries)
	}
	return entries, nil
}

func (n node) isList() bool { return strings.HasPrefix(strings.TrimSpace(string(n.raw())), "[") }

// check holds an entry to what is relied on elsewhere, whatever its format, and
// fills what has a default.
func (e *Entry) check() error {
	if e.Name == "" {
		return errors.New("there is no name")
	}
	if !ValidName(e.Name) {
		return fmt.Errorf("the name %.100q is not namespace/name of letters, digits, dots, dashes and underscores", e.Name)
	}
	// A version is part of a URL's path and of what a person types after @.
	if len(e.Version) > MaxVersion || strings.ContainsFunc(e.Version, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r == '/' || r == '@' }) {
		return fmt.Errorf("the version %.100q is not usable", e.Version)
	}
	switch strings.ToLower(e.Status) {
	case "", Active:
		e.Status = Active
	case Deprecated:
		e.Status = Deprecated
	case Deleted:
		e.Status = Deleted
	default:
		return fmt.Errorf("the status %.50q is none of active, deprecated and deleted", e.Status)
	}
	for i := range e.Packages {
		p := &e.Packages[i]
		if p.RegistryType == "" || p.Identifier == "" {
			return fmt.Errorf("package %d needs a registryType and an identifier", i+1)
		}
		if err := p.Hints.check(); err != nil {
			return err
		}
	}
	for i := range e.Remotes {
		if e.Remotes[i].URL == "" {
			return fmt.Errorf("remote %d has no URL", i+1)
		}
		if err := e.Remotes[i].Hints.check(); err != nil {
			return err
		}
	}
	return nil
}

func (h *Hints) check() error {
	if h.ProxyPort < 0 || h.ProxyPort > 65535 {
		return fmt.Errorf("the proxy port %d is not a port", h.ProxyPort)
	}
	return nil
}
