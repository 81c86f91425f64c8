package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// keepEnded is how many of the last processes' exit states are kept.
const keepEnded = 1024

// supervisor starts processes. It is the only waiter for children of the guest.
type supervisor struct {
	stderr *os.File
	env    []string
	argv   []string // of a spawn without one; nil is none
	// mark is in the environment of every process that the guest starts, followed by
	// the process's number.
	mark string
	// egress accepts the connections of an isolated container.
	egress egress

	// mu is held from a fork until the child is registered, and over a wait until the
	// status is stored: no status is received for a process that is not registered.
	mu     sync.Mutex
	ending bool
	lastID int64
	byID   map[int64]*process
	byPID  map[int]*process // not yet reaped
}

func newSupervisor(stderr *os.File) *supervisor {
	return &supervisor{
		stderr: stderr,
		env:    os.Environ(),
		mark:   fmt.Sprintf("THV_PROCESS=%d-%x-", os.Getpid(), time.Now().UnixNano()),
		byID:   map[int64]*process{},
		byPID:  map[int]*process{},
	}
}

// start runs the program of a spawn in a session of its own. If give is not nil, it
// receives the pipes, and the guest's copies are closed.
func (s *supervisor) start(req request, give func(stdin, stdout *os.File) error) (*process, error) {
	if len(req.Argv) == 0 {
		req.Argv = s.argv
	}
	if len(req.Argv) == 0 {
		return nil, errors.New("spawn needs a program to run")
	}
	env := withEnv(s.env, req.Env)
	path, err := lookPath(req.Argv[0], env)
	if err != nil {
		return nil, err
	}
	theirStdin, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	stdout, theirStdout, err := os.Pipe()
	if err != nil {
		theirStdin.Close()
		stdin.Close()
		return nil, err
	}
	defer theirStdin.Close()
	defer theirStdout.Close()
	p, err := s.fork(path, req, env, theirStdin, theirStdout)
	if err != nil {
		stdin.Close()
		stdout.Close()
		return nil, err
	}
	p.stdin, p.stdout = stdin, stdout
	defer close(p.ready) // they are not closed before
	if give == nil {
		return p, nil
	}
	err = give(stdin, stdout)
	stdin.Close()
	stdout.Close()
	if err != nil {
		p.send(unix.SIGKILL)
		return nil, err
	}
	return p, nil
}

// withEnv returns base with variables that replace those of the same name: of a name that
// is there twice, programs use the one or the other.
func withEnv(base, variables []string) []string {
	env := base[:len(base):len(base)]
	for _, variable := range variables {
		name := variable[:strings.IndexByte(variable, '=')+1]
		env = slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, name) })
		env = append(env, variable)
	}
	return env
}

func (s *supervisor) fork(path string, req request, env []string, stdin, stdout *os.File) (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		return nil, errors.New("the container is being stopped")
	}
	id := s.lastID + 1
	pid, err := forkExec(path, req.Argv, append(env[:len(env):len(env)], s.markOf(id)), stdin, stdout, s.stderr)
	if err != nil {
		return nil, execError(path, err)
	}
	s.lastID = id
	p := &process{supervisor: s, id: id, pid: pid, listens: req.Listens, ready: make(chan struct{}), done: make(chan struct{})}
	s.byID[id], s.byPID[pid] = p, p
	s.forget(id - keepEnded)
	return p, nil
}

func (s *supervisor) markOf(id int64) string { return s.mark + strconv.FormatInt(id, 10) }

// find returns the process with that number, nil if there was none or it ended long
// ago (keepEnded).
func (s *supervisor) find(id int64) *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}

// forget drops a process that has ended. The caller holds mu.
func (s *supervisor) forget(id int64) {
	if p := s.byID[id]; p != nil && p.reaped {
		delete(s.byID, id)
	}
}

// reap waits for children, our own and orphans, until ctx ends.
func (s *supervisor) reap(ctx context.Context) {
	died := make(chan os.Signal, 1)
	signal.Notify(died, unix.SIGCHLD)
	defer signal.Stop(died)
	for {
		for s.reapOne() {
		}
		select {
		case <-died:
		case <-ctx.Done():
			return
		}
	}
}

func (s *supervisor) reapOne() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var status unix.WaitStatus
	pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
	if errors.Is(err, unix.EINTR) {
		return true
	}
	if err != nil || pid <= 0 {
		return false
	}
	p := s.byPID[pid]
	if p == nil {
		return true // an orphan
	}
	delete(s.byPID, pid)
	p.reaped = true
	if status.Signaled() {
		p.signal = int(status.Signal())
	} else {
		p.code = status.ExitStatus()
	}
	if p.id <= s.lastID-keepEnded {
		s.forget(p.id)
	}
	// The kernel does not reuse a number that a process group still has, so this
	// signal reaches the rest of its group only.
	_ = unix.Kill(-pid, unix.SIGKILL)
	go p.finish()
	return true
}

// end ends every process and all that they started, by increasingly harsh steps.
func (s *supervisor) end(grace, afterTerm time.Duration) {
	s.mu.Lock()
	s.ending = true
	all := make([]*process, 0, len(s.byPID))
	for _, p := range s.byPID {
		all = append(all, p)
	}
	s.mu.Unlock()
	for _, p := range all {
		p.closeStdin()
		if p.listens {
			p.send(unix.SIGTERM)
		}
	}
	if endedWithin(all, grace) {
		sweep(s.mark)
		return
	}
	for _, p := range all {
		if !p.listens { // many servers exit at once on a second SIGTERM
			p.send(unix.SIGTERM)
		}
	}
	endedWithin(all, afterTerm)
	for _, p := range all {
		p.send(unix.SIGKILL)
	}
	sweep(s.mark)
	endedWithin(all, killGrace)
}

// endedWithin reports whether all of them end in that time.
func endedWithin(all []*process, d time.Duration) bool {
	timeout := time.NewTimer(d)
	defer timeout.Stop()
	for _, p := range all {
		select {
		case <-p.done:
			continue
		default:
		}
		select {
		case <-p.done:
		case <-timeout.C:
			return false
		}
	}
	return true
}
