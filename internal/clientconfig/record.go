package clientconfig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"

	"github.com/toolhaven/toolhaven/internal/settings"
)

// lockTime bounds the wait for another process that edits files.
const lockTime = 15 * time.Second

// record is the content of clients.json.
type record struct {
	// Clients are those that are set up, by name.
	Clients map[string]*clientRecord `json:"clients"`
}

// clientRecord is a client that is set up.
type clientRecord struct {
	// Group is the group whose workloads the client has; "" for all.
	Group string `json:"group,omitempty"`
	// Entries are those that were written, by name.
	Entries map[string]*entryRecord `json:"entries,omitempty"`
}

// has reports whether the client has the workloads of a group.
func (c *clientRecord) has(w *Workload, client string) bool {
	return (c.Group == "" || c.Group == w.Group) &&
		(len(w.Clients) == 0 || slices.Contains(w.Clients, client))
}

// entryRecord is an entry in a client's file.
type entryRecord struct {
	File string `json:"file"`
	// Addresses are those that the entry may have: the last, and while a file is being
	// edited the one before. An entry with another address was changed since.
	Addresses []string `json:"addresses"`
	// Members are the names of those that were written.
	Members []string `json:"members"`
}

func (s *Setup) recordFile() string { return filepath.Join(s.dir, "clients.json") }

func (s *Setup) load() (*record, error) {
	r := &record{}
	content, err := os.ReadFile(s.recordFile())
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("clients that are set up: %w", err)
	default:
		dec := json.NewDecoder(bytes.NewReader(content))
		if err := dec.Decode(r); err != nil {
			return nil, fmt.Errorf("%s is damaged (%w); move it away, and set up the clients again", s.recordFile(), err)
		}
	}
	if r.Clients == nil {
		r.Clients = map[string]*clientRecord{}
	}
	maps.DeleteFunc(r.Clients, func(_ string, c *clientRecord) bool { return c == nil })
	for _, c := range r.Clients {
		maps.DeleteFunc(c.Entries, func(_ string, e *entryRecord) bool { return e == nil })
		if c.Entries == nil {
			c.Entries = map[string]*entryRecord{}
		}
	}
	return r, nil
}

func (s *Setup) save(r *record) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	content = append(content, '\n')
	if old, err := os.ReadFile(s.recordFile()); err == nil && bytes.Equal(old, content) {
		return nil
	}
	return settings.WriteAtomic(s.recordFile(), content, 0o600)
}

// locked calls do with the record while no other process edits it or a client's file.
func (s *Setup) locked(ctx context.Context, do func(*record) error) error {
	if s.system.Home() == "" {
		return errors.New("HOME is not set, so the files of clients cannot be found")
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	lock := flock.New(s.recordFile() + ".lock")
	if ok, err := lock.TryLockContext(ctx, 20*time.Millisecond); !ok || err != nil {
		return fmt.Errorf("another thv holds %s.lock", s.recordFile())
	}
	defer lock.Unlock()
	r, err := s.load()
	if err != nil {
		return err
	}
	return do(r)
}
