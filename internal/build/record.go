package build

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/settings"
)

// record is the result of an earlier build. One that cannot be read, or is of another
// request, is ignored: the image is then built again.
type record struct {
	Request recordKey
	Version string // as resolved
	Image   string // tag
	ImageID string
	BaseID  string // "" for an image from nothing
}

// recordKey is the part of a request that determines what is built. The further tag
// and Refresh are not part of it.
type recordKey struct {
	Recipe       int
	Scheme       string
	Name         string
	Version      string
	Dir          string `json:",omitempty"` // of a Go package on this machine
	Arch         string
	Args         []string
	RuntimeImage string
	AddPackages  []string
	CA           string // hash of the --ca-cert file's content
}

func (k recordKey) equal(o recordKey) bool {
	return k.Recipe == o.Recipe && k.Scheme == o.Scheme && k.Name == o.Name && k.Version == o.Version && k.Dir == o.Dir && k.Arch == o.Arch &&
		k.RuntimeImage == o.RuntimeImage && k.CA == o.CA &&
		slices.Equal(k.Args, o.Args) && slices.Equal(k.AddPackages, o.AddPackages)
}

const maxRecord = 1 << 20

// records are the records of earlier builds: one file each in a directory.
type records struct{ dir string }

func (s records) path(k recordKey) (string, error) {
	text, err := json.Marshal(k)
	if err != nil {
		return "", fmt.Errorf("name the record of a build: %w", err)
	}
	return filepath.Join(s.dir, hash(text)[:32]+".json"), nil
}

// get returns the record of an earlier build of the same request.
func (s records) get(k recordKey) (record, bool) {
	path, err := s.path(k)
	if err != nil {
		return record{}, false
	}
	rec, ok := readRecord(path)
	return rec, ok && rec.Request.equal(k)
}

func readRecord(path string) (record, bool) {
	f, err := os.Open(path)
	if err != nil {
		return record{}, false
	}
	defer f.Close()
	text, err := netguard.ReadBounded(f, maxRecord)
	if err != nil {
		return record{}, false
	}
	var rec record
	if err := json.Unmarshal(text, &rec); err != nil || rec.Image == "" || rec.ImageID == "" {
		return record{}, false
	}
	return rec, true
}

// all are the records that can be read.
func (s records) all() []record {
	var paths []string
	for _, pattern := range []string{"*.json", filepath.Join("images", "*.json")} {
		more, err := filepath.Glob(filepath.Join(s.dir, pattern))
		if err != nil {
			return nil // a directory whose name is a bad pattern
		}
		paths = append(paths, more...)
	}
	var found []record
	for _, path := range paths {
		if rec, ok := readRecord(path); ok {
			found = append(found, rec)
		}
	}
	return found
}

// remove removes a record. One that stays names an image that is gone, and is ignored.
func (s records) remove(rec record) {
	_ = os.Remove(s.imagePath(rec.Image))
	if now, ok := s.get(rec.Request); !ok || now.Image != rec.Image {
		return // it has another image
	}
	if path, err := s.path(rec.Request); err == nil {
		_ = os.Remove(path)
	}
}

// imagePath is where an image is recorded, for as long as it may be there: the request that
// it was made for may get another one.
func (s records) imagePath(image string) string {
	return filepath.Join(s.dir, "images", hash([]byte(image))[:32]+".json")
}

// put writes the record atomically, by its request and by its image.
func (s records) put(rec record) error {
	path, err := s.path(rec.Request)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		return fmt.Errorf("write the record of a build: %w", err)
	}
	text = append(text, '\n')
	if err := settings.WriteAtomic(s.imagePath(rec.Image), text, 0o600); err != nil {
		return err
	}
	return settings.WriteAtomic(path, text, 0o600)
}
