package local

import (
	"context"
	"errors"
	"fmt"

	"github.com/toolhaven/toolhaven/internal/secret"
)

// unlock returns the key of a sealed file. It is remembered for this process.
func (s *Store) unlock(ctx context.Context, h *header) ([]byte, error) {
	if h.opens(s.cfg.Key) {
		return s.cfg.Key, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock() // concurrent callers request the password once
	if key := s.keys[string(h.Check)]; key != nil {
		return key, nil
	}
	key, err := s.find(ctx, h)
	if err == nil {
		s.keys[string(h.Check)] = key
	}
	return key, err
}

func (s *Store) find(ctx context.Context, h *header) ([]byte, error) {
	if h.Keyring != "" {
		return s.fromKeyring(ctx, h)
	}
	if s.cfg.Password == nil {
		return nil, fmt.Errorf("%w: %s is encrypted with a password", secret.ErrLocked, s.path)
	}
	for wrong := 0; ; wrong++ {
		password, err := s.cfg.Password(ctx, Question{File: s.path, Wrong: wrong})
		if err != nil {
			return nil, locked(ctx, err)
		}
		if key := h.KDF.key(password); h.opens(key) {
			return key, nil
		}
	}
}

func (s *Store) fromKeyring(ctx context.Context, h *header) ([]byte, error) {
	if s.cfg.Keys == nil {
		return nil, fmt.Errorf("%w: the key of %s is in the keyring, which is not available here", secret.ErrLocked, s.path)
	}
	key, err := s.cfg.Keys.Get(ctx, h.Keyring)
	switch {
	case errors.Is(err, secret.ErrNotFound):
		return nil, fmt.Errorf("%w: the keyring does not have the key of %s; restore the keyring, or delete the file to start without its secrets", secret.ErrLocked, s.path)
	case err != nil:
		return nil, locked(ctx, fmt.Errorf("the keyring has the key of %s: %w", s.path, err))
	case !h.opens(key):
		return nil, fmt.Errorf("%w: the keyring has another key than that of %s", secret.ErrLocked, s.path)
	}
	return key, nil
}

// locked makes err an ErrLocked, unless the caller has left.
func locked(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, secret.ErrLocked) {
		return err
	}
	return fmt.Errorf("%w: %w", secret.ErrLocked, err)
}

// newHeader makes the header and the key of a new file; both are nil for a plain one.
func (s *Store) newHeader(ctx context.Context, kind Kind) (*header, []byte, error) {
	switch kind {
	case "", Plain:
		return nil, nil, nil
	case Encrypted:
		if s.cfg.Password == nil {
			return nil, nil, fmt.Errorf("%w: a password for %s is needed", secret.ErrLocked, s.path)
		}
		password, err := s.cfg.Password(ctx, Question{File: s.path, New: true})
		if err != nil {
			return nil, nil, locked(ctx, err)
		}
		h, key := passwordHeader(s.kdf, password)
		s.remember(h, key)
		return h, key, nil
	case Keyring:
		if s.cfg.Keys == nil {
			return nil, nil, fmt.Errorf("%w: there is no keyring here", secret.ErrLocked)
		}
		h, key := keyringHeader()
		if err := s.cfg.Keys.Set(ctx, h.Keyring, key); err != nil {
			return nil, nil, locked(ctx, err)
		}
		// A keyring that forgets at once must not cost the secrets.
		if stored, err := s.cfg.Keys.Get(ctx, h.Keyring); err != nil || !h.opens(stored) {
			return nil, nil, fmt.Errorf("%w: the keyring did not keep the key", secret.ErrLocked)
		}
		s.remember(h, key)
		return h, key, nil
	}
	return nil, nil, fmt.Errorf("there is no kind of store %q", kind)
}

func (s *Store) remember(h *header, key []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[string(h.Check)] = key
}
