package manager

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gofrs/flock"

	"github.com/toolhaven/toolhaven/internal/process"
)

func newNonce() string {
	b := make([]byte, 16)
	rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}

// Owner is a process that holds a workload now.
type Owner struct {
	Name  string
	Nonce string
	// PID is the process that listens on the control socket, as the kernel reports
	// it; 0 when it does not.
	PID    int
	socket string
}

// owners find the processes that hold the workloads of a store, by the files in its
// directory run.
type owners struct{ paths }

// Owner finds the process that holds a workload; nil when there is none.
func (s owners) Owner(name string) (*Owner, error) {
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
	pid := process.Peer(info.Socket)
	if pid == 0 && !process.NamesPeers {
		pid = info.PID
	}
	return &Owner{Name: name, Nonce: info.Nonce, PID: pid, socket: info.Socket}, nil
}

// owned lists the names whose lock is held.
func (s owners) owned() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(s.runDir(), "*.lock"))
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

// holder is the process that holds the lock, by the kernel's list of locks; 0 when it
// is not listed there. It finds an owner without a control socket, and takes longer than
// a request to the socket.
func (s owners) holder(name string) int {
	path := s.lockPath(name)
	for _, l := range process.LocksIn(s.runDir()) {
		if filepath.Base(l.Path) == filepath.Base(path) && !l.Deleted {
			return l.PID
		}
	}
	return 0
}

// kill ends the owner's process by force. It re-checks, with the process pinned,
// that it is still the one that holds the workload, so a reused PID is safe.
func (s owners) kill(o *Owner) error {
	if o.PID == 0 {
		return fmt.Errorf("the process that holds workload %q cannot be identified: end the one that has %s open", o.Name, s.lockPath(o.Name))
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
	if now == nil || now.PID != o.PID && s.holder(o.Name) != o.PID {
		return nil // it is gone already
	}
	if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill the gateway of workload %q (process %d): %w", o.Name, o.PID, err)
	}
	return nil
}
