// Package local is the store of secrets on this machine: one file, which only its user can
// read. A plain file holds the values as they are. A sealed file is encrypted, with a key made
// of a password (Argon2id) or with a random key that the operating system's keyring holds. The
// file itself states which it is, so that changing it is one rename.
//
// Readers take no lock: a file is replaced whole. Writers hold the lock of the directory while
// they read, change and replace the file. Nothing is written over a file that cannot be read.
package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/toolhaven/toolhaven/internal/secret"
)

// Kind is how the file is protected.
type Kind string

// The kinds.
const (
	Plain     Kind = "file"
	Encrypted Kind = "encrypted" // by a password
	Keyring   Kind = "keyring"   // by a key in the operating system's keyring
)

// Config is what a Store works with. The zero values of all but Dir are usable.
type Config struct {
	// Dir is created when first needed.
	Dir string
	// Kind is that of a file that does not exist yet; "" is Plain.
	Kind Kind
	// Password is called for the password of an encrypted file; nil is none.
	Password func(ctx context.Context, q Question) (string, error)
	// Keys is the operating system's keyring; nil is none.
	Keys Keys
	// Key opens the file when the caller has its key already (Store.Key).
	Key []byte
}

// Question describes the password that is needed.
type Question struct {
	File string
	// New: the password is for a new file and not of the one that is there.
	New bool
	// Wrong is how many answers were wrong before. A source that has no other answer
	// returns an error that wraps [ErrPassword].
	Wrong int
}

// ErrPassword: the password is not that of the file.
var ErrPassword = errors.New("the password is wrong")

// Keys stores keys in the operating system's keyring. Its errors are sentences.
type Keys interface {
	Get(ctx context.Context, id string) ([]byte, error) // secret.ErrNotFound
	Set(ctx context.Context, id string, key []byte) error
	Delete(ctx context.Context, id string) error
}

// Store is a [secret.Store].
type Store struct {
	cfg      Config
	disk     disk
	unlocker *unlocker
}

// Open returns the store of a directory. Nothing is read yet.
func Open(cfg Config) *Store {
	path := filepath.Join(cfg.Dir, "store")
	s := &Store{cfg: cfg, disk: disk(path)}
	s.unlocker = &unlocker{cfg: &s.cfg, path: path, kdf: defaultKDF(), keys: map[string][]byte{}}
	return s
}

// Path is the store's file.
func (s *Store) Path() string { return string(s.disk) }

// Get implements secret.Store.
func (s *Store) Get(ctx context.Context, key string) (string, error) {
	if err := secret.CheckKey(key); err != nil {
		return "", err
	}
	if err := s.migrate(ctx); err != nil {
		return "", err
	}
	c, err := s.read(ctx)
	if err != nil {
		return "", err
	}
	value, ok := c.values[key]
	if !ok {
		if file := damagedLegacy(s.cfg.Dir, key); file != "" {
			return "", fmt.Errorf("read secrets: %s is damaged", file)
		}
		return "", fmt.Errorf("%w: %s", secret.ErrNotFound, key)
	}
	return value, nil
}

// Set implements secret.Store.
func (s *Store) Set(ctx context.Context, key, value string) error {
	return s.Change(ctx, func(values map[string]string) error {
		values[key] = value
		return nil
	})
}

// Delete implements secret.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := secret.CheckKey(key); err != nil {
		return err
	}
	return s.Change(ctx, func(values map[string]string) error {
		delete(values, key)
		return nil
	})
}

