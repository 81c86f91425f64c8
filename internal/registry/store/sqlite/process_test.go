package sqlite

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/registry/store"
	"github.com/toolhaven/toolhaven/test/leak"
)

// The test program is also the other process of these tests.
const taskEnv, pathEnv = "THV_TEST_SQLITE_TASK", "THV_TEST_SQLITE_PATH"

func TestMain(m *testing.M) {
	if task := os.Getenv(taskEnv); task != "" {
		if err := otherProcess(task, os.Getenv(pathEnv)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	leak.Main(m)
}

const increments = 50

func otherProcess(task, path string) error {
	ctx := context.Background()
	s, err := Open(ctx, path)
	if err != nil {
		return err
	}
	defer s.Close()
	switch task {
	case "secret":
		secret, err := s.Secret(ctx, "key", func() ([]byte, error) { return strconv.AppendInt(nil, int64(os.Getpid()), 10), nil })
		fmt.Printf("%s\n", secret)
		return err
	case "increment":
		for n, refused := 0, 0; n < increments; {
			_, err := s.Update(ctx, "default", "a", "1", increment)
			switch {
			case err == nil:
				n++
			case errors.Is(err, store.ErrUnavailable) && refused < increments:
				refused++ // the lock is not fair, and nothing was changed
			default:
				return err
			}
		}
	case "insert": // until it is killed
		for i := 0; ; i++ {
			if _, err := s.Insert(ctx, version(fmt.Sprint(i))); err != nil {
				return err
			}
			fmt.Println(i)
		}
	}
	return nil
}

func version(version string) store.Version {
	return store.Version{
		Head:     store.Head{Source: "default", Name: "a", Version: version, Status: "active", StatusMessage: "0"},
		Document: json.RawMessage(`{"v": "` + version + `"}`),
	}
}

func increment(v *store.Version) error {
	n, err := strconv.Atoi(v.StatusMessage)
	v.StatusMessage = strconv.Itoa(n + 1)
	return err
}

func start(t *testing.T, task, path string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), taskEnv+"="+task, pathEnv+"="+path)
	command.Stderr = os.Stderr
	stdout, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return command, bufio.NewScanner(stdout)
}

func TestProcesses_Secret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registry.db")
	var said []string
	var lines []*bufio.Scanner
	var commands []*exec.Cmd
	for range 4 {
		command, out := start(t, "secret", path)
		commands, lines = append(commands, command), append(lines, out)
	}
	for i, out := range lines {
		out.Scan()
		said = append(said, out.Text())
		if err := commands[i].Wait(); err != nil {
			t.Error(err)
		}
	}
	for _, secret := range said {
		if secret == "" || secret != said[0] {
			t.Errorf("the secrets are %q", said)
		}
	}
}

func TestProcesses_Updates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registry.db")
	s := openAt(t, path)
	if _, err := s.Insert(t.Context(), version("1")); err != nil {
		t.Fatal(err)
	}
	var commands []*exec.Cmd
	for range 3 {
		command, _ := start(t, "increment", path)
		commands = append(commands, command)
	}
	for range increments {
		if _, err := s.Update(t.Context(), "default", "a", "1", increment); err != nil {
			t.Error(err)
		}
	}
	for _, command := range commands {
		if err := command.Wait(); err != nil {
			t.Error(err)
		}
	}
	got, err := s.Update(t.Context(), "default", "a", "1", func(*store.Version) error { return nil })
	if want := strconv.Itoa(4 * increments); err != nil || got.StatusMessage != want {
		t.Errorf("4 times %d increments made %s: %v", increments, got.StatusMessage, err)
	}
}

// What a process has acknowledged is there after it was killed, in order and
// without gaps, and the next one opens the file as if nothing had happened.
func TestProcesses_Killed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registry.db")
	command, out := start(t, "insert", path)
	acknowledged := -1
	for out.Scan() {
		n, err := strconv.Atoi(strings.TrimSpace(out.Text()))
		if err != nil {
			t.Fatal(err)
		}
		if acknowledged = n; n == 100 {
			if err := command.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = command.Wait()
	if acknowledged < 100 {
		t.Fatalf("it ended after %d", acknowledged)
	}
	s := openAt(t, path)
	found := 0
	revision, err := s.Changes(t.Context(), "default", 0, func(store.Head) error {
		found++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// The last one may have been committed without being reported.
	if found != acknowledged+1 && found != acknowledged+2 || revision.Number != int64(found) {
		t.Errorf("%d were acknowledged, %d are there, at revision %d", acknowledged+1, found, revision.Number)
	}
	if _, err := s.Insert(t.Context(), version("after")); err != nil {
		t.Error(err)
	}
}
