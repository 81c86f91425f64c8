package clientconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/toolhaven/toolhaven/internal/settings"
)

// maxFile bounds the file of a client, in bytes.
const maxFile = 64 << 20

// backupSuffix ends the name of the copy that is made before the first edit of a file.
const backupSuffix = ".thv-backup"

// errChanged: something else has changed the file since it was read.
var errChanged = errors.New("another program keeps changing it")

// file is a client's file as it was read.
type file struct {
	path    string // of the file itself, where the client's path is a symlink
	content []byte
	info    fs.FileInfo // nil if there is no file
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// openFile reads the file at path. It refuses a file that cannot be replaced as a whole
// without a surprise: one that is not regular, is read-only, belongs to another user, or is
// a symlink to something outside of its directory and of the home directory.
func openFile(path, homeDir string) (*file, error) {
	link, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &file{path: path}, nil
	}
	if err != nil {
		return nil, err
	}
	f := &file{path: path}
	if link.Mode()&fs.ModeSymlink != 0 {
		if f.path, err = target(path, homeDir); err != nil {
			return nil, err
		}
	}
	if f.info, err = os.Stat(f.path); err != nil {
		return nil, err
	}
	switch {
	case !f.info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	case f.info.Mode().Perm()&0o200 == 0:
		return nil, errors.New("it is read-only")
	}
	if err := checkOwner(f.info); err != nil {
		return nil, err
	}
	f.content, err = readFile(f.path)
	return f, err
}

// target returns what the symlink at path leads to.
func target(path, homeDir string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", errors.New("it is a symlink that leads to no file")
	}
	for _, dir := range []string{filepath.Dir(path), homeDir} {
		if dir, err := filepath.EvalSymlinks(dir); err == nil && within(real, dir) {
			return real, nil
		}
	}
	return "", fmt.Errorf("it is a symlink to %s, which is not in your home directory", real)
}

// within reports whether path is below dir.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = fmt.Errorf("it is larger than %d MiB", maxFile>>20)
	}
	return content, err
}

// write replaces the content of the file, which keeps its mode and owner. The first time it
// keeps a copy of the file as it was. errChanged if the file is not as it was read.
func (f *file) write(content []byte) error {
	if f.info == nil {
		if exists(f.path) {
			return errChanged
		}
		return settings.WriteAtomic(f.path, content, 0o600)
	}
	err := settings.WriteNew(f.path+backupSuffix, f.content, f.info.Mode().Perm())
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("keep a copy of it: %w", err)
	}
	now, err := readFile(f.path)
	if err != nil || !bytes.Equal(now, f.content) {
		return errChanged
	}
	if err := settings.WriteAtomic(f.path, content, f.info.Mode().Perm()); err != nil {
		return err
	}
	return keepOwner(f.path, f.info)
}
