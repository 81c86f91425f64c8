package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/toolhaven/toolhaven/internal/secret"
)

// Before there was one store, each workload had a file NAME.json of its own.

func legacyFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read secrets: %w", err)
	}
	var files []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".json") && !strings.HasPrefix(e.Name(), ".") && e.Type().IsRegular() {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, nil
}

// readLegacy returns the values of a workload's file by their keys in the store.
func readLegacy(file string) (map[string]string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var values map[string]string
	if json.Unmarshal(content, &values) != nil {
		return nil, errors.New("it is damaged") // the parser's error may quote the content
	}
	workload := strings.TrimSuffix(filepath.Base(file), ".json")
	out := map[string]string{}
	for key, value := range values {
		ref := secret.Ref(workload, key)
		if err := secret.CheckKey(ref); err != nil {
			return nil, err
		}
		if value != "" {
			out[ref] = value
		}
	}
	return out, nil
}

// migrate moves the workloads' own files into the store. A file is deleted after its
// values are on disk. One that cannot be read stays, and is an error only to those who
// need it (damagedLegacy).
func (s *Store) migrate(ctx context.Context) error {
	files, err := legacyFiles(s.cfg.Dir)
	if err != nil || len(files) == 0 {
		return err
	}
	readable := 0
	for _, file := range files {
		if _, err := readLegacy(file); err == nil {
			readable++
		}
	}
	if readable == 0 {
		return nil
	}
	before, err := s.read(ctx) // unlocked before the lock is taken
	if err == nil && !before.exists {
		before.header, before.key, err = s.unlocker.newHeader(ctx, s.cfg.Kind)
	}
	if err != nil {
		return err
	}
	return s.locked(ctx, func() error {
		c, err := s.readOr(ctx, before)
		if err != nil {
			return err
		}
		var moved []string
		for _, file := range files {
			values, err := readLegacy(file)
			if err != nil {
				continue // another process has moved it, or it is damaged
			}
			for key, value := range values {
				c.values[key] = value
			}
			moved = append(moved, file)
		}
		if err := s.disk.write(c); err != nil {
			return err
		}
		for _, file := range moved {
			if err := os.Remove(file); err != nil {
				return fmt.Errorf("move secrets into %s: %w", s.disk, err)
			}
		}
		return nil
	})
}

// damagedLegacy returns the file of a workload's own that could not be migrated, if the key
// may be in it.
func damagedLegacy(dir, key string) string {
	rest, ok := strings.CutPrefix(key, secret.WorkloadPrefix)
	if !ok {
		return ""
	}
	workload, _, _ := strings.Cut(rest, "/")
	file := filepath.Join(dir, workload+".json")
	if _, err := os.Stat(file); err != nil {
		return ""
	}
	return file
}
