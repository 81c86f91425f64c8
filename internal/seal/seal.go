// Package seal makes texts that only the holder of a key can make and read, for
// state that is given to somebody else to keep: session ids, requestState.
// Authenticated encryption (AES-256-GCM, random nonces) hides the content, and
// refuses what was altered, made up, or sealed for something else.
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

// ErrNotOurs: the text was not sealed by this key for this purpose.
var ErrNotOurs = errors.New("it was not sealed here, for this")

// Sealer seals with one key. Its methods may be called concurrently. A key may
// seal some 2^32 texts (NIST SP 800-38D, 8.3).
type Sealer struct{ aead cipher.AEAD }

// New makes a Sealer of a key of [KeySize] bytes.
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

// NewKey is a random key.
func NewKey() []byte {
	key := make([]byte, KeySize)
	rand.Read(key) // never fails
	return key
}

// Close seals plain for a purpose. The text is base64url: visible ASCII that
// needs no escaping in a header, a URL or JSON. Purpose is whatever the text
// must be presented with again to be opened: what it is for, and whose it is.
func (s *Sealer) Close(purpose string, plain []byte) string {
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, plain, []byte(purpose)))
}

// Open reads what Close has sealed for the same purpose, or fails with
// [ErrNotOurs].
func (s *Sealer) Open(purpose, text string) ([]byte, error) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") { // which decoders pass over
		return nil, ErrNotOurs
	}
	plain, err := s.aead.Open(nil, nil, sealed, []byte(purpose))
	if err != nil {
		return nil, ErrNotOurs
	}
	return plain, nil
}
