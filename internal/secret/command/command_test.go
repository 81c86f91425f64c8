package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/secret"
)

// script returns a provider that runs a shell script of the test's own.
func script(t *testing.T, text string) *Provider {
	t.Helper()
	file := filepath.Join(t.TempDir(), "print")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	p, err := New([]string{file, "-o"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestGet(t *testing.T) {
	t.Setenv("THV_SECRETS_PASSWORD", "hunter2")
	for _, c := range []struct{ script, name, want, fault string }{
		{`echo "$1 $2 $# $THV_SECRET_NAME"`, "a b;$(id)", "-o a b;$(id) 2 a b;$(id)", ""},
		{`printf 'two\nlines\r\n\n'`, "a", "two\nlines", ""},
		{`echo "<$THV_SECRETS_PASSWORD>"`, "a", "<>", ""},
		{`exit 0`, "a", "", "printed nothing"},
		{`echo half; printf 'no\033[2J such thing\n' >&2; exit 3`, "a", "", "exit status 3: no such thing"},
		{`head -c 17000000 /dev/zero`, "a", "", "larger than"},
		{`printf '\377'`, "a", "", "not text"},
		{`echo x`, "-rf", "", "is not the name of a secret"},
	} {
		got, err := script(t, c.script).Get(t.Context(), c.name)
		if c.fault == "" && (err != nil || got != c.want) || c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) {
			t.Errorf("%s: %.80q, %v", c.script, got, err)
		}
	}
}

func TestGet_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := script(t, `sleep 600 & sleep 600`).Get(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestProvider_IsReadOnly(t *testing.T) {
	t.Parallel()
	p := script(t, "")
	_, err := p.List(t.Context())
	for _, err := range []error{err, p.Set(t.Context(), "a", "b"), p.Delete(t.Context(), "a")} {
		if !errors.Is(err, secret.ErrReadOnly) {
			t.Error(err)
		}
	}
	if _, err := New(nil); err == nil {
		t.Error("a command without a program")
	}
	gone, _ := New([]string{"/nowhere/print"})
	if _, err := gone.Get(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
}
