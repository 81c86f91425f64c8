// Package memory keeps what the authorization server stores in this process. It is lost
// when the process ends. The store is bounded in entries and bytes. It never evicts what is
// live: a write that does not fit fails with [storage.ErrFull]. Expired entries are removed
// by the operations that follow, so that there is no goroutine.
package memory

import (
	"bytes"
	"container/heap"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/authserver/storage"
)

// Defaults of Options.
const (
	DefaultEntries = 200_000
	DefaultBytes   = 256 << 20
)

// overhead is about what an entry occupies beside its key and value.
const overhead = 200

var (
	errClosed   = errors.New("the store is closed")
	errLifetime = errors.New("a lifetime must be positive")
)

// Options are the bounds of a Store.
type Options struct {
	// Entries is how many values and leases there may be; 0 is DefaultEntries.
	Entries int
	// Bytes is how much memory they may occupy, about; 0 is DefaultBytes.
	Bytes int64
}

// Store is a [storage.Store].
type Store struct {
	entries int
	bytes   int64

	mu      sync.Mutex
	closed  bool
	used    int64
	byKey   map[name]*entry
	expiry  byExpiry // the same entries
	holders uint64   // counts leases, to tell them apart
}

// name is a key of a value or of a lease. Both may have the same key.
type name struct {
	key   string
	lease bool
}

type entry struct {
	name    name
	value   []byte
	holder  uint64 // of a lease
	expires time.Time
	index   int // in Store.expiry
}

func (e *entry) size() int64 { return int64(overhead + len(e.name.key) + len(e.value)) }

// New returns an empty Store.
func New(o Options) *Store {
	if o.Entries <= 0 {
		o.Entries = DefaultEntries
	}
	if o.Bytes <= 0 {
		o.Bytes = DefaultBytes
	}
	return &Store{entries: o.Entries, bytes: o.Bytes, byKey: map[name]*entry{}}
}

var _ storage.Store = (*Store)(nil)

// begin locks the store and removes what expired. The caller unlocks if there is no error.
func (s *Store) begin(ctx context.Context) (now time.Time, err error) {
	if err := ctx.Err(); err != nil {
		return now, err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return now, errClosed
	}
	// The wall clock also counts while the machine is suspended.
	now = time.Now().Round(0)
	for len(s.expiry) > 0 && !now.Before(s.expiry[0].expires) {
		s.remove(s.expiry[0])
	}
	return now, nil
}

func (s *Store) remove(e *entry) {
	heap.Remove(&s.expiry, e.index)
	delete(s.byKey, e.name)
	s.used -= e.size()
}

// set stores e in place of any other of its name, or fails with ErrFull and changes nothing.
func (s *Store) set(e *entry) error {
	used, entries := s.used+e.size(), len(s.byKey)+1
	old := s.byKey[e.name]
	if old != nil {
		used, entries = used-old.size(), entries-1
	}
	if entries > s.entries || used > s.bytes {
		return storage.ErrFull
	}
	if old != nil {
		s.remove(old)
	}
	s.used = used
	s.byKey[e.name] = e
	heap.Push(&s.expiry, e)
	return nil
}

// Get implements [storage.Store].
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	if _, err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	e := s.byKey[name{key: key}]
	if e == nil {
		return nil, storage.ErrNotFound
	}
	return bytes.Clone(e.value), nil
}

// Put implements [storage.Store].
func (s *Store) Put(ctx context.Context, key string, value []byte, lifetime time.Duration) error {
	return s.write(ctx, key, value, lifetime, func(*entry) error { return nil })
}

// Swap implements [storage.Store].
func (s *Store) Swap(ctx context.Context, key string, old, value []byte, lifetime time.Duration) error {
	return s.write(ctx, key, value, lifetime, func(e *entry) error {
		if (e == nil) != (old == nil) || e != nil && !bytes.Equal(e.value, old) {
			return storage.ErrChanged
		}
		return nil
	})
}

// write stores a value if allowed accepts the entry that is there, which may be nil.
func (s *Store) write(ctx context.Context, key string, value []byte, lifetime time.Duration, allowed func(*entry) error) error {
	if lifetime <= 0 {
		return errLifetime
	}
	now, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	n := name{key: key}
	if err := allowed(s.byKey[n]); err != nil {
		return err
	}
	// Never nil, which bytes.Clone keeps.
	return s.set(&entry{name: n, value: append([]byte{}, value...), expires: now.Add(lifetime)})
}

// Take implements [storage.Store].
func (s *Store) Take(ctx context.Context, key string) ([]byte, error) {
	if _, err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	e := s.byKey[name{key: key}]
	if e == nil {
		return nil, storage.ErrNotFound
	}
	s.remove(e)
	return e.value, nil
}

// Delete implements [storage.Store].
func (s *Store) Delete(ctx context.Context, key string) error {
	if _, err := s.begin(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if e := s.byKey[name{key: key}]; e != nil {
		s.remove(e)
	}
	return nil
}

// Lease implements [storage.Store].
func (s *Store) Lease(ctx context.Context, key string, lifetime time.Duration) (release func(), err error) {
	if lifetime <= 0 {
		return nil, errLifetime
	}
	now, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	n := name{key: key, lease: true}
	if s.byKey[n] != nil {
		return nil, storage.ErrHeld
	}
	s.holders++
	holder := s.holders
	if err := s.set(&entry{name: n, holder: holder, expires: now.Add(lifetime)}); err != nil {
		return nil, err
	}
	return func() { s.release(n, holder) }, nil
}

func (s *Store) release(n name, holder uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byKey[n]; e != nil && e.holder == holder {
		s.remove(e)
	}
}

// Ping implements [storage.Store].
func (s *Store) Ping(ctx context.Context) error {
	if _, err := s.begin(ctx); err != nil {
		return err
	}
	s.mu.Unlock()
	return nil
}

// Close implements [storage.Store]. It removes every value.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.byKey, s.expiry, s.used = nil, nil, 0
	return nil
}

// byExpiry is a heap whose first entry expires first.
type byExpiry []*entry

func (h byExpiry) Len() int           { return len(h) }
func (h byExpiry) Less(i, j int) bool { return h[i].expires.Before(h[j].expires) }
func (h byExpiry) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements [heap.Interface].
func (h *byExpiry) Push(x any) {
	e := x.(*entry)
	e.index = len(*h)
	*h = append(*h, e)
}

// Pop implements [heap.Interface].
func (h *byExpiry) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
