// Package secret holds the interfaces of the secrets store, and the rules that its parts
// share: names, references, values. Everything outside of the store holds references.
//
// There are two kinds of secrets. The tool's own (what `run -e` keeps apart, tokens of
// sign-ins) have keys such as workload/NAME/KEY and oauth/HASH, and are always in the local
// [Store] (package local). Those that the user named with `thv secret set NAME` come from a
// [Provider]: the local store again, or another of the sub-packages. A Spec refers to the
// first by their key, to the second by secret/NAME.
package secret

import (
	"context"
	"errors"
)

// Errors of stores and providers, for errors.Is. The error that wraps one names the secret
// and what the user can do.
var (
	// ErrNotFound: there is no such secret.
	ErrNotFound = errors.New("no such secret")
	// ErrReadOnly: the provider cannot be written to, or not listed.
	ErrReadOnly = errors.New("not supported")
	// ErrLocked: the store needs a password, or its keyring cannot be used.
	ErrLocked = errors.New("the secrets store is locked")
)

// Store is the local store of secrets. Its methods may be called concurrently, also by
// several processes: a write replaces the whole file, under a lock.
//
// Every error of a locked store is ErrLocked. A damaged store is an error and is never
// overwritten.
type Store interface {
	// Get returns the value of a key, or ErrNotFound.
	Get(ctx context.Context, key string) (string, error)
	// Set stores one value. When it returns nil the value is on disk (fsync).
	Set(ctx context.Context, key, value string) error
	// Delete deletes one value. A key that is not there is not an error.
	Delete(ctx context.Context, key string) error
	// List returns the keys that begin with prefix, sorted.
	List(ctx context.Context, prefix string) ([]string, error)
	// Lock waits for the lock of a key, which other processes see too, and which the kernel
	// releases when its holder dies. It is not the lock of the store: Get and Set may be
	// called while it is held, and so may requests to servers be made. The key must not be
	// locked twice by one caller.
	Lock(ctx context.Context, key string) (unlock func(), err error)
}

// Provider is where the secrets come from that the user named.
type Provider interface {
	// About describes the provider. It needs no password and no request.
	About() About
	// Get returns the value of a name, or ErrNotFound.
	Get(ctx context.Context, name string) (string, error)
	// Set stores a value; ErrReadOnly if the provider cannot.
	Set(ctx context.Context, name, value string) error
	// Delete deletes a secret, or returns ErrNotFound; ErrReadOnly if the provider cannot.
	Delete(ctx context.Context, name string) error
	// List returns the names, sorted; ErrReadOnly if the provider cannot list.
	List(ctx context.Context) ([]string, error)
}

// About describes a Provider.
type About struct {
	// Name is the one that `thv secret provider` takes.
	Name string `json:"name"`
	// Place is where the values are, for a person: a file, an address.
	Place string `json:"place"`
	// Protects states against what the values are protected, in one sentence.
	Protects string `json:"protects"`
	// Writes and Lists: whether Set and Delete, and List, are supported.
	Writes bool `json:"writes"`
	Lists  bool `json:"lists"`
}
