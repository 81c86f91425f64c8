package keyring

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/secret"
	"github.com/toolhaven/toolhaven/internal/secret/local"
)

// inSession is set in the test binary that runs itself again on a session bus of its own,
// with gnome-keyring on it.
const inSession = "THV_TEST_KEYRING_SESSION"

// session runs the test named t.Name in a session. unlocked is whether the keyring is.
func session(t *testing.T, state string) {
	t.Helper()
	for _, program := range []string{"dbus-run-session", "gnome-keyring-daemon"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no test of a real keyring: %s is not installed; test/setup/keyring.sh installs it", program)
		}
	}
	home := t.TempDir()
	start := map[string]string{
		"unlocked": `printf 'login password' | gnome-keyring-daemon --unlock --components=secrets >/dev/null && `,
		"locked": `printf 'login password' | gnome-keyring-daemon --unlock --components=secrets >/dev/null && "$0" -test.run='^TestStoreKey$' -test.v && ` +
			`printf 'another password' | gnome-keyring-daemon --replace --unlock --components=secrets >/dev/null 2>&1; `,
		"absent": ``,
	}[state]
	cmd := exec.CommandContext(t.Context(), "dbus-run-session", "--", "sh", "-c", start+`exec "$0" -test.run="^$1\$" -test.v`, os.Args[0], t.Name())
	cmd.Env = append(os.Environ(), inSession+"="+state, "HOME="+home, "XDG_DATA_HOME="+home+"/data", "XDG_RUNTIME_DIR="+home, "DISPLAY=", "WAYLAND_DISPLAY=")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil || !strings.Contains(out.String(), "--- PASS: "+t.Name()) {
		t.Fatalf("%v\n%s", err, out.String())
	}
}

var testKey = bytes.Repeat([]byte{7}, 32)

// TestStoreKey is the first part of TestKeyring_Locked.
func TestStoreKey(t *testing.T) {
	if os.Getenv(inSession) == "" {
		return
	}
	if err := New(os.Getenv).Set(t.Context(), "id", testKey); err != nil {
		t.Fatal(err)
	}
}

func TestKeyring(t *testing.T) {
	if os.Getenv(inSession) == "" {
		t.Parallel()
		session(t, "unlocked")
		return
	}
	k := New(os.Getenv)
	if _, err := k.Get(t.Context(), "id"); !errors.Is(err, secret.ErrNotFound) {
		t.Errorf("of no key: %v", err)
	}
	if err := k.Delete(t.Context(), "id"); err != nil {
		t.Errorf("delete of no key: %v", err)
	}
	if err := k.Set(t.Context(), "id", testKey); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			if got, err := k.Get(t.Context(), "id"); !bytes.Equal(got, testKey) || err != nil {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	wait.Wait()
	if err := k.Delete(t.Context(), "id"); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Get(t.Context(), "id"); !errors.Is(err, secret.ErrNotFound) {
		t.Errorf("after Delete: %v", err)
	}
	// A store whose key is in it.
	dir := t.TempDir()
	open := func() *local.Store { return local.Open(local.Config{Dir: dir, Kind: local.Keyring, Keys: k}) }
	if err := open().Set(t.Context(), "user/github", "hunter2"); err != nil {
		t.Fatal(err)
	}
	if got, err := open().Get(t.Context(), "user/github"); got != "hunter2" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if content, err := os.ReadFile(open().Path()); err != nil || bytes.Contains(content, []byte("github")) {
		t.Errorf("%s, %v", content, err)
	}
	if err := open().Protect(t.Context(), local.Plain); err != nil {
		t.Fatal(err)
	}
}

// A keyring that stays locked is an error, soon, and in words.
func TestKeyring_Locked(t *testing.T) {
	if os.Getenv(inSession) == "" {
		t.Parallel()
		session(t, "locked")
		return
	}
	k := New(os.Getenv)
	k.wait = 10 * time.Second // no dialog can be shown here
	for _, err := range []error{k.Set(t.Context(), "other", testKey), second(k.Get(t.Context(), "id"))} {
		if err == nil || errors.Is(err, secret.ErrNotFound) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "keyring") {
			t.Errorf("got %v", err)
		}
		t.Log(err)
	}
}

func second(_ []byte, err error) error { return err }

func TestKeyring_Absent(t *testing.T) {
	if os.Getenv(inSession) == "" {
		t.Parallel()
		session(t, "absent")
		return
	}
	if err := New(os.Getenv).Set(t.Context(), "id", testKey); err == nil || !strings.Contains(err.Error(), "keyring") {
		t.Error(err)
	}
}

func TestKeyring_NoSessionBus(t *testing.T) {
	t.Parallel()
	k := New(func(name string) string { return map[string]string{"XDG_RUNTIME_DIR": t.TempDir()}[name] })
	if _, err := k.Get(t.Context(), "id"); err == nil || !strings.Contains(err.Error(), "there is no session bus") {
		t.Error(err)
	}
}

// A call that hangs is given up.
func TestKeyring_Hangs(t *testing.T) {
	t.Parallel()
	k := &Keyring{env: func(string) string { return "x" }, wait: 10 * time.Millisecond}
	release := make(chan struct{})
	defer close(release)
	hang := func() error { <-release; return nil }
	if err := k.call(t.Context(), hang); err == nil || !strings.Contains(err.Error(), "did not respond within") {
		t.Error(err)
	}
	k.wait = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := k.call(ctx, hang); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
