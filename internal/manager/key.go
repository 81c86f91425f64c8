package manager

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/toolhaven/toolhaven/internal/seal"
	"github.com/toolhaven/toolhaven/internal/settings"
)

// Key is the workload's own key, with which its gateway seals what clients keep
// for it: session ids. It is made at the first call and removed with the workload:
// the clients of a removed workload initialize again.
func (s *Store) Key(name string) ([]byte, error) {
	path := filepath.Join(s.Dir(name), "gateway.key")
	key, err := os.ReadFile(path)
	if err == nil && len(key) == seal.KeySize {
		return key, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the key of workload %q: %w", name, err)
	}
	// A damaged key, half-written by a system that went down, opens nothing.
	key = seal.NewKey()
	if err := settings.WriteAtomic(path, key, 0o600); err != nil {
		return nil, fmt.Errorf("store the key of workload %q: %w", name, err)
	}
	return key, nil
}
