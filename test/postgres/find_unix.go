//go:build unix

package postgres

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
)

// installed finds the directory of PostgreSQL's programs: where the path has
// them, else the latest of Debian's.
func installed() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil && hasServer(filepath.Dir(path)) {
			return filepath.Dir(path), nil
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	release := func(bin string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
		return n
	}
	slices.SortFunc(found, func(a, b string) int { return release(b) - release(a) })
	for _, bin := range found {
		if hasServer(bin) {
			return bin, nil
		}
	}
	return "", errors.New("it is not installed")
}

func hasServer(bin string) bool {
	_, err := os.Stat(filepath.Join(bin, "postgres"))
	return err == nil
}

// unprivileged is how to run it: as we are, or, when we are root, as postgres.
func unprivileged() (*syscall.SysProcAttr, error) {
	// A terminal's ^C is for the test, which then ends the server.
	as := &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() != 0 {
		return as, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root, and its user is not there: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return as, nil
}

// guard starts a process that waits for this one to end, however it does, and
// then ends the server and removes its directory. The function returned does so
// earlier.
func guard(t testing.TB, dir string) func() {
	t.Helper()
	const script = `
cat >/dev/null
pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null)
# Its directory in the arguments shows that the process is ours.
if [ -n "$pid" ] && ps -o args= -p "$pid" | grep -qF -- "$1/"; then
	kill -QUIT "$pid"
	# Where nobody reaps orphans, it stays as a zombie.
	while ps -o stat= -p "$pid" | grep -q '^[^Z]'; do sleep 0.1; done
fi
rm -rf "$1"`
	command := exec.Command("sh", "-c", script, "sh", dir)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := command.StdinPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatalf("start what ends PostgreSQL after the test: %v", err)
	}
	return func() {
		stdin.Close()
		if err := command.Wait(); err != nil {
			t.Errorf("remove %s: %v", dir, err)
		}
	}
}
