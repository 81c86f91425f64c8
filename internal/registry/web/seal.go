package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/toolhaven/toolhaven/internal/seal"
)

// errCookie: what is in a cookie was not sealed by us, for this.
var errCookie = errors.New("the cookie is not one of ours")

// errTooLarge: a browser would not keep the cookie.
var errTooLarge = errors.New("the cookie would be larger than browsers keep")

// maxCookie bounds a sealed value, in bytes; browsers take 4096 with the name.
const maxCookie = 4000

// sealer makes values that only we can read and make. A value is bound to its
// purpose and to the resource, so that none can stand for another.
type sealer struct {
	key     func(context.Context) ([]byte, error)
	context string

	mu   sync.Mutex
	with *seal.Sealer // once the key is known; it never changes
}

func (s *sealer) known(ctx context.Context) (*seal.Sealer, error) {
	s.mu.Lock()
	known := s.with
	s.mu.Unlock()
	if known != nil {
		return known, nil
	}
	key, err := s.key(ctx)
	if err != nil {
		return nil, fmt.Errorf("the key that seals cookies: %w", err)
	}
	made, err := seal.New(key)
	if err != nil {
		return nil, fmt.Errorf("the key that seals cookies: %w", err)
	}
	s.mu.Lock()
	s.with = made
	s.mu.Unlock()
	return made, nil
}

func (s *sealer) bound(purpose string) string {
	return "toolhaven registry page 1\x00" + purpose + "\x00" + s.context
}

// close seals v.
func (s *sealer) close(ctx context.Context, purpose string, v any) (string, error) {
	with, err := s.known(ctx)
	if err != nil {
		return "", err
	}
	plain, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("seal a cookie: %w", err)
	}
	text := with.Close(s.bound(purpose), plain)
	if len(text) > maxCookie {
		return "", errTooLarge
	}
	return text, nil
}

// open reads what close has sealed for the same purpose into v, or fails with
// errCookie; any other error means that there is no key now.
func (s *sealer) open(ctx context.Context, purpose, text string, v any) error {
	if len(text) > maxCookie {
		return errCookie
	}
	with, err := s.known(ctx)
	if err != nil {
		return err
	}
	plain, err := with.Open(s.bound(purpose), text)
	if err != nil || json.Unmarshal(plain, v) != nil {
		return errCookie
	}
	return nil
}
