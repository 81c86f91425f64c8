package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/strictyaml"
)

// maxFile bounds the configuration file, in bytes.
const maxFile = 1 << 20

// Load reads and validates the file at path; stateDir is where the database goes
// unless the file names another. Paths in the file are relative to it. The error holds all
// faults, those of the text with their line.
func Load(path, stateDir string) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	defer f.Close()
	content, err := netguard.ReadBounded(f, maxFile)
	if errors.Is(err, netguard.ErrTooLarge) {
		return nil, &Faults{Path: path, Err: fmt.Errorf("it is larger than %d bytes", maxFile)}
	}
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", path, err)
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	c, err := Parse(content, dir, stateDir)
	if err != nil {
		return nil, &Faults{Path: path, Err: err}
	}
	return c, nil
}

// Faults is everything that is wrong with a configuration file.
type Faults struct {
	Path string
	Err  error
}

func (f *Faults) Unwrap() error { return f.Err }

func (f *Faults) Error() string {
	faults := strings.Split(f.Err.Error(), "\n")
	if len(faults) == 1 {
		return fmt.Sprintf("configuration %s: %s", f.Path, faults[0])
	}
	return fmt.Sprintf("configuration %s has %d faults:\n  %s", f.Path, len(faults), strings.Join(faults, "\n  "))
}

// Parse reads a configuration and holds it to all its rules. dir is what paths in
// it are relative to.
func Parse(content []byte, dir, stateDir string) (*Config, error) {
	c := &Config{}
	if err := strictyaml.Decode(content, c); err != nil {
		return nil, err
	}
	c.fill(dir, stateDir)
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return c, nil
}

// UnmarshalText reads 30s, 10m, 2h.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("it must be a duration such as 30s, 10m or 2h, not %.100q", text)
	}
	*d = Duration(v)
	return nil
}
