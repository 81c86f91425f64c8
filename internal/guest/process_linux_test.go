package guest

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSpawn_Echo(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	p := g.spawn(t, "cat")
	if _, err := io.WriteString(p.Stdin(), "hello\n"); err != nil {
		t.Fatal(err)
	}
	if got := readWord(t, p); got != "hello" {
		t.Errorf("cat answered %q", got)
	}
	p.Stdin().Close()
	if rest, err := io.ReadAll(p.Stdout()); err != nil || len(rest) > 0 {
		t.Errorf("after its input ended cat wrote %q, %v", rest, err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("cat ended with %v", err)
	}
}

func TestSpawn_Arguments(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	args := []string{"a b", "$HOME", "`id`", "", "'", "ü\n\t*"}
	got, err := g.output(t, append([]string{"sh", "-c", `for a; do printf '<%s>' "$a"; done`, "sh"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("<"+strings.Join(args, "><")+">", got); diff != "" {
		t.Error(diff)
	}
}

func TestSpawn_EnvironmentAndDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := startGuest(t, func(c *exec.Cmd) {
		c.Dir = dir
		c.Env = append(os.Environ(), "PWD="+dir, "GREETING=good day")
	})
	got, err := g.output(t, "sh", "-c", "pwd; echo $GREETING")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(dir+"\ngood day", got); diff != "" {
		t.Error(diff)
	}
}

func TestSpawn_StandardError(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	if _, err := g.output(t, "sh", "-c", "echo trouble >&2"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the process's line on the guest's standard error", func() bool {
		return g.stderr.String() == "trouble\n"
	})
}

func TestSpawn_InheritsNoOtherFiles(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	other := g.spawn(t, "cat") // its pipes must not leak either
	defer other.Stop(t.Context())
	// 0 and 1 are its own pipes and 2 is the guest's standard error.
	got, err := g.output(t, "sh", "-c", "ls /proc/$$/fd; :")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("0\n1\n2", got); diff != "" {
		t.Error(diff)
	}
}

func TestWait_ExitStatus(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	tests := []struct {
		script, want string
	}{
		{"exit 0", ""},
		{"exit 1", "exit status 1"},
		{"exit 137", "exit status 137"},
		{"kill -9 $$", "killed by signal 9"},
		{"kill -TERM $$", "killed by signal 15"},
	}
	for _, tt := range tests {
		t.Run(tt.script, func(t *testing.T) {
			p := g.spawn(t, "sh", "-c", tt.script)
			var wg sync.WaitGroup
			for range 3 { // several may wait
				wg.Go(func() {
					got := ""
					if err := p.Wait(); err != nil {
						got = err.Error()
					}
					if got != tt.want {
						t.Errorf("ended with %q, want %q", got, tt.want)
					}
				})
			}
			wg.Wait()
			if err := p.Stop(t.Context()); err != nil {
				t.Errorf("stopping what has ended: %v", err)
			}
		})
	}
}

func TestSpawn_Failures(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		file := filepath.Join(dir, name)
		// A child that another test forks now would hold the file open for
		// writing, and execve(2) fails with ETXTBSY while one does.
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		if err := os.WriteFile(file, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return file
	}
	g := startGuest(t, func(c *exec.Cmd) { c.Env = []string{"PATH=/bin:" + dir} })
	tests := []struct {
		name, program, want string
	}{
		{"not in PATH", "no-such-program", `executable "no-such-program" not found in the image; its PATH is /bin:` + dir},
		{"no such file", "/no/such/file", `executable "/no/such/file" not found in the image`},
		{"not executable", write("plain", "x", 0o644), "permission denied"},
		{"not executable in PATH", "plain", `executable "plain" cannot be run by the container's user: permission denied`},
		{"directory", dir, "is a directory"},
		{"interpreter missing", write("script", "#!/no/such/interpreter\n", 0o755), "interpreter or loader it names is not in the image"},
		{"wrong format", write("odd", "neither\x00program", 0o755), "no program for this machine's architecture"},
		{"too long", "/bin/true\x00", "NUL byte"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := g.Spawn(t.Context(), []string{tt.program})
			if err == nil {
				p.Stop(t.Context())
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %q, want one with %q", err, tt.want)
			}
		})
	}
	if _, err := g.Spawn(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "needs a program") {
		t.Errorf("spawn of nothing: %v", err)
	}
	if _, err := g.Spawn(t.Context(), []string{"echo", strings.Repeat("x", maxLine)}); err == nil || !strings.Contains(err.Error(), "bytes are more than") {
		t.Errorf("spawn with an argument of 1 MiB: %v", err)
	}
	if got, err := g.output(t, "echo", "fine"); got != "fine" || err != nil {
		t.Errorf("after all these failures: %q, %v", got, err)
	}
}

func TestSpawn_ManyAtOnce(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			p, err := g.Spawn(t.Context(), []string{"cat"})
			if err != nil {
				t.Errorf("process %d: %v", i, err)
				return
			}
			want := strings.Repeat(fmt.Sprintf("this is %d\n", i), 1000)
			go func() {
				io.WriteString(p.Stdin(), want)
				p.Stdin().Close()
			}()
			got, err := io.ReadAll(p.Stdout())
			if err != nil || string(got) != want {
				t.Errorf("process %d: %d bytes, %v; want %d of its own", i, len(got), err, len(want))
			}
			if err := p.Wait(); err != nil {
				t.Errorf("process %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if left := g.processes(t); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	eventually(t, "no zombie", func() bool { return g.zombies(t) == 0 })
	if n := g.session.NumStreams(); n > 0 {
		eventually(t, "no stream left", func() bool { return g.session.NumStreams() == 0 })
	}
}

func TestSpawn_LargeData(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	sent := make([]byte, 32<<20)
	rand.Read(sent)
	p := g.spawn(t, "cat")
	go func() {
		p.Stdin().Write(sent)
		p.Stdin().Close()
	}()
	got, err := io.ReadAll(p.Stdout())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, sent) {
		t.Errorf("%d bytes came back for %d, or others", len(got), len(sent))
	}
}

// The output of a process that has ended is not lost.
func TestSpawn_OutputOfEndedProcess(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	for range 20 {
		p := g.spawn(t, "sh", "-c", "head -c 60000 /dev/zero; exit 3")
		if err := p.Wait(); err == nil || err.Error() != "exit status 3" {
			t.Fatalf("ended with %v", err)
		}
		if out, err := io.ReadAll(p.Stdout()); err != nil || len(out) != 60000 {
			t.Fatalf("%d bytes, %v", len(out), err)
		}
	}
}

func TestSpawn_StalledStreamsAreIndependent(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	loud := g.spawn(t, "sh", "-c", "yes")
	eventually(t, "a full window", func() bool { // it writes more than is read
		_, err := loud.Stdout().Read(make([]byte, 1))
		return err == nil
	})
	if got, err := g.output(t, "echo", "unhindered"); got != "unhindered" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	deaf := g.spawn(t, "sleep", "1000") // never reads its input
	blocked := make(chan error, 1)
	go func() {
		_, err := deaf.Stdin().Write(make([]byte, 4<<20))
		blocked <- err
	}()
	if got, err := g.output(t, "echo", "still"); got != "still" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	within(t, patience, "stopping both", func() {
		if err := errors.Join(loud.Stop(t.Context()), deaf.Stop(t.Context())); err != nil {
			t.Error(err)
		}
	})
	if err := <-blocked; err == nil {
		t.Error("a write to a process that has ended succeeded")
	}
}

func TestSpawn_ProcessClosesItsStreams(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	p := g.spawn(t, "sh", "-c", "exec <&- >&-; sleep 1000")
	if out, err := io.ReadAll(p.Stdout()); err != nil || len(out) > 0 {
		t.Errorf("%q, %v", out, err)
	}
	within(t, patience, "writing to a process that has closed its input", func() {
		p.Stdin().Write(make([]byte, 4<<20))
	})
	select {
	case <-p.(*remoteProcess).ended:
		t.Error("the process counts as ended")
	default:
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestStop_Steps(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	tests := []struct {
		name, script, want string
		atLeast, atMost    time.Duration
	}{
		{"closing its input is enough", `echo up; cat >/dev/null; exit 7`, "exit status 7", 0, stopGrace},
		{"it needs SIGTERM", `trap 'exit 8' TERM; echo up; while :; do sleep 0.05; done`, "exit status 8", stopGrace, 2 * stopGrace},
		{"it ignores SIGTERM", `trap '' TERM; echo up; while :; do sleep 0.05; done`, "killed by signal 9", 2 * stopGrace, 3 * stopGrace},
		{"it is stopped", `trap '' TERM; echo up; kill -STOP $$; sleep 1000`, "killed by signal 9", 2 * stopGrace, 3 * stopGrace},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			timely(t, func() error {
				return stops(t, g.spawn(t, "sh", "-c", tt.script), tt.want, tt.atLeast, tt.atMost)
			})
		})
	}
}

// stops ends a process that has written "up", and checks how it ended and when.
func stops(t *testing.T, p Process, want string, atLeast, atMost time.Duration) error {
	t.Helper()
	if got := readWord(t, p); got != "up" {
		t.Fatalf("it wrote %q", got)
	}
	began := time.Now()
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	took, err := time.Since(began), p.Wait()
	switch {
	case took < atLeast || took > atMost:
		return fmt.Errorf("took %s, want between %s and %s; it ended with %v", took, atLeast, atMost, err)
	case err == nil || err.Error() != want:
		return fmt.Errorf("ended with %v, want %s", err, want)
	}
	return nil
}

// timely runs a check of times up to three times: on a busy machine a process may wait
// longer than a grace for a processor.
func timely(t *testing.T, try func() error) {
	t.Helper()
	var err error
	for range 3 {
		if err = try(); err == nil {
			return
		}
	}
	t.Error(err)
}

// A listener is sent SIGTERM at once, and only once. Both graces follow.
func TestStop_Listener(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	tests := []struct {
		name, script, want string
		atLeast, atMost    time.Duration
	}{
		{"it handles SIGTERM", `trap 'exit 8' TERM; echo up; while :; do sleep 0.05; done`, "exit status 8", 0, stopGrace},
		{"it takes its time", `trap 'trap "exit 1" TERM; sleep 2; exit 8' TERM; echo up; while :; do sleep 0.05; done`, "exit status 8", stopGrace, 2 * stopGrace},
		{"it ignores SIGTERM", `trap '' TERM; echo up; while :; do sleep 0.05; done`, "killed by signal 9", 2 * stopGrace, 3 * stopGrace},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			timely(t, func() error {
				p, err := g.SpawnListener(t.Context(), []string{"sh", "-c", tt.script})
				if err != nil {
					t.Fatal(err)
				}
				return stops(t, p, tt.want, tt.atLeast, tt.atMost)
			})
		})
	}
}

