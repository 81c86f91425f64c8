package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/toolhaven/toolhaven/internal/settings"
)

// ErrLost: the files by which an owner is found are gone and cannot be restored, or
// another process has taken the workload meanwhile.
var ErrLost = errors.New("lost its hold on the workload")

// How an owner looks after its hold.
const (
	checkEvery = time.Second
	// repairTime is how long a repair is tried again before the hold is lost.
	repairTime = 10 * time.Second
)

// Ownership is a process's hold on a workload. Three files below run/ make it up,
// outside the workload's own directory, so that deleting that directory hides no
// owner: an exclusive lock, which the operating system releases however the process
// ends; a control socket, which exists only while the lock is held; and a note that
// names the socket. [Ownership.Serve] restores those that are deleted.
type Ownership struct {
	Name  string
	Nonce string // proves to a caller that the answer comes from the holder

	paths paths
	every time.Duration // between two looks at the files

	mu     sync.Mutex // guards what follows
	lock   *flock.Flock
	socket net.Listener
	path   string      // of the socket
	inode  os.FileInfo // of the socket
}

// ownerInfo is written by the holder of the lock beside it. It is valid only
// while the lock is held.
type ownerInfo struct {
	Nonce  string `json:"nonce"`
	Socket string `json:"socket"`
	PID    int    `json:"pid"` // used only where the kernel does not name a socket's peer
}

// Own takes hold of a workload for this process. ErrAlreadyRunning when another
// process has it.
func (s owners) Own(ctx context.Context, name string) (*Ownership, error) {
	o := &Ownership{Name: name, Nonce: newNonce(), paths: s.paths, every: checkEvery}
	o.path = s.socketPath(name, o.Nonce)
	if err := o.take(ctx); err != nil {
		return nil, fmt.Errorf("own workload %q: %w", name, err)
	}
	err := o.listen()
	if err == nil {
		err = o.note()
	}
	if err != nil {
		o.Release()
		return nil, fmt.Errorf("own workload %q: %w", name, err)
	}
	return o, nil
}

// take locks the file that is now at the lock's path, and drops the lock on an
// earlier one.
func (o *Ownership) take(ctx context.Context) error {
	path := o.paths.lockPath(o.Name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	// A process that looks for an owner holds a shared lock for an instant, so one
	// refusal is not final.
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	lock := flock.New(path)
	locked, err := lock.TryLockContext(ctx, 20*time.Millisecond)
	if errors.Is(err, context.DeadlineExceeded) {
		return ErrAlreadyRunning
	}
	if err != nil || !locked {
		return errors.Join(err, ctx.Err())
	}
	if o.lock != nil {
		_ = o.lock.Unlock() // of a file that no path leads to
	}
	o.lock = lock
	return nil
}

// listen opens the control socket, in place of whatever is at its path: only the
// holder of the lock may have one there.
func (o *Ownership) listen() error {
	if err := os.MkdirAll(filepath.Dir(o.path), 0o700); err != nil {
		return err
	}
	if err := os.Remove(o.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: o.path, Net: "unix"})
	if errors.Is(err, syscall.EINVAL) { // unix(7): about 100 bytes
		return fmt.Errorf("the path %s is too long for a socket; set XDG_RUNTIME_DIR to a directory with a shorter one: %w", o.path, err)
	}
	if err != nil {
		return err
	}
	// Closing an earlier socket must not remove a later one's file.
	l.SetUnlinkOnClose(false)
	inode, err := os.Lstat(o.path)
	if err != nil {
		l.Close()
		return err
	}
	o.socket, o.inode = l, inode
	return nil
}

func (o *Ownership) note() error {
	b, err := json.Marshal(ownerInfo{Nonce: o.Nonce, Socket: o.path, PID: os.Getpid()})
	if err != nil {
		return err
	}
	return settings.WriteAtomic(o.paths.infoPath(o.Name), b, 0o600)
}

// Serve serves the control socket with server until ctx ends, which is no error.
// It checks every second that the lock, the note and the socket are in place, and
// restores those that are missing or were replaced. ErrLost when that is not possible; the
// workload must end then, because no command can find it any more.
func (o *Ownership) Serve(ctx context.Context, server *http.Server, log *slog.Logger) error {
	var serving sync.WaitGroup
	defer serving.Wait()
	defer server.Close()
	served := o.listener()
	serving.Go(func() { _ = server.Serve(served) }) // ends with Close
	tick := time.NewTicker(o.every)
	defer tick.Stop()
	var failing time.Time // since when the hold is damaged
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := o.check(ctx, log)
		if now := o.listener(); now != served {
			_ = served.Close()
			served = now
			serving.Go(func() { _ = server.Serve(now) })
		}
		switch {
		case err == nil:
			failing = time.Time{}
		case ctx.Err() != nil:
			return nil
		case failing.IsZero():
			failing = time.Now()
		}
		if errors.Is(err, ErrAlreadyRunning) || err != nil && time.Since(failing) > repairTime {
			return fmt.Errorf("%w: %w", ErrLost, err)
		}
	}
}

func (o *Ownership) listener() net.Listener {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.socket
}

// Held reports whether this process still has the workload: no other can have it as
// long as the locked file is the one at the lock's path.
func (o *Ownership) Held() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.held()
}

func (o *Ownership) held() bool {
	locked, err := o.lock.Stat()
	return err == nil && isFile(o.paths.lockPath(o.Name), locked)
}

// check restores what is missing of the hold. ErrAlreadyRunning when another process
// has the workload now.
func (o *Ownership) check(ctx context.Context, log *slog.Logger) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	repair := func(what string, do func() error) error {
		err := do()
		log.Warn("the workload's "+what+" was missing or replaced", "restored", err == nil, "error", err)
		return err
	}
	if !o.held() {
		if err := repair("lock file", func() error { return o.take(ctx) }); err != nil {
			return err
		}
	}
	if !isFile(o.path, o.inode) {
		if err := repair("control socket", o.listen); err != nil {
			return err
		}
	}
	var info ownerInfo
	if err := readJSON(o.paths.infoPath(o.Name), &info); err != nil || info.Nonce != o.Nonce || info.Socket != o.path {
		return repair("note", o.note)
	}
	return nil
}

// isFile reports whether the file at path is that one.
func isFile(path string, file os.FileInfo) bool {
	now, err := os.Lstat(path)
	return err == nil && os.SameFile(now, file)
}

// Release lets go of the workload. What belongs to another owner stays.
func (o *Ownership) Release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.held() {
		os.Remove(o.paths.infoPath(o.Name))
		if o.inode != nil && isFile(o.path, o.inode) {
			os.Remove(o.path)
		}
	}
	if o.socket != nil {
		o.socket.Close()
	}
	// The lock file stays: removing it would let two processes hold locks on
	// two files of the same name.
	_ = o.lock.Unlock()
}
