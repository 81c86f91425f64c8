// Package storage is what the authorization server keeps: a map from keys to values that
// expire. Its implementations are storage/memory and storage/redis; storage/storagetest has
// the tests that each passes. What a value means is decided by the caller.
//
// Every operation concerns one key, so that a Redis cluster may keep each key anywhere, and
// each is atomic. Keys have no secrets in them: a caller uses the hash of a code or token.
package storage

import (
	"context"
	"errors"
	"time"
)

// The errors of a Store. Any other error means that the store cannot be reached now.
var (
	// ErrNotFound: there is no value, or it expired.
	ErrNotFound = errors.New("it is not stored, or expired")
	// ErrChanged: the value is not the expected one.
	ErrChanged = errors.New("it was changed meanwhile")
	// ErrHeld: another process has the lease.
	ErrHeld = errors.New("another process holds the lease")
	// ErrFull: a store in memory has reached its bound.
	ErrFull = errors.New("the store is full")
)

// Store may be used concurrently, also by several processes if it is not in memory. A
// lifetime is positive; it is counted from the call.
type Store interface {
	// Get returns a value, or ErrNotFound.
	Get(ctx context.Context, key string) ([]byte, error)
	// Put stores a value in place of any other.
	Put(ctx context.Context, key string, value []byte, lifetime time.Duration) error
	// Swap stores a value in place of old, or fails with ErrChanged. A nil old means that
	// there is none.
	Swap(ctx context.Context, key string, old, value []byte, lifetime time.Duration) error
	// Take returns a value and removes it. Of several callers one receives it, the others
	// ErrNotFound.
	Take(ctx context.Context, key string) ([]byte, error)
	// Delete removes a value if there is one.
	Delete(ctx context.Context, key string) error
	// Lease acquires the key for this caller alone, or fails with ErrHeld. It ends after
	// lifetime, or by release, which removes only this caller's lease. A lease and a value of
	// one key do not concern each other.
	Lease(ctx context.Context, key string, lifetime time.Duration) (release func(), err error)
	// Ping fails while the store cannot be reached.
	Ping(ctx context.Context) error
	// Close ends the connections.
	Close() error
}
