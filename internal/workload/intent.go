package workload

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Between the beginning of a start and the moment at which the owner that it starts
// holds the workload, a stop finds nobody to ask. So it first notes that it was asked
// for and then looks for an owner, and an owner first takes hold and then looks for the
// note: whichever comes first, one of them sees the other. Who starts the workload
// later takes the note away.

func (s *Store) stopPath(name string) string { return filepath.Join(s.Dir(name), "stop") }

// askStop notes that the workload is to stop. Nothing is noted of a workload that is
// not there, nor on a full disk, where a stop must work too: it then misses a start that
// is in its first moments.
func (s *Store) askStop(name string) {
	if f, err := os.OpenFile(s.stopPath(name), os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
		f.Close()
	}
}

// StopAsked tells an owner that has just taken hold of the workload whether a stop was
// asked for since its start began.
func (s *Store) StopAsked(name string) bool {
	_, err := os.Stat(s.stopPath(name))
	return err == nil
}

// wantStart takes the note away: a start begins.
func (s *Store) wantStart(name string) error {
	if err := os.Remove(s.stopPath(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("start workload %q: %w", name, err)
	}
	return nil
}