// The same when the line ends: a listener that handles SIGTERM delays nothing, and a
// slow one is not sent a second SIGTERM.
func TestLine_EndStopsListeners(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"it handles SIGTERM": `trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done`,
		"it takes its time":  `trap 'trap "touch $0; exit 1" TERM; sleep 1; exit 0' TERM; echo up; while :; do sleep 0.05; done`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timely(t, func() error {
				g := startGuest(t)
				twice := filepath.Join(t.TempDir(), "twice")
				p, err := g.SpawnListener(t.Context(), []string{"sh", "-c", script, twice})
				if err != nil {
					t.Fatal(err)
				}
				readWord(t, p)
				began := time.Now()
				g.Close()
				g.mustExit(t, patience)
				if _, err := os.Stat(twice); err == nil {
					t.Error("it was sent SIGTERM twice")
				}
				if took := time.Since(began); took > lineLostGrace {
					return fmt.Errorf("it took %s", took)
				}
				return nil
			})
		})
	}
}

func TestStop_ContextEnds(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	timely(t, func() error {
		p := g.spawn(t, "sh", "-c", `trap '' TERM; echo up; while :; do sleep 0.05; done`)
		readWord(t, p)
		began := time.Now()
		if err := p.Stop(short(t, 50*time.Millisecond)); err != nil {
			t.Error(err)
		}
		took := time.Since(began)
		if err := p.Wait(); err == nil || err.Error() != "killed by signal 9" {
			t.Errorf("ended with %v", err)
		}
		if took >= 2*stopGrace {
			return fmt.Errorf("it took %s", took)
		}
		return nil
	})
}

