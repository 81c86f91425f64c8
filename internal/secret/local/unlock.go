package local

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/toolhaven/toolhaven/internal/secret"
)

// unlocker finds the keys of a store's file, and remembers them for this process.
type unlocker struct {
	cfg  *Config
	path string // the store's file, for messages
	kdf  kdf    // of new files

	mu   sync.Mutex
	keys map[string][]byte // by header.Check
}

// unlock returns the key of a sealed file.
func (u *unlocker) unlock(ctx context.Context, h *header) ([]byte, error) {
	if h.opens(u.cfg.Key) {
		return u.cfg.Key, nil
	}
	u.mu.Lock()
	defer u.mu.Unlock() // concurrent callers request the password once
	if key := u.keys[string(h.Check)]; key != nil {
		return key, nil
	}
	key, err := u.find(ctx, h)
	if err == nil {
		u.keys[string(h.Check)] = key
	}
	return key, err
}

func (u *unlocker) find(ctx context.Context, h *header) ([]byte, error) {
	if h.Keyring != "" {
		return u.fromKeyring(ctx, h)
	}
	if u.cfg.Password == nil {
		return nil, fmt.Errorf("%w: %s is encrypted with a password", secret.ErrLocked, u.path)
	}
	for wrong := 0; ; wrong++ {
		password, err := u.cfg.Password(ctx, Question{File: u.path, Wrong: wrong})
		if err != nil {
			return nil, locked(ctx, err)
		}
		if key := h.KDF.key(password); h.opens(key) {
			return key, nil
		}
	}
}

func (u *unlocker) fromKeyring(ctx context.Context, h *header) ([]byte, error) {
	if u.cfg.Keys == nil {
		return nil, fmt.Errorf("%w: the key of %s is in the keyring, which is not available here", secret.ErrLocked, u.path)
	}
	key, err := u.cfg.Keys.Get(ctx, h.Keyring)
	switch {
	case errors.Is(err, secret.ErrNotFound):
		return nil, fmt.Errorf("%w: the keyring does not have the key of %s; restore the keyring, or delete the file to start without its secrets", secret.ErrLocked, u.path)
	case err != nil:
		return nil, locked(ctx, fmt.Errorf("the keyring has the key of %s: %w", u.path, err))
	case !h.opens(key):
		return nil, fmt.Errorf("%w: the keyring has another key than that of %s", secret.ErrLocked, u.path)
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
func (u *unlocker) newHeader(ctx context.Context, kind Kind) (*header, []byte, error) {
	switch kind {
	case "", Plain:
		return nil, nil, nil
	case Encrypted:
		if u.cfg.Password == nil {
			return nil, nil, fmt.Errorf("%w: a password for %s is needed", secret.ErrLocked, u.path)
		}
		password, err := u.cfg.Password(ctx, Question{File: u.path, New: true})
		if err != nil {
			return nil, nil, locked(ctx, err)
		}
		h, key := passwordHeader(u.kdf, password)
		u.remember(h, key)
		return h, key, nil
	case Keyring:
		if u.cfg.Keys == nil {
			return nil, nil, fmt.Errorf("%w: there is no keyring here", secret.ErrLocked)
		}
		h, key := keyringHeader()
		if err := u.cfg.Keys.Set(ctx, h.Keyring, key); err != nil {
			return nil, nil, locked(ctx, err)
		}
		// A keyring that forgets at once must not cost the secrets.
		if stored, err := u.cfg.Keys.Get(ctx, h.Keyring); err != nil || !h.opens(stored) {
			return nil, nil, fmt.Errorf("%w: the keyring did not keep the key", secret.ErrLocked)
		}
		u.remember(h, key)
		return h, key, nil
	}
	return nil, nil, fmt.Errorf("there is no kind of store %q", kind)
}

func (u *unlocker) remember(h *header, key []byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.keys[string(h.Check)] = key
}
