package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/toolhaven/toolhaven/internal/seal"
)

// errCookie: the value was not sealed by this site for this purpose.
var errCookie = errors.New("the cookie is not one of ours")

// errTooLarge: browsers do not store the cookie.
var errTooLarge = errors.New("the cookie would be larger than browsers keep")

// maxCookie bounds a sealed value, in bytes; browsers take 4096 with the name.
const maxCookie = 4000

// sealer encrypts cookies. A value is bound to its purpose and to the resource, so that
// it is not valid for another one.
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

// open decodes what close sealed for the same purpose into v, or fails with errCookie.
// Any other error is that the key is not available.
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
