package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// defaultPath is the search path if the image does not set PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// lookPath finds a program the way execvp(3) does, in the PATH of env.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		if err := executable(name); err != nil {
			return "", lookError(name, "in the image", err)
		}
		return name, nil
	}
	path := defaultPath
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok && v != "" {
			path = v
		}
	}
	found := fs.ErrNotExist
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		err := executable(file)
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			found = err
		}
	}
	return "", lookError(name, "in the image; its PATH is "+path, found)
}

func lookError(name, where string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("executable %q not found %s", name, where)
	}
	return fmt.Errorf("executable %q cannot be run by the container's user: %w", name, err)
}

// executable reports why file cannot be executed.
func executable(file string) error {
	st, err := os.Stat(file)
	switch {
	case errors.Is(err, unix.ENOTDIR):
		return fs.ErrNotExist
	case err != nil:
		return unwrapPath(err)
	case st.IsDir():
		return unix.EISDIR
	}
	return unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS)
}

func unwrapPath(err error) error {
	var perr *fs.PathError
	if errors.As(err, &perr) {
		return perr.Err
	}
	return err
}

// execError is the error for a program that exists and could not be started.
func execError(path string, err error) error {
	switch {
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%s cannot be run: the interpreter or loader it names is not in the image", path)
	case errors.Is(err, unix.ENOEXEC):
		return fmt.Errorf("%s cannot be run: it is no program for this machine's architecture, or a script without its #! line", path)
	case errors.Is(err, unix.EAGAIN):
		return fmt.Errorf("%s cannot be run: the container has reached its limit of processes", path)
	case errors.Is(err, unix.E2BIG):
		return fmt.Errorf("%s cannot be run: its arguments and environment are too long", path)
	default:
		return fmt.Errorf("%s cannot be run: %w", path, err)
	}
}
