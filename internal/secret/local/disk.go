package local

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/toolhaven/toolhaven/internal/settings"
)

// disk is the path of a store's file.
type disk string

// content is what a file holds.
type content struct {
	header *header // nil for a plain file
	key    []byte
	values map[string]string
	exists bool
}

// load reads and parses the file.
func (d disk) load() (f *file, h *header, exists bool, err error) {
	in, err := os.Open(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, false, nil
	}
	if err != nil {
		return nil, nil, false, fmt.Errorf("read secrets: %w", err)
	}
	defer in.Close()
	b, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, nil, false, fmt.Errorf("read secrets: %w", err)
	}
	if len(b) > maxFile {
		return nil, nil, false, d.broken(fmt.Errorf("it is larger than %d bytes", maxFile))
	}
	if f, h, err = parse(b); err != nil {
		return nil, nil, false, d.broken(err)
	}
	return f, h, true, nil
}

// broken is the error for a file that cannot be used.
func (d disk) broken(err error) error {
	return fmt.Errorf("the secrets file %s cannot be used: %w; put a backup in its place, or delete it to start without its secrets", d, err)
}

func (d disk) write(c content) error {
	b, err := encode(c.values, c.header, c.key)
	if err != nil {
		return fmt.Errorf("store secrets: %w", err)
	}
	if err := settings.WriteAtomic(string(d), b, 0o600); err != nil {
		return fmt.Errorf("store secrets: %w", err)
	}
	return nil
}