// List implements secret.Store.
func (s *Store) List(ctx context.Context, prefix string) ([]string, error) {
	if err := s.migrate(ctx); err != nil {
		return nil, err
	}
	c, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	var keys []string
	for key := range c.values {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// Change reads all values, calls change with them, and stores what it leaves, all or
// nothing. change may be called several times, and must not use the store. Nothing is
// written if nothing has changed.
func (s *Store) Change(ctx context.Context, change func(values map[string]string) error) error {
	if err := s.migrate(ctx); err != nil {
		return err
	}
	// The password is requested before the lock is taken: a person may take long.
	before, err := s.read(ctx)
	if err != nil {
		return err
	}
	if !before.exists {
		values := map[string]string{}
		if err := change(values); err != nil || len(values) == 0 {
			return err
		}
		if before.header, before.key, err = s.unlocker.newHeader(ctx, s.cfg.Kind); err != nil {
			return err
		}
	}
	return s.locked(ctx, func() error {
		c, err := s.readOr(ctx, before)
		if err != nil {
			return err
		}
		values := maps.Clone(c.values)
		if err := change(values); err != nil {
			return err
		}
		if maps.Equal(values, c.values) {
			return nil
		}
		for key, value := range values {
			if err := errors.Join(secret.CheckKey(key), secret.CheckValue(value)); err != nil {
				return err
			}
		}
		c.values = values
		return s.disk.write(c)
	})
}

// PutAll stores values of a workload under their keys, in place of all that it had.
func (s *Store) PutAll(ctx context.Context, workload string, values map[string]string) error {
	if len(values) == 0 {
		return nil
	}
	return s.Change(ctx, func(all map[string]string) error {
		dropWorkload(all, workload)
		for key, value := range values {
			all[secret.Ref(workload, key)] = value
		}
		return nil
	})
}

// Forget deletes all secrets of a workload.
func (s *Store) Forget(ctx context.Context, workload string) error {
	if file := damagedLegacy(s.cfg.Dir, secret.Ref(workload, "x")); file != "" {
		if err := os.Remove(file); err != nil {
			return fmt.Errorf("delete secrets: %w", err)
		}
	}
	return s.Change(ctx, func(all map[string]string) error {
		dropWorkload(all, workload)
		return nil
	})
}

func dropWorkload(values map[string]string, workload string) {
	maps.DeleteFunc(values, func(key, _ string) bool { return strings.HasPrefix(key, secret.Ref(workload, "")) })
}

// Kind returns how the file is protected, without opening it.
func (s *Store) Kind() (Kind, error) {
	_, h, exists, err := s.disk.load()
	switch {
	case err != nil:
		return "", err
	case !exists && s.cfg.Kind != "":
		return s.cfg.Kind, nil
	case h == nil:
		return Plain, nil
	case h.KDF != nil:
		return Encrypted, nil
	}
	return Keyring, nil
}

// Protect changes how the file is protected. Its values stay the same. For Encrypted a new
// password is requested, also when the file is encrypted already.
func (s *Store) Protect(ctx context.Context, kind Kind) error {
	if err := s.migrate(ctx); err != nil {
		return err
	}
	before, err := s.read(ctx)
	if err != nil {
		return err
	}
	h, key, err := s.unlocker.newHeader(ctx, kind)
	if err != nil {
		return err
	}
	err = s.locked(ctx, func() error {
		c, err := s.read(ctx)
		if err != nil {
			return err
		}
		before = c
		return s.disk.write(content{header: h, key: key, values: c.values})
	})
	unused := before.header // the keyring's key of the old file
	if err != nil {
		unused = h
	}
	if unused != nil && unused.Keyring != "" {
		err = errors.Join(err, s.cfg.Keys.Delete(ctx, unused.Keyring))
	}
	return err
}

// Key returns the key of the file, for a process that cannot unlock it itself (Config.Key).
// It is nil for a plain file.
func (s *Store) Key(ctx context.Context) ([]byte, error) {
	c, err := s.read(ctx)
	return c.key, err
}

// Lock implements secret.Store.
func (s *Store) Lock(ctx context.Context, key string) (unlock func(), err error) {
	if err := secret.CheckKey(key); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(key))
	return acquire(ctx, filepath.Join(s.cfg.Dir, "locks", hex.EncodeToString(sum[:16])))
}

func (s *Store) locked(ctx context.Context, do func() error) error {
	unlock, err := acquire(ctx, filepath.Join(s.cfg.Dir, ".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	return do()
}

// acquire waits for a lock file. Lock files are never deleted: two files of one name would
// be two locks.
func acquire(ctx context.Context, path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("lock secrets: %w", err)
	}
	lock := flock.New(path, flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("lock secrets: %w", err)
	}
	return func() { _ = lock.Unlock() }, nil // closing releases it in any case
}

// read returns the file's content; a file that does not exist is empty.
func (s *Store) read(ctx context.Context) (content, error) {
	f, h, exists, err := s.disk.load()
	if err != nil || !exists {
		return content{values: map[string]string{}}, err
	}
	if h == nil {
		return content{values: orEmpty(f.Values), exists: true}, nil
	}
	key, err := s.unlocker.unlock(ctx, h)
	if err != nil {
		return content{}, err
	}
	values, err := f.open(key)
	if err != nil {
		return content{}, s.disk.broken(err)
	}
	return content{header: h, key: key, values: orEmpty(values), exists: true}, nil
}

// readOr is read; a file that does not exist has the protection of before.
func (s *Store) readOr(ctx context.Context, before content) (content, error) {
	c, err := s.read(ctx)
	if err == nil && !c.exists {
		c.header, c.key = before.header, before.key
	}
	return c, err
}

func orEmpty(values map[string]string) map[string]string {
	if values == nil {
		return map[string]string{}
	}
	return values
}
