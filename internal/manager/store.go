package manager

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"

	"github.com/toolhaven/toolhaven/internal/settings"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// Errors that callers decide on.
var (
	ErrNotFound       = errors.New("no such workload")
	ErrExists         = errors.New("a workload of that name exists")
	ErrGroupNotFound  = errors.New("no such group")
	ErrGroupExists    = errors.New("the group exists")
	ErrAlreadyRunning = errors.New("already running")
	ErrNotRunning     = errors.New("not running")
	// ErrStoppedEarly: another command stopped the workload before its server had
	// answered. It stays stored, unless that command removed it.
	ErrStoppedEarly = errors.New("stopped while it was starting")
	// ErrRemovedEarly is ErrStoppedEarly by a removal, before there was an owner.
	ErrRemovedEarly = errors.New("removed while it was starting")
)

// Store keeps workloads on disk: one directory each, plus the table of ports and
// the groups, which outlive workloads. It holds no state in memory, so any
// number of processes may use the same directory at once.
type Store struct {
	paths
	owners
	groups
}

// OpenStore uses the given directories, which are made when first needed.
// runtimeDir must be on a local file system; the path of a socket in it is
// limited to about 100 bytes by the operating system.
func OpenStore(stateDir, runtimeDir string) *Store {
	p := paths{state: stateDir, runtime: runtimeDir}
	return &Store{paths: p, owners: owners{paths: p}, groups: groups{file: filepath.Join(stateDir, "groups.json")}}
}

// Create stores a new workload. ErrExists when the name is taken; concurrent
// creations of one name have exactly one winner.
func (s *Store) Create(spec *workload.Spec) error {
	b, err := encode(spec)
	if err != nil {
		return err
	}
	// A link, unlike a rename, fails when its name exists. A crash may leave a
	// directory without a Spec, which the next Create uses.
	draft := filepath.Join(s.Dir(spec.Name), ".draft-"+newNonce())
	if err := settings.WriteAtomic(draft, b, 0o600); err != nil {
		os.Remove(s.Dir(spec.Name)) // if we made it: it is empty then
		return fmt.Errorf("store workload %q: %w", spec.Name, err)
	}
	defer os.Remove(draft)
	if _, err := os.Stat(s.specPath(spec.Name)); errors.Is(err, fs.ErrNotExist) {
		// Left by an earlier workload of that name.
		os.Remove(s.stopPath(spec.Name))
		os.Remove(s.lastPath(spec.Name))
		os.Remove(s.pinsPath(spec.Name))
	}
	err = os.Link(draft, s.specPath(spec.Name))
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %q", ErrExists, spec.Name)
	}
	if err != nil {
		return fmt.Errorf("store workload %q: %w", spec.Name, err)
	}
	return nil
}

func encode(spec *workload.Spec) ([]byte, error) {
	b, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("store workload %q: %w", spec.Name, err)
	}
	return append(b, '\n'), nil
}

// Put replaces a workload's Spec. On failure the old one is still whole.
func (s *Store) Put(spec *workload.Spec) error {
	b, err := encode(spec)
	if err != nil {
		return err
	}
	if err := settings.WriteAtomic(s.specPath(spec.Name), b, 0o600); err != nil {
		return fmt.Errorf("store workload %q: %w", spec.Name, err)
	}
	return nil
}

// Get reads a workload's Spec. ErrNotFound when there is none.
func (s *Store) Get(name string) (*workload.Spec, error) {
	b, err := os.ReadFile(s.specPath(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %q", ErrNotFound, name)
	}
	if err != nil {
		return nil, fmt.Errorf("read workload %q: %w", name, err)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	var spec workload.Spec
	if err := dec.Decode(&spec); err != nil {
		return nil, fmt.Errorf("the configuration of workload %q is damaged (%s: %w); remove it with `thv rm %s`", name, s.specPath(name), err, name)
	}
	return &spec, nil
}

// Created is when the workload was made.
func (s *Store) Created(name string) time.Time {
	info, err := os.Stat(s.Dir(name))
	if err != nil {
		return time.Time{}
	}
	if fi, err := os.Stat(s.specPath(name)); err == nil {
		info = fi
	}
	return info.ModTime()
}

// Names lists the stored workloads, sorted. A directory whose Spec is lost is
// listed too: something may still run under that name.
func (s *Store) Names() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(s.state, "workloads"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list workloads: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// has reports whether a workload is stored, even if its Spec is lost.
func (s *Store) has(name string) bool {
	names, err := s.Names()
	return err == nil && slices.Contains(names, name)
}

// Delete removes a workload from disk. Its port stays remembered.
func (s *Store) Delete(name string) error {
	// The Spec goes first: what is left after an interruption is a directory
	// that Create takes over.
	if err := os.Remove(s.specPath(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove workload %q: %w", name, err)
	}
	if err := os.RemoveAll(s.Dir(name)); err != nil {
		return fmt.Errorf("remove workload %q: %w", name, err)
	}
	return nil
}

// Last is how a workload ended last time.
type Last struct {
	State  workload.State `json:"state"`
	Reason string         `json:"reason,omitempty"`
	Time   time.Time      `json:"time"`
}

// Last reads how the workload ended; the zero Last when it never did.
func (s *Store) Last(name string) Last {
	var l Last
	b, err := os.ReadFile(s.lastPath(name))
	if err == nil {
		// A damaged note is no reason to hide the workload.
		_ = json.Unmarshal(b, &l)
	}
	return l
}

// SetLast notes how the workload ended. It does nothing when the workload's
// directory is gone.
func (s *Store) SetLast(name string, state workload.State, reason string) error {
	if _, err := os.Stat(s.Dir(name)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	b, err := json.Marshal(Last{State: state, Reason: reason, Time: time.Now().UTC()})
	if err != nil {
		return err
	}
	return settings.WriteAtomic(s.lastPath(name), b, 0o600)
}

// update reads the JSON file at path into v, lets change edit it and writes it
// back, under a lock that other processes respect.
func update[T any](path string, change func(*T) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	lock := flock.New(path + ".lock")
	if err := lock.Lock(); err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	defer lock.Unlock()
	var v T
	if err := readJSON(path, &v); err != nil {
		return err
	}
	if err := change(&v); err != nil {
		return err
	}
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return settings.WriteAtomic(path, append(b, '\n'), 0o600)
}

// readJSON reads path into v; a file that is not there leaves v alone.
func readJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s is damaged (%w); move it away to start afresh", path, err)
	}
	return nil
}

// ID distinguishes this store from others that use the same engine: it is a label of
// containers, so that one store never touches another's.
func (s *Store) ID() string {
	abs, err := filepath.Abs(s.state)
	if err != nil {
		abs = s.state
	}
	sum := sha256.Sum256([]byte(abs))
	return hex.EncodeToString(sum[:6])
}
