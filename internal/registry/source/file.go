package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/registry/serverjson"
)

// fileSource is a registry file of this machine, in either format. A file that is
// written to while it is read is an error; the next event or attempt reads it again.
type fileSource struct{ path string }

// Fetch reads the file.
func (s *fileSource) Fetch(_ context.Context, previous string) (Fetched, error) {
	content, err := s.read()
	if err != nil {
		return Fetched{}, fmt.Errorf("file %s: %w", s.path, err)
	}
	fetched, err := fromFile(content, previous)
	if err != nil {
		return Fetched{}, fmt.Errorf("file %s: %w", s.path, err)
	}
	return fetched, nil
}

func (s *fileSource) read() ([]byte, error) {
	f, before, err := openRegular(s.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := netguard.ReadBounded(f, maxFile)
	if err != nil {
		return nil, reason(err)
	}
	after, err := f.Stat()
	if err != nil {
		return nil, reason(err)
	}
	if after.Size() != int64(len(content)) || !after.ModTime().Equal(before.ModTime()) {
		return nil, errors.New("it was written to while it was read")
	}
	return content, nil
}

// openRegular opens only regular files: opening a pipe would block.
func openRegular(path string) (*os.File, fs.FileInfo, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, errors.New("it does not exist")
	case err != nil:
		return nil, nil, reason(err)
	case !info.Mode().IsRegular():
		return nil, nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, reason(err)
	}
	if info, err = f.Stat(); err != nil {
		f.Close()
		return nil, nil, reason(err)
	}
	return f, info, nil
}

// reason removes the path from an error of package os: the caller adds it.
func reason(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// fromFile reads a registry file unless previous is the digest of its content.
func fromFile(content []byte, previous string) (Fetched, error) {
	sum := sha256.Sum256(content)
	out := Fetched{Digest: hex.EncodeToString(sum[:])}
	if out.Digest == previous {
		out.Unchanged = true
		return out, nil
	}
	documents, leftOut, err := serverjson.FromFile(content)
	if err != nil {
		return Fetched{}, err
	}
	out.LeftOut = leftOut
	out.Entries = make([]Entry, len(documents))
	for i, d := range documents {
		out.Entries[i] = Entry{Document: d, Status: d.Status}
	}
	return out, nil
}
