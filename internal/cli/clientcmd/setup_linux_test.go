package clientcmd

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/ptytest"
)

func TestSetup_PromptsForEachInstalledClient(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	for _, dir := range []string{".cursor", ".codex", ".kiro"} {
		if err := os.Mkdir(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s := ptytest.New(t)
	app := &base.App{In: s.TTY, Err: s.TTY, Out: io.Discard, Env: func(k string) string {
		if k == "HOME" {
			return home
		}
		return ""
	}}
	done := make(chan error, 1)
	go func() { done <- runSetup(t.Context(), &setupOptions{app: app}) }()
	s.Shows(t, "Set up Codex (")
	io.WriteString(s.Person, "yes\n")
	s.Shows(t, "Set up Cursor (")
	io.WriteString(s.Person, "\n")
	s.Shows(t, "Set up Kiro (")
	io.WriteString(s.Person, "Y\n")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	clients, err := app.Clients()
	if err != nil {
		t.Fatal(err)
	}
	names, err := clients.Enabled()
	if diff := cmp.Diff([]string{"codex", "kiro"}, names); diff != "" || err != nil {
		t.Error(diff, err)
	}

	// Ctrl-C sets up none.
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- runSetup(ctx, &setupOptions{app: app}) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	io.WriteString(s.Person, "\n") // lets the read end
}
