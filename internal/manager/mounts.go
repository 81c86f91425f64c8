package manager

import (
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
	rest, below := strings.CutPrefix(path, strings.TrimSuffix(dir, string(filepath.Separator))+string(filepath.Separator))
	if !below {
		return ""
	}
	at := dir
	for part := range strings.SplitSeq(rest, string(filepath.Separator)) {
		at = filepath.Join(at, part)
		if info, err := os.Lstat(at); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return at
		}
	}
	return ""
}
