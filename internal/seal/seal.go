// Package seal encrypts state that a client keeps: session ids, requestState, cookies.
// Authenticated encryption (AES-256-GCM, random nonces) hides the content. A text that
// was altered, forged, or sealed for another purpose is rejected.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// KeySize is the length of a key in bytes.
const KeySize = 32

// ErrNotOurs: the text was not sealed with this key for this purpose.
var ErrNotOurs = errors.New("it was not sealed here for this purpose")

// Sealer seals with one key. It may be used concurrently. A key may seal about 2^32
// texts (NIST SP 800-38D, 8.3).
type Sealer struct{ aead cipher.AEAD }

// New returns a Sealer with a key of [KeySize] bytes.
func New(key []byte) (*Sealer, error) {
	if len(key) != KeySize {
		return nil, fmt.Errorf("a key to seal with has %d bytes, not %d", KeySize, len(key))
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("make a sealer: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("make a sealer: %w", err)
	}
	return &Sealer{aead}, nil
}

// NewKey returns a random key.
func NewKey() []byte {
	key := make([]byte, KeySize)
	rand.Read(key) // never fails
	return key
}

// Close seals plain. The result is base64url, which needs no escaping in a header, a
// URL or JSON. It can be opened only with the same purpose, which names its use and its
// owner.
func (s *Sealer) Close(purpose string, plain []byte) string {
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, plain, []byte(purpose)))
}

// Open returns what Close sealed for the same purpose, or fails with [ErrNotOurs].
func (s *Sealer) Open(purpose, text string) ([]byte, error) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") { // which the decoder ignores
		return nil, ErrNotOurs
	}
	plain, err := s.aead.Open(nil, nil, sealed, []byte(purpose))
	if err != nil {
		return nil, ErrNotOurs
	}
	return plain, nil
}
