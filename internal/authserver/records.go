package authserver

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/toolhaven/toolhaven/internal/authserver/storage"
	"github.com/toolhaven/toolhaven/internal/seal"
)

// The kinds of records.
const (
	kindLogin   = "login"   // a login under way, under its handle
	kindCode    = "code"    // an authorization code
	kindSession = "session" // what a code gave: the family of refresh tokens
	kindConsent = "consent" // a person's consent to a client
	kindLink    = "link"    // a person's account at another provider
)

// errUnavailable: the store cannot be reached.
var errUnavailable = errors.New("the storage cannot be reached")

// random returns 256 random bits as text.
func random() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // it never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// hashed is the SHA-256 of parts, after their lengths, as text.
func hashed(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// key is where a record is stored. Handles, codes and names are hashed.
func key(kind, id string) string { return kind + ":" + hashed(kind, id) }

// put stores a record. The error is errUnavailable.
func (s *core) put(ctx context.Context, kind, id string, v any, lifetime time.Duration) error {
	sealed, err := s.sealRecord(kind, id, v)
	if err != nil {
		return err
	}
	return s.stored(s.cfg.Store.Put(ctx, key(kind, id), sealed, lifetime))
}

// get reads a record into v, and returns it as stored, for swap.
func (s *core) get(ctx context.Context, kind, id string, v any) (raw []byte, err error) {
	raw, err = s.cfg.Store.Get(ctx, key(kind, id))
	if err != nil {
		return nil, s.stored(err)
	}
	return raw, s.openRecord(kind, id, raw, v)
}

// take reads a record and removes it.
func (s *core) take(ctx context.Context, kind, id string, v any) error {
	raw, err := s.cfg.Store.Take(ctx, key(kind, id))
	if err != nil {
		return s.stored(err)
	}
	return s.openRecord(kind, id, raw, v)
}

// swap replaces the record that get returned, or fails with storage.ErrChanged.
func (s *core) swap(ctx context.Context, kind, id string, raw []byte, v any, lifetime time.Duration) error {
	sealed, err := s.sealRecord(kind, id, v)
	if err != nil {
		return err
	}
	return s.stored(s.cfg.Store.Swap(ctx, key(kind, id), raw, sealed, lifetime))
}

func (s *core) sealRecord(kind, id string, v any) ([]byte, error) {
	plain, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	keys, err := s.ring.get()
	if err != nil {
		return nil, err
	}
	return []byte(keys.close("record "+key(kind, id), plain)), nil
}

// openRecord opens a record. One that was altered, or sealed with a key that is gone, does
// not count.
func (s *core) openRecord(kind, id string, raw []byte, v any) error {
	keys, err := s.ring.get()
	if err != nil {
		return err
	}
	plain, err := keys.open("record "+key(kind, id), string(raw))
	if err != nil {
		return storage.ErrNotFound
	}
	return json.Unmarshal(plain, v)
}

// stored reports a failure of the store as errUnavailable; what it holds is in the log.
func (s *core) stored(err error) error {
	switch {
	case err == nil, errors.Is(err, storage.ErrNotFound), errors.Is(err, storage.ErrChanged), errors.Is(err, seal.ErrNotOurs):
		return err
	}
	s.cfg.Log.Error("the storage of logins cannot be used", "error", err)
	return errUnavailable
}
