package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/registry/serverjson"
)

// fileSource is a registry file of this machine, in either format. One that is
// read while it is being written is no JSON, or not the same before and after:
// a failure, which the next event or attempt makes good.
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

// openRegular opens a file, but nothing that would keep us waiting, as opening a
// pipe does.
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

// reason drops the path from an error that stands where the path was said.
func reason(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// fromFile reads a registry file, wherever it came from, unless its content is
// what previous stands for.
func fromFile(content []byte, previous string) (Fetched, error) {
	sum := sha256.Sum256(content)
	out := Fetched{Digest: hex.EncodeToString(sum[:])}
	if out.Digest == previous {
		out.Unchanged = true
		return out, nil
	}
	documents, err := serverjson.FromFile(content)
	if err != nil {
		return Fetched{}, err
	}
	out.Entries = make([]Entry, len(documents))
	for i, d := range documents {
		out.Entries[i] = Entry{Document: d, Status: statusIn(d.Raw)}
	}
	return out, nil
}

// statusIn is the status of a server in a file, where nothing stands beside the
// document: that of schemas until 2025-09-16 ("status"), or the one that files of
// the older format hold ("status": "Deprecated"), which is among the publisher's
// extensions. What cannot be read says nothing.
func statusIn(document []byte) string {
	var d struct {
		Status string `json:"status"`
		Meta   struct {
			Publisher map[string]json.RawMessage `json:"io.modelcontextprotocol.registry/publisher-provided"`
		} `json:"_meta"`
	}
	if json.Unmarshal(document, &d) != nil {
		return registry.Active
	}
	for _, publisher := range slices.Sorted(maps.Keys(d.Meta.Publisher)) {
		var blocks map[string]struct {
			Status string `json:"status"`
		}
		if d.Status != "" || json.Unmarshal(d.Meta.Publisher[publisher], &blocks) != nil {
			continue
		}
		for _, ref := range slices.Sorted(maps.Keys(blocks)) {
			if d.Status == "" {
				d.Status = blocks[ref].Status
			}
		}
	}
	status, err := statusOf(d.Status)
	if err != nil {
		return registry.Active
	}
	return status
}