func TestSpawn_DescendantsEndWithProcess(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	tests := []struct{ name, script string }{
		{"child in its group", `sleep 1000 & echo $!`},
		{"grandchild whose parent has ended", `sh -c 'sleep 1000 & echo $!'`},
		{"daemon in a session of its own", `setsid sh -c 'echo $$; exec sleep 1000' & read x; :`},
		{"daemon that ignores everything", `setsid sh -c 'trap "" TERM HUP INT; echo $$; sleep 1000; :' & read x; :`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := g.spawn(t, "sh", "-c", tt.script)
			pid := readWord(t, p)
			p.Stdin().Close() // it may end
			if err := p.Wait(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the end of what it started", func() bool { return !alive(t, pid) })
			// No process holds its output open.
			within(t, patience, "the end of its output", func() { io.Copy(io.Discard, p.Stdout()) })
		})
	}
	eventually(t, "the end of all that was killed", func() bool { return len(g.processes(t)) == 0 })
	eventually(t, "no zombies", func() bool { return g.zombies(t) == 0 })
}

func TestSpawn_DaemonLivesWithProcess(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	p := g.spawn(t, "sh", "-c", `sh -c 'setsid sleep 1000 & echo $!'; cat`)
	pid := readWord(t, p)
	if _, err := g.output(t, "true"); err != nil { // another process ends
		t.Fatal(err)
	}
	if !alive(t, pid) {
		t.Error("it was killed when another process ended")
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its end", func() bool { return !alive(t, pid) })
}

func TestServe_ReapsOrphans(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	p := g.spawn(t, "sh", "-c", `for i in 1 2 3 4 5 6 7 8 9; do sh -c 'setsid sleep 0.1 &'; done; echo up; cat`)
	readWord(t, p)
	eventually(t, "the end of the nine", func() bool { return len(g.processes(t)) == 2 })
	eventually(t, "no zombie", func() bool { return g.zombies(t) == 0 })
	p.Stop(t.Context())
}

func TestServe_LineIsHiddenFromProcesses(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root to run the guest as another user, as containers do")
	}
	g := startGuest(t, func(c *exec.Cmd) {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	})
	for _, fd := range []string{"0", "1"} {
		got, _ := g.output(t, "sh", "-c", "LC_ALL=C timeout 60 cat /proc/$PPID/fd/"+fd+" 2>&1 >/dev/null </dev/null; :")
		if !strings.Contains(got, "Permission denied") {
			t.Errorf("opening file %s of the guest: %q", fd, got)
		}
	}
}

// The variables of a line replace those of the container, once each.
func TestSetEnv(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	g.SetEnv([]string{"HOME=/secret", "TOKEN=a=b\nc"})
	got, err := g.output(t, "sh", "-c", `env -0 | tr '\0\n' '\n|' | grep -E '^(HOME|TOKEN)=' | sort`)
	if got != "HOME=/secret\nTOKEN=a=b|c" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{"", "=x", "NAME", "A=\x00"} {
		g.SetEnv([]string{bad})
		if _, err := g.Spawn(t.Context(), []string{"true"}); err == nil || !strings.Contains(err.Error(), "not NAME=VALUE") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
