package local

import (
	"context"
	"fmt"

	"github.com/toolhaven/toolhaven/internal/secret"
)

// User is the secret.Provider of the user's own secrets in a Store.
type User struct{ *Store }

// About implements secret.Provider.
func (u User) About() secret.About {
	about := secret.About{Place: u.Path(), Writes: true, Lists: true}
	kind, err := u.Kind()
	if err != nil {
		kind = u.cfg.Kind // the file is damaged
	}
	switch kind {
	case Encrypted:
		about.Protects = "encrypted with your password: programs that read your files do not get the values without it"
	case Keyring:
		about.Protects = "encrypted with a key in the system's keyring: safe in backups and from other users, and from your own programs while the keyring is locked"
	default:
		kind = Plain
		about.Protects = "a file that only you can read: safe from other users, not from programs that run as you; `thv secret provider keyring` or `encrypted` encrypts it"
	}
	about.Name = string(kind)
	return about
}

// Get implements secret.Provider.
func (u User) Get(ctx context.Context, name string) (string, error) {
	if err := secret.CheckPlainName(name); err != nil {
		return "", err
	}
	return u.Store.Get(ctx, secret.UserKey(name))
}

// Set implements secret.Provider.
func (u User) Set(ctx context.Context, name, value string) error {
	if err := secret.CheckPlainName(name); err != nil {
		return err
	}
	return u.Store.Set(ctx, secret.UserKey(name), value)
}

// Delete implements secret.Provider.
func (u User) Delete(ctx context.Context, name string) error {
	if err := secret.CheckPlainName(name); err != nil {
		return err
	}
	key := secret.UserKey(name)
	return u.Change(ctx, func(values map[string]string) error {
		if _, ok := values[key]; !ok {
			return fmt.Errorf("%w: %q", secret.ErrNotFound, name)
		}
		delete(values, key)
		return nil
	})
}

// List implements secret.Provider.
func (u User) List(ctx context.Context) ([]string, error) {
	keys, err := u.Store.List(ctx, secret.UserKey(""))
	for i, key := range keys {
		keys[i], _ = secret.UserName(key)
	}
	return keys, err
}
