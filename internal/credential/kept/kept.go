// Package kept keeps what was obtained for callers, such as an exchanged token, until
// shortly before it expires. Concurrent callers with one key wait for one request. What is
// kept is bounded in number and is in memory only.
package kept

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync"
	"time"
)

// Key identifies what is kept: a hash, so that no token is kept as a key.
type Key [sha256.Size]byte

// KeyOf returns the key of fields. No two lists of fields have the same.
func KeyOf(fields ...string) Key {
	h := sha256.New()
	var length [8]byte
	for _, field := range fields {
		binary.BigEndian.PutUint64(length[:], uint64(len(field)))
		h.Write(length[:])
		h.Write([]byte(field))
	}
	return Key(h.Sum(nil))
}

// ErrFull is the error when as many requests are under way as may be kept.
var ErrFull = errors.New("too many requests are under way")

// Cache keeps values, and the errors of requests for them. It may be used concurrently.
type Cache[V any] struct {
	limit   int
	timeout time.Duration
	now     func() time.Time

	mu       sync.Mutex
	outcomes map[Key]*outcome[V]
}

// outcome is a request that is under way or has ended.
type outcome[V any] struct {
	done  chan struct{} // closed at the end; the fields below are constant then
	value V
	err   error
	until time.Time // when the outcome is used no more
	began time.Time
}

// New returns a Cache that keeps limit outcomes and ends a request after timeout. now is the
// clock.
func New[V any](limit int, timeout time.Duration, now func() time.Time) *Cache[V] {
	return &Cache[V]{limit: limit, timeout: timeout, now: now, outcomes: map[Key]*outcome[V]{}}
}

// Request obtains a value and returns until when it is used. An error is used as long.
type Request[V any] func(ctx context.Context) (value V, until time.Time, err error)

// Get returns what is kept for key, or the outcome of request. The request does not end with
// ctx, because others may wait for it. The error is that of request, of ctx, or ErrFull.
func (c *Cache[V]) Get(ctx context.Context, key Key, request Request[V]) (V, error) {
	c.mu.Lock()
	o := c.outcomes[key]
	if o == nil || o.ended() && !c.now().Before(o.until) {
		if !c.makeRoom() {
			c.mu.Unlock()
			var none V
			return none, ErrFull
		}
		o = &outcome[V]{done: make(chan struct{}), began: c.now()}
		c.outcomes[key] = o
		go c.run(context.WithoutCancel(ctx), o, request)
	}
	c.mu.Unlock()
	select {
	case <-o.done:
		return o.value, o.err
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	}
}

// run sends a request and ends o.
func (c *Cache[V]) run(ctx context.Context, o *outcome[V], request Request[V]) {
	defer close(o.done)
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	o.value, o.until, o.err = request(ctx)
}

// Drop forgets the value for key after the server rejected one. rejected reports whether a
// value is that one. Drop returns whether the request should be sent again: it should not
// when the rejected value was requested less than age ago, because another one would be
// rejected too.
func (c *Cache[V]) Drop(key Key, rejected func(V) bool, age time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.outcomes[key]
	if o == nil || !o.ended() || o.err != nil || !rejected(o.value) {
		return true
	}
	if c.now().Before(o.began.Add(age)) {
		return false
	}
	delete(c.outcomes, key)
	return true
}

// Len returns the number of outcomes, with those of requests under way.
func (c *Cache[V]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.outcomes)
}

func (o *outcome[V]) ended() bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}

// makeRoom keeps the number of outcomes within the limit. It returns false when all of them
// are requests under way. The caller holds mu.
func (c *Cache[V]) makeRoom() bool {
	if len(c.outcomes) < c.limit {
		return true
	}
	var some Key
	found := false
	for key, o := range c.outcomes {
		if !o.ended() {
			continue
		}
		if !c.now().Before(o.until) {
			delete(c.outcomes, key)
			continue
		}
		some, found = key, true
	}
	if len(c.outcomes) >= c.limit && found {
		delete(c.outcomes, some) // any one: its caller's next request obtains another
	}
	return len(c.outcomes) < c.limit
}
