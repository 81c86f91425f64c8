// Package source fetches the servers of a registry from registry files of this
// machine, files in git repositories, and other registry servers. A [Source]
// fetches; a [Syncer] applies the result to the store.
//
// Four rules hold for every kind of source. A partial fetch is a failure: half a file,
// or a list that breaks off at its fifth page, changes nothing. An entry that cannot be
// used is left out, counted and reported, and the rest is applied. After a failure the
// last applied list is still served, and the store has the reason. All input is
// bounded, in bytes, in number and in time.
package source

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/registry/config"
	"github.com/toolhaven/toolhaven/internal/registry/serverjson"
)

// Bounds on one source.
const (
	maxFile     = 64 << 20 // bytes of a registry file
	maxVersions = 500_000
)

// Source is a place that lists servers.
type Source interface {
	// Fetch returns the entries of the source. previous is the Digest of the last
	// applied fetch, or "": if the content is the same, the result is Unchanged and
	// has no entries. An error names the source's location and never contains a
	// credential.
	Fetch(ctx context.Context, previous string) (Fetched, error)
}

// Fetched is the content of a source.
type Fetched struct {
	// Digest identifies the content. Only the source interprets it.
	Digest string
	// Unchanged: the content is that of the previous digest. There are no entries.
	Unchanged bool
	Entries   []Entry
	// LeftOut are the entries that could not be used, or were not servers.
	LeftOut registry.LeftOut
}

// Entry is one version of one server in a source.
type Entry struct {
	serverjson.Document
	// Status is active, deprecated or deleted.
	Status        string
	StatusMessage string
	// The times are zero if the source has none. The time of an update is not
	// copied: clients that copy this registry need the time of its change here.
	PublishedAt, StatusChangedAt time.Time
}

// Access is how sources connect to the network. The zero value guards addresses.
type Access struct {
	// Client makes HTTP clients; nil is [netguard.Client].
	Client func(netguard.Options) (*http.Client, error)
	// Dial makes connections that are not HTTP (git over SSH). It refuses private
	// addresses unless allowPrivate; nil is [netguard.Dialer].
	Dial func(ctx context.Context, allowPrivate bool, network, address string) (net.Conn, error)
	// TempDir is where repositories are fetched to; "" is the system's.
	TempDir string
}

func (a Access) client(opt netguard.Options) (*http.Client, error) {
	if a.Client != nil {
		return a.Client(opt)
	}
	return netguard.Client(opt)
}

func (a Access) dial(ctx context.Context, allowPrivate bool, network, address string) (net.Conn, error) {
	if a.Dial != nil {
		return a.Dial(ctx, allowPrivate, network, address)
	}
	return netguard.Dialer(netguard.Options{AllowPrivate: allowPrivate, AllowLoopback: allowPrivate}).DialContext(ctx, network, address)
}

// Open returns the source of a configuration. A managed registry has no source.
func Open(cfg config.Source, access Access) (Source, error) {
	switch {
	case cfg.File != nil:
		return &fileSource{path: cfg.File.Path}, nil
	case cfg.Git != nil:
		return &gitSource{Git: *cfg.Git, access: access}, nil
	case cfg.API != nil:
		return newAPI(*cfg.API, access)
	}
	return nil, fmt.Errorf("source %s: it is managed: its servers are published to it", cfg.Name)
}
