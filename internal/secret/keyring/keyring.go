// Package keyring stores keys in the operating system's keyring: the Secret Service on Linux
// (GNOME Keyring, KWallet, KeePassXC), the Keychain on macOS, the Credential Manager on
// Windows. It implements local.Keys.
package keyring

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	gokeyring "github.com/zalando/go-keyring"

	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/secret"
)

// service is the name under which the keyring shows the keys to its user.
const service = "thv"

// wait bounds one call: the keyring may show a dialog to unlock it.
const wait = time.Minute

// Keyring is the keyring of this session.
type Keyring struct {
	env  func(string) string
	wait time.Duration
}

// New returns the keyring of this session. env is os.Getenv.
func New(env func(string) string) *Keyring { return &Keyring{env: env, wait: wait} }

// Get returns a key, or secret.ErrNotFound.
func (k *Keyring) Get(ctx context.Context, id string) (key []byte, err error) {
	err = k.call(ctx, func() error {
		text, err := gokeyring.Get(service, id)
		if err != nil {
			return err
		}
		if key, err = base64.StdEncoding.DecodeString(text); err != nil {
			return errors.New("its entry was changed") // err may quote the key
		}
		return nil
	})
	if err != nil {
		return nil, err // key may still be written to
	}
	return key, nil
}

// Set stores a key.
func (k *Keyring) Set(ctx context.Context, id string, key []byte) error {
	return k.call(ctx, func() error { return gokeyring.Set(service, id, base64.StdEncoding.EncodeToString(key)) })
}

// Delete deletes a key. A key that is not there is not an error.
func (k *Keyring) Delete(ctx context.Context, id string) error {
	err := k.call(ctx, func() error { return gokeyring.Delete(service, id) })
	if errors.Is(err, secret.ErrNotFound) {
		return nil
	}
	return err
}

// call bounds a call of the library, which waits for a dialog without a limit.
func (k *Keyring) call(ctx context.Context, do func() error) error {
	if err := k.session(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- do() }()
	timeout := time.NewTimer(k.wait)
	defer timeout.Stop()
	select {
	case err := <-done:
		return sentence(err)
	case <-timeout.C:
		return fmt.Errorf("the keyring did not respond within %s; it may be waiting for its password", k.wait)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// session is an error on Linux without a session bus, where the library would start one
// that no keyring is on.
func (k *Keyring) session() error {
	if runtime.GOOS != "linux" || k.env("DBUS_SESSION_BUS_ADDRESS") != "" {
		return nil
	}
	run := k.env("XDG_RUNTIME_DIR")
	if run == "" {
		run = "/run/user/" + strconv.Itoa(os.Getuid())
	}
	if _, err := os.Stat(filepath.Join(run, "bus")); err != nil {
		return errors.New("there is no session bus, and so no keyring (DBUS_SESSION_BUS_ADDRESS is not set)")
	}
	return nil
}

// sentence returns the error of the library in words.
func sentence(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	contains := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(text, part) {
				return true
			}
		}
		return false
	}
	switch {
	case errors.Is(err, gokeyring.ErrNotFound):
		return secret.ErrNotFound
	case contains("failed to unlock", "IsLocked", "is locked", "locked collection"):
		return errors.New("the keyring is locked, and was not unlocked; log in to the desktop, or unlock it")
	case contains("ServiceUnknown", "was not provided by any", "activation", "connect: "):
		return errors.New("no keyring runs in this session (no Secret Service is on the session bus)")
	case contains("NoSuchObject", "does not exist", "Object does not exist", "No such"):
		return errors.New("the keyring has no default collection; create one, for example by logging in to the desktop")
	}
	return fmt.Errorf("the keyring refused: %s", plaintext.Excerpt(text, 200))
}
