package oauthclient

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/secret"
	"github.com/toolhaven/toolhaven/internal/secret/local"
)

// mustUnmove writes the records of a store as version 1 had them: each in a file of its own.
func mustUnmove(t *testing.T, s *Store) (files []string) {
	t.Helper()
	for _, kind := range []string{kindLogin, kindGrant, kindRegistration} {
		found, err := filepath.Glob(filepath.Join(s.records.dir, kind, "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range found {
			key := s.records.key(file)
			value, err := s.records.values.Get(t.Context(), key)
			if err == nil {
				err = errors.Join(s.records.values.Delete(t.Context(), key), os.WriteFile(file, []byte(value), 0o600))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		files = append(files, found...)
	}
	return files
}

// No token is in a file beside the secrets store.
func TestRecords_InTheSecretsStore(t *testing.T) {
	t.Parallel()
	f, s := newFake(t), testStore(t)
	f.mustSignIn(s)
	keyed := f.mustSignInKeyed(s, nil)
	_, kept, err := s.records.find(t.Context(), mustURL(f.url))
	if err != nil || kept == nil {
		t.Fatal(err)
	}
	for _, kind := range []string{kindLogin, kindGrant, kindRegistration} {
		files, _ := filepath.Glob(filepath.Join(s.records.dir, kind, "*.json"))
		if len(files) != 1 {
			t.Errorf("%s: %v", kind, files)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil || string(content) != `{"version":2}` {
				t.Errorf("%s: %s, %v", file, content, err)
			}
		}
	}
	if _, err := s.records.values.Get(t.Context(), Reference(keyed.Key)); err != nil {
		t.Errorf("%s: %v", Reference(keyed.Key), err)
	}
	if _, err := s.SignOut(t.Context(), f.url); err != nil {
		t.Fatal(err)
	}
	store := s.records.values.(*local.Store)
	if left, err := store.List(t.Context(), secret.OAuthPrefix+kindLogin); err != nil || len(left) > 0 {
		t.Errorf("after the sign-out: %v, %v", left, err)
	}
}

// Sign-ins of an earlier version are used, and leave their files.
func TestRecords_OfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	f, s := newFake(t), testStore(t)
	f.mustSignIn(s)
	key := f.mustSignInKeyed(s, nil).Key
	files := mustUnmove(t, s)
	if len(files) != 3 {
		t.Fatalf("%v", files)
	}
	if token, err := mustSource(t, s, f.url).Token(t.Context()); token == "" || err != nil {
		t.Errorf("%v", err)
	}
	source, err := s.Keyed(key, f.keyed().Target)
	if err != nil {
		t.Fatal(err)
	}
	if token, err := source.Token(t.Context()); token == "" || err != nil {
		t.Errorf("%v", err)
	}
	registrations := len(f.registrations)
	f.mustSignInKeyed(s, func(r *Request) { r.Fresh = true })
	if n := len(f.registrations); n != registrations {
		t.Errorf("the client registered again: %d, %d", registrations, n)
	}
	for _, file := range files {
		if content, _ := os.ReadFile(file); string(content) != `{"version":2}` {
			t.Errorf("%s is %s", file, content)
		}
	}
}

// locking is a secrets store that can be locked.
type locking struct {
	Values
	locked bool
}

func (l *locking) Get(ctx context.Context, key string) (string, error) {
	if l.locked {
		return "", secret.ErrLocked
	}
	return l.Values.Get(ctx, key)
}

func (l *locking) Set(ctx context.Context, key, value string) error {
	if l.locked {
		return secret.ErrLocked
	}
	return l.Values.Set(ctx, key, value)
}

// A locked secrets store is opened only for a sign-in that exists, is no reason to sign in
// again, and loses none.
func TestRecords_LockedStore(t *testing.T) {
	t.Parallel()
	f, s := newFake(t), testStore(t)
	values := &locking{Values: s.records.values, locked: true}
	s.records.values = values
	if token, err := mustSource(t, s, f.url).Token(t.Context()); token != "" || err != nil {
		t.Errorf("without a sign-in: %v", err)
	}
	values.locked = false
	f.mustSignIn(s)
	values.locked = true
	for what, s := range map[string]*Store{"the token": s, "its renewal": later(s, 2*time.Hour)} {
		token, err := mustSource(t, s, f.url).Token(t.Context())
		if token != "" || !errors.Is(err, secret.ErrLocked) || errors.Is(err, ErrSignIn) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if len(f.forms) != 1 {
		t.Errorf("%d token requests", len(f.forms))
	}
	values.locked = false
	mustUnmove(t, s)
	values.locked = true
	if token, err := mustSource(t, s, f.url).Token(t.Context()); token == "" || err != nil {
		t.Errorf("of an earlier version: %v", err)
	}
	values.locked = false
	if token, err := mustSource(t, later(s, 2*time.Hour), f.url).Token(t.Context()); token == "" || err != nil {
		t.Errorf("unlocked: %v", err)
	}
	if strings.Contains(string(must(os.ReadFile(s.records.signIn(key(mustURL(f.url)))))), "token") {
		t.Error("the file still has the tokens")
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}
