package manager

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// A stop may come when a start has begun and its owner does not hold the workload yet.
// So a stop first writes a note and then looks for an owner, and an owner first takes
// hold and then looks for the note: in either order, one of them sees the other. The
// next start removes the note.

// noteStop writes the note that the workload is to stop. It does nothing for a workload
// that is not stored, nor on a full disk, where a stop must work too: it then misses a
// start that is in its first moments.
func (s *Store) noteStop(name string) {
	if f, err := os.OpenFile(s.stopPath(name), os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
		f.Close()
	}
}

// StopNoted reports whether a stop was requested since the last start began. An owner
// calls it when it has just taken hold of the workload.
func (s *Store) StopNoted(name string) bool {
	_, err := os.Stat(s.stopPath(name))
	return err == nil
}

// clearStop removes the note: a start begins.
func (s *Store) clearStop(name string) error {
	if err := os.Remove(s.stopPath(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("start workload %q: %w", name, err)
	}
	return nil
}
