package manager

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/toolhaven/toolhaven/internal/workload"
)

// CheckMounts refuses a mount whose host path leads through a symbolic link that a server
// can have put there: one in a directory that a workload mounts writable. A server that
// replaced a directory by a link to another would have that mounted at the next start.
func (s *Store) CheckMounts(mounts []workload.Mount) error {
	writable, err := s.writable(mounts)
	if err != nil {
		return err
	}
	return checkLinks(mounts, writable)
}

// errLink is that a part of a path is a symbolic link that may not be followed.
var errLink = errors.New("is a symbolic link in a directory that a server may write to, so it is not followed; mount what it leads to")

// Pin is what the host path of a mount was when it was checked. It keeps that open: numbers
// of inodes stay until the last user has gone.
type Pin struct {
	Target        string // in the container
	Device, Inode uint64
	fd            int
}

// Pins are those of a container's mounts. Close them when the container runs.
type Pins []Pin

// PinMounts is [Store.CheckMounts] for a container that is about to be made. The engine
// resolves the paths again, when it mounts them, and a server that runs may have replaced
// them by then; what it mounted must be what the Pins have. Mounts that no server can replace
// have none.
func (s *Store) PinMounts(mounts []workload.Mount) (Pins, error) {
	writable, err := s.writable(mounts)
	if err != nil {
		return nil, err
	}
	if err := checkLinks(mounts, writable); err != nil {
		return nil, err
	}
	return pinMounts(mounts, writable)
}

func checkLinks(mounts []workload.Mount, writable []string) error {
	for _, m := range mounts {
		for _, dir := range writable {
			if link := linkBelow(dir, m.Host); link != "" {
				return fmt.Errorf("mount %s: %s is a symbolic link in %s, which a server may write to, so it is not followed; mount what it leads to", m.Host, link, dir)
			}
		}
	}
	return nil
}

// writable are the directories that some mounts, and those of the store's workloads, make
// writable.
func (s *Store) writable(mounts []workload.Mount) ([]string, error) {
	if len(mounts) == 0 {
		return nil, nil
	}
	names, err := s.Names()
	if err != nil {
		return nil, err
	}
	all := mounts
	for _, name := range names {
		if spec, err := s.Get(name); err == nil { // it may be removed meanwhile
			all = append(all[:len(all):len(all)], spec.Container.Mounts...)
		}
	}
	var writable []string
	for _, m := range all {
		if !m.ReadOnly {
			writable = append(writable, m.Host)
		}
	}
	return writable, nil
}

// linkBelow returns the first part of a path below a directory that is a symbolic link, ""
// if there is none. A path that is not below the directory has none.
func linkBelow(dir, path string) string {
	if !below(dir, path) {
		return ""
	}
	rest := strings.Trim(strings.TrimPrefix(path, dir), string(filepath.Separator))
	at := dir
	for part := range strings.SplitSeq(rest, string(filepath.Separator)) {
		at = filepath.Join(at, part)
		if info, err := os.Lstat(at); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return at
		}
	}
	return ""
}

// below reports whether a path is below a directory. The directory itself is not.
func below(dir, path string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(dir, string(filepath.Separator))+string(filepath.Separator))
}
