package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
)

// Errors that callers decide on.
var (
	// ErrNotFound: the registry answered, and has no such server.
	ErrNotFound = errors.New("no such server")
	// ErrAmbiguous: a short name stands for more than one server.
	ErrAmbiguous = errors.New("the name is not unique")
	// ErrUnreachable: it is not known whether the registry has the server, because
	// it does not answer or answers that it cannot.
	ErrUnreachable = errors.New("the registry cannot be reached")
	// ErrUnauthorized: the registry requires a token.
	ErrUnauthorized = errors.New("it requires a sign-in")
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
	List(ctx context.Context) (List, error)
	// Search returns the servers that match all words of a query, the best match
	// first (see Score).
	Search(ctx context.Context, query string) (List, error)
}

// List is a list of servers, each in its latest version. Deleted servers are not
// in it.
type List struct {
	Entries []*Entry
	LeftOut LeftOut
}

// newList selects the latest versions that match a query, in its order.
func newList(all []*Entry, query string, leftOut LeftOut) List {
	words := SearchWords(query)
	var matches []match
	for _, e := range latest(all) {
		if score := Score(SearchText(e.Name, e.Title, e.Description, e.Tags), words); score > 0 && e.Status != Deleted {
			matches = append(matches, match{e, score})
		}
	}
	slices.SortFunc(matches, func(a, b match) int {
		return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(a.Name, b.Name))
	})
	list := List{LeftOut: leftOut}
	for _, m := range matches {
		list.Entries = append(list.Entries, m.Entry)
	}
	return list
}

// match is an entry with its score for a query.
type match struct {
	*Entry
	score int
}

// TokenSource returns the bearer token for a registry; "" is none. Its errors
// contain what the person can do, and never a token.
type TokenSource interface {
	Token(ctx context.Context) (string, error)
}

// Renewer is a TokenSource that can replace a token after 401.
type Renewer interface {
	TokenSource
	// Renew is another token, to try once, after the registry refused one ("" for
	// a request without any); its error contains what the person can do instead.
	Renew(ctx context.Context, refused string) (string, error)
}

// BuiltIn is the location of the catalog in the program.
const BuiltIn = "built-in"

// Open opens the catalog at location: "" is the built-in one; an http(s) URL
// whose path ends in .json is a file to fetch; any other http(s) URL is the base
// of a server of the official registry API v0.1; everything else is the path of
// a file. Nothing is read or fetched before the first call of a method.
//
// A token of tokens, unless that is nil, is sent with each request to the origin
// of the location, and over plain HTTP to this machine only.
func Open(location string, client *http.Client, tokens TokenSource) (Catalog, error) {
	if location == "" {
		return &fileCatalog{location: BuiltIn, read: readBuiltIn}, nil
	}
	if !strings.Contains(location, "://") {
		return &fileCatalog{location: location, read: func(context.Context) ([]byte, error) { return readFile(location) }}, nil
	}
	u, isFile, err := parseURL(location)
	if err != nil {
		return nil, err
	}
	f := newFetcher(u, client, tokens)
	if isFile {
		return &fileCatalog{location: location, read: func(ctx context.Context) ([]byte, error) { return f.file(ctx, u.String()) }}, nil
	}
	return &apiCatalog{location: location, base: u.String(), fetch: f}, nil
}

// parseURL reads a location that is a URL: the base of an API, or a file's.
func parseURL(location string) (u *url.URL, isFile bool, err error) {
	scheme, _, _ := strings.Cut(location, "://")
	u, err = url.Parse(location)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, false, fmt.Errorf("registry %q: use an http(s) URL or the path of a file, not %s", location, scheme)
	}
	if u.User != nil {
		return nil, false, fmt.Errorf("registry %s: the URL must not hold a name and password", u.Redacted())
	}
	u.Fragment = ""
	if strings.EqualFold(path.Ext(u.Path), ".json") {
		return u, true, nil
	}
	u.RawQuery, u.ForceQuery = "", false
	if u, err = url.Parse(strings.TrimRight(u.String(), "/")); err != nil {
		return nil, false, fmt.Errorf("registry %q: %w", location, err)
	}
	return u, false, nil
}

// Protected is what a sign-in to the registry at location is for: its URL, and
// one of its pages that only those get who may read it. Both are "" for a
// location that is not read over HTTP.
func Protected(location string) (target, page string, err error) {
	if !strings.Contains(location, "://") {
		return "", "", nil
	}
	u, isFile, err := parseURL(location)
	switch {
	case err != nil:
		return "", "", err
	case isFile:
		return u.String(), u.String(), nil
	}
	return u.String(), u.String() + "/v0.1/servers?limit=1", nil
}

// SplitVersion takes NAME@VERSION apart; version is "" without one.
func SplitVersion(name string) (bare, version string) {
	bare, version, _ = strings.Cut(name, "@")
	return bare, version
}
