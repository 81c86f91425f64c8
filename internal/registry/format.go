package registry

import (
	"encoding/json"
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

// ValidName reports whether name, without a version, can be an entry's.
func ValidName(name string) bool { return len(name) <= 200 && namePattern.MatchString(name) }

// File is a registry file whose structure has been read, but not its entries.
type File struct {
	Entries []FileEntry
	// Others counts what a file lists besides servers: skills and plugins.
	Others int
}

// FileEntry is an entry of a registry file that has not been read yet.
type FileEntry struct {
	// Key is the name of an entry of the older format; "" for a server.json.
	Key string
	// InGroup entries may repeat one that is listed outside the group.
	InGroup bool

	value node
	keys  []string // allowed in an entry of the older format
}

// Raw is the entry's JSON.
func (e FileEntry) Raw() json.RawMessage { return e.value.raw() }

// Fault is an error about the entry, with its line in the file.
func (e FileEntry) Fault(err error) error { return e.value.fault("%w", err) }

// ParseServer reads one server.json. Unknown members are ignored.
func ParseServer(document []byte) (*Entry, error) {
	doc, err := parseDocument(document)
	if err != nil {
		return nil, err
	}
	return parseServer(doc)
}

// Read reads the entry. Errors name the line.
func (e FileEntry) Read() (*Entry, error) {
	if e.keys != nil {
		return readOlder(e)
	}
	return parseServer(e.value)
}

// ReadFile reads the structure of a registry file in either format: the wrapped
// one (data.servers holds server.json objects) or the older one of ToolHive
// (servers and remote_servers are objects by name). Errors name the line.
func ReadFile(content []byte) (*File, error) {
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
	f := &File{}
	_, isWrapped := has["data"]
	servers, isOlder := has["servers"]
	_, hasRemotes := has["remote_servers"]
	switch {
	case isWrapped:
		err = f.readWrapped(members)
	case isOlder && servers.isList():
		return nil, servers.fault("it looks like a response of the registry API, not like a registry file: in a file, the list of servers is in \"data\"")
	case isOlder, hasRemotes:
		err = f.readOlder(members)
	default:
		return nil, errors.New(`it is not a registry file: it has neither "data" (the wrapped format) nor "servers" or "remote_servers" (the older one)`)
	}
	if err != nil {
		return nil, err
	}
	if len(f.Entries) > maxEntries {
		return nil, fmt.Errorf("it has %d servers; the most is %d", len(f.Entries), maxEntries)
	}
	return f, nil
}

// Parse reads a registry file in either format with its entries. An entry that
// cannot be used is left out. The error is of the file as a whole.
func Parse(content []byte) ([]*Entry, LeftOut, error) {
	f, err := ReadFile(content)
	if err != nil {
		return nil, LeftOut{}, err
	}
	all := entries{seen: map[[2]string]*Entry{}, leftOut: LeftOut{Others: f.Others}}
	for _, raw := range f.Entries {
		e, err := raw.Read()
		if err == nil {
			err = all.add(raw, e)
		}
		if err != nil {
			all.leftOut.Add(err)
		}
	}
	return all.list, all.leftOut, nil
}

// entries gathers what a file holds; a name has each version once.
type entries struct {
	list    []*Entry
	seen    map[[2]string]*Entry
	leftOut LeftOut
}

func (all *entries) add(raw FileEntry, e *Entry) error {
	key := [2]string{e.Name, e.Version}
	known := all.seen[key]
	switch {
	case known == nil:
		all.seen[key] = e
		all.list = append(all.list, e)
	case raw.Key != "" && len(known.Remotes) == 0 && len(e.Remotes) > 0:
		// The older format lists a server that is an image and a remote twice.
		known.Remotes = e.Remotes
	case raw.Key == "" && !raw.InGroup:
		return raw.Fault(fmt.Errorf("%s %s is listed twice", e.Name, e.Version))
	}
	return nil
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
	if e.Version == "." || e.Version == ".." || len(e.Version) > MaxVersion || strings.ContainsFunc(e.Version, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r == '/' || r == '@' }) {
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
