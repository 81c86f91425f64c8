package web

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
)

// errCookie: what is in a cookie was not sealed by us, for this.
var errCookie = errors.New("the cookie is not one of ours")

// errTooLarge: a browser would not keep the cookie.
var errTooLarge = errors.New("the cookie would be larger than browsers keep")

// maxCookie bounds a sealed value, in bytes; browsers take 4096 with the name.
const maxCookie = 4000

// sealer makes values that only we can read and make (AES-256-GCM). A value is
// bound to its purpose and to the resource, so that none can stand for another.
type sealer struct {
	key     func(context.Context) ([]byte, error)
	context string

	mu   sync.Mutex
	aead cipher.AEAD // once the key is known; it never changes
}

func (s *sealer) cipher(ctx context.Context) (cipher.AEAD, error) {
	s.mu.Lock()
	known := s.aead
	s.mu.Unlock()
	if known != nil {
		return known, nil
	}
	key, err := s.key(ctx)
	if err != nil {
		return nil, fmt.Errorf("the key that seals cookies: %w", err)
	}
	if len(key) != 32 {
		return nil, fmt.Errorf("the key that seals cookies has %d bytes, not 32", len(key))
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("the key that seals cookies: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("the key that seals cookies: %w", err)
	}
	s.mu.Lock()
	s.aead = aead
	s.mu.Unlock()
	return aead, nil
}

func (s *sealer) bound(purpose string) []byte {
	return []byte("toolhaven registry page 1\x00" + purpose + "\x00" + s.context)
}

// close seals v.
func (s *sealer) close(ctx context.Context, purpose string, v any) (string, error) {
	aead, err := s.cipher(ctx)
	if err != nil {
		return "", err
	}
	plain, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("seal a cookie: %w", err)
	}
	text := base64.RawURLEncoding.EncodeToString(aead.Seal(nil, nil, plain, s.bound(purpose)))
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
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return errCookie
	}
	aead, err := s.cipher(ctx)
	if err != nil {
		return err
	}
	plain, err := aead.Open(nil, nil, sealed, s.bound(purpose))
	if err != nil || json.Unmarshal(plain, v) != nil {
		return errCookie
	}
	return nil
}
