package workload

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/toolhaven/toolhaven/internal/settings"
)

// Ownership is a process's hold on a workload: an exclusive lock that the
// operating system releases however the process ends, and a control socket that
// exists only while the lock is held. Files under run/ are outside the
// workload's own directory, so that deleting the directory hides nobody.
type Ownership struct {
	Name   string
	Nonce  string // proves to a caller that the answer comes from the holder
	Socket net.Listener

	lock *flock.Flock
	info string
}

// ownerInfo is written by the holder of the lock beside it. It is believed only
// while the lock is held.
type ownerInfo struct {
	Nonce  string `json:"nonce"`
	Socket string `json:"socket"`
	PID    int    `json:"pid"` // used only where the kernel does not name a socket's peer
}

func (s *Store) lockPath(name string) string { return filepath.Join(s.state, "run", name+".lock") }
func (s *Store) infoPath(name string) string { return filepath.Join(s.state, "run", name+".json") }

// maxSocketPath is the shortest limit of the systems we run on (macOS: 104
// bytes with the final NUL).
const maxSocketPath = 103

// socketPath is short enough for the operating system, in a directory that only
// this user can enter.
func (s *Store) socketPath(name, nonce string) string {
	if p := filepath.Join(s.state, "run", name+".sock"); len(p) <= maxSocketPath {
		return p
	}
	return filepath.Join(s.runtime, nonce+".sock")
}

// LineDir is where the holder of a workload may keep a socket that its container
// reaches; empty when the operating system has no path for it.
func (s *Store) LineDir(name string) string {
	dir := filepath.Join(s.state, "run", name+".line")
	if len(dir)+len("/s") > maxSocketPath {
		return ""
	}
	return dir
}

// Own takes hold of a workload for this process. ErrAlreadyRunning when another
// process has it.
func (s *Store) Own(ctx context.Context, name string) (*Ownership, error) {
	if err := os.MkdirAll(filepath.Join(s.state, "run"), 0o700); err != nil {
		return nil, fmt.Errorf("own workload %q: %w", name, err)
	}
	// Whoever looks for an owner holds a shared lock for an instant, so one
	// refusal is not the last word.
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	lock := flock.New(s.lockPath(name))
	locked, err := lock.TryLockContext(ctx, 20*time.Millisecond)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("workload %q: %w", name, ErrAlreadyRunning)
	}
	if err != nil || !locked {
		return nil, fmt.Errorf("own workload %q: %w", name, err)
	}
	o := &Ownership{Name: name, Nonce: newNonce(), lock: lock, info: s.infoPath(name)}
	if err := o.listen(s.socketPath(name, o.Nonce)); err != nil {
		lock.Unlock()
		return nil, fmt.Errorf("own workload %q: %w", name, err)
	}
	return o, nil
}

func (o *Ownership) listen(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	// Left by an owner that was killed; we hold the lock, so nobody serves it.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		return err
	}
	b, err := json.Marshal(ownerInfo{Nonce: o.Nonce, Socket: path, PID: os.Getpid()})
	if err == nil {
		err = settings.WriteAtomic(o.info, b, 0o600)
	}
	if err != nil {
		l.Close()
		return err
	}
	o.Socket = l
	return nil
}

// Release lets go of the workload.
func (o *Ownership) Release() {
	o.Socket.Close()
	os.Remove(o.info)
	// The lock file stays: removing it would let two processes hold locks on
	// two files of the same name.
	o.lock.Unlock()
}

func newNonce() string {
	b := make([]byte, 16)
	rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}

// Owner is a process that holds a workload now.
type Owner struct {
	Name  string
	Nonce string
	// PID is the kernel's word for who listens on the control socket; 0 when
	// it cannot be had.
	PID    int
	socket string
}

// Owner finds who holds a workload: nil when nobody does.
func (s *Store) Owner(name string) (*Owner, error) {
	if _, err := os.Stat(s.lockPath(name)); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	lock := flock.New(s.lockPath(name))
	free, err := lock.TryRLock()
	if err != nil {
		return nil, fmt.Errorf("look for the owner of workload %q: %w", name, err)
	}
	if free {
		return nil, lock.Unlock()
	}
	var info ownerInfo
	if err := readJSON(s.infoPath(name), &info); err != nil || info.Socket == "" {
		// The holder is between taking the lock and writing its note, or the
		// note was deleted; the usual place is worth a try.
		info.Socket = s.socketPath(name, info.Nonce)
	}
	pid := peerPID(info.Socket)
	if pid == 0 && !peerPIDSupported {
		pid = info.PID
	}
	return &Owner{Name: name, Nonce: info.Nonce, PID: pid, socket: info.Socket}, nil
}

// owned lists the names whose lock is held.
func (s *Store) owned() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(s.state, "run", "*.lock"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".lock")
		if o, err := s.Owner(name); err == nil && o != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// kill ends the owner's process by force. It re-checks, with the process pinned,
// that it is still the one that holds the workload, so a reused PID is safe.
func (s *Store) kill(o *Owner) error {
	if o.PID == 0 {
		return fmt.Errorf("the process that holds workload %q cannot be identified; end it by hand", o.Name)
	}
	p, err := os.FindProcess(o.PID) // a pidfd on Linux
	if err != nil {
		return fmt.Errorf("kill the gateway of workload %q: %w", o.Name, err)
	}
	defer p.Release()
	now, err := s.Owner(o.Name)
	if err != nil {
		return err
	}
	if now == nil || now.PID != o.PID {
		return nil // it is gone already
	}
	if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill the gateway of workload %q (process %d): %w", o.Name, o.PID, err)
	}
	return nil
}
