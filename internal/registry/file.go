package registry

import (
	"context"
	_ "embed" // the built-in catalog
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/settings"
)

//go:embed builtin.json
var builtIn []byte

func readBuiltIn(context.Context) ([]byte, error) { return builtIn, nil }

// readFile reads a registry file of this machine.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("registry %s: %w: there is no such file", path, ErrUnreachable)
	}
	if err != nil {
		return nil, fmt.Errorf("registry %s: %w: %v", path, ErrUnreachable, err)
	}
	defer f.Close()
	content, err := netguard.ReadBounded(f, maxFile)
	if err != nil {
		return nil, fmt.Errorf("registry %s: %w: %v", path, ErrMalformed, err)
	}
	return content, nil
}

// fileCatalog is a catalog that comes whole: a file, or the built-in one. It is
// read once, at the first question.
type fileCatalog struct {
	location string
	read     func(context.Context) ([]byte, error)

	mu      sync.Mutex
	loaded  bool // entries and leftOut are set
	entries []*Entry
	leftOut LeftOut
}

func (c *fileCatalog) Location() string { return c.location }

func (c *fileCatalog) load(ctx context.Context) ([]*Entry, LeftOut, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loaded {
		return c.entries, c.leftOut, nil
	}
	content, err := c.read(ctx)
	if err != nil {
		return nil, LeftOut{}, err
	}
	entries, leftOut, err := Parse(content)
	if err == nil {
		err = leftOut.Unusable(len(entries))
	}
	if err != nil {
		return nil, LeftOut{}, fmt.Errorf("registry %s: %w: %w", c.location, ErrMalformed, err)
	}
	c.loaded, c.entries, c.leftOut = true, entries, leftOut
	return entries, leftOut, nil
}

func (c *fileCatalog) Get(ctx context.Context, name string) (*Entry, error) {
	all, leftOut, err := c.load(ctx)
	if err != nil {
		return nil, err
	}
	bare, version := SplitVersion(name)
	full, err := resolveName(all, bare)
	if err != nil {
		return nil, fmt.Errorf("registry %s: %w", c.location, leftOut.explain(err))
	}
	var versions []string
	for _, e := range all {
		if e.Name == full && (e.Version == version || version == "latest" && e == latest(all)[full]) {
			return e, nil
		}
		if e.Name == full {
			versions = append(versions, e.Version)
		}
	}
	if version == "" {
		return latest(all)[full], nil
	}
	has := "the registry has no versions"
	if versions = slices.DeleteFunc(versions, func(v string) bool { return v == "" }); len(versions) > 0 {
		has = "it has " + strings.Join(versions, ", ")
	}
	return nil, fmt.Errorf("registry %s: %w: %s has no version %s; %s", c.location, ErrNotFound, full, version, has)
}

func (c *fileCatalog) List(ctx context.Context) (List, error) { return c.Search(ctx, "") }

func (c *fileCatalog) Search(ctx context.Context, query string) (List, error) {
	all, leftOut, err := c.load(ctx)
	if err != nil {
		return List{}, err
	}
	return newList(all, query, leftOut), nil
}

// latest is the newest version of each server. Among versions whose order is
// unknown, the later in the list counts as newer.
func latest(all []*Entry) map[string]*Entry {
	newest := map[string]*Entry{}
	for _, e := range all {
		if known := newest[e.Name]; known == nil || CompareVersions(e.Version, known.Version) >= 0 {
			newest[e.Name] = e
		}
	}
	return newest
}

// shortName is the part of a name after its slash.
func shortName(name string) string { return name[strings.LastIndex(name, "/")+1:] }

// resolveName finds the full name that a person's word stands for.
func resolveName(all []*Entry, name string) (string, error) {
	var candidates, known []string
	for _, e := range all {
		if e.Name == name {
			return name, nil
		}
		if !strings.Contains(name, "/") && shortName(e.Name) == name && !slices.Contains(candidates, e.Name) {
			candidates = append(candidates, e.Name)
		}
		known = append(known, e.Name)
		if !strings.Contains(name, "/") {
			known = append(known, shortName(e.Name))
		}
	}
	switch len(candidates) {
	case 1:
		return candidates[0], nil
	case 0:
		hint := ""
		if near := settings.Nearest(name, known); near != "" {
			hint = fmt.Sprintf(" (did you mean %s?)", near)
		}
		return "", fmt.Errorf("%w: %q%s", ErrNotFound, name, hint)
	}
	return "", ambiguous(name, candidates)
}

func ambiguous(name string, candidates []string) error {
	slices.Sort(candidates)
	return fmt.Errorf("%w: %q may be %s; write the full name", ErrAmbiguous, name, strings.Join(candidates, " or "))
}
