package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
)

// Errors that callers decide on.
var (
	// ErrNotFound: the registry answered, and has no such server.
	ErrNotFound = errors.New("no such server")
	// ErrAmbiguous: a short name stands for more than one server.
	ErrAmbiguous = errors.New("the name is not unique")
	// ErrUnreachable: whether the registry has the server cannot be said, because
	// it does not answer or answers that it cannot.
	ErrUnreachable = errors.New("the registry cannot be reached")
	// ErrMalformed: the registry's data is not in a format we read.
	ErrMalformed = errors.New("the registry's data is not usable")
)

// Catalog is a collection of entries. Every method may be called concurrently;
// every error names the registry.
type Catalog interface {
	// Location is the URL or path the catalog was opened with, or "built-in".
	Location() string
	// Get finds one server: by its full name, by the part after the slash when
	// that is unique, and either with @VERSION. Without a version it is the
	// latest. The errors are ErrNotFound, ErrAmbiguous, ErrUnreachable and
	// ErrMalformed.
	Get(ctx context.Context, name string) (*Entry, error)
	// List returns the latest version of every server, by name.
	List(ctx context.Context) ([]*Entry, error)
	// Search returns the servers that match all words of a query, by name.
	Search(ctx context.Context, query string) ([]*Entry, error)
}

// BuiltIn is the location of the catalog in the program.
const BuiltIn = "built-in"

// Open opens the catalog at location: "" is the built-in one; an http(s) URL
// whose path ends in .json is a file to fetch; any other http(s) URL is the base
// of a server of the official registry API v0.1; everything else is the path of
// a file. Nothing is read or fetched before the first question.
func Open(location string, client *http.Client) (Catalog, error) {
	if location == "" {
		return &fileCatalog{location: BuiltIn, read: readBuiltIn}, nil
	}
	scheme, _, isURL := strings.Cut(location, "://")
	if !isURL {
		return &fileCatalog{location: location, read: func(context.Context) ([]byte, error) { return readFile(location) }}, nil
	}
	u, err := url.Parse(location)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("registry %q: use an http(s) URL or the path of a file, not %s", location, scheme)
	}
	if u.User != nil {
		return nil, fmt.Errorf("registry %s: the URL must not hold a name and password", u.Redacted())
	}
	u.Fragment = ""
	f := &fetcher{client: client, connect: connectTimeout, answer: answerTimeout}
	if strings.EqualFold(path.Ext(u.Path), ".json") {
		return &fileCatalog{location: location, read: func(ctx context.Context) ([]byte, error) { return f.file(ctx, u.String()) }}, nil
	}
	u.RawQuery = ""
	return &apiCatalog{location: location, base: strings.TrimRight(u.String(), "/"), fetch: f}, nil
}

// SplitVersion takes NAME@VERSION apart; version is "" without one.
func SplitVersion(name string) (bare, version string) {
	bare, version, _ = strings.Cut(name, "@")
	return bare, version
}
