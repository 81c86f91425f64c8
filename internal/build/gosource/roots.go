package gosource

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/netguard"
)

// maxModFile bounds a go.mod or go.work, in bytes.
const maxModFile = 4 << 20

// Roots are the files and directories that a compilation of the package in
// dir reads: its module, or the modules of its workspace, and the directories
// that they name in replace directives (Go Modules Reference, go.mod and go.work
// files). There is no link in dir. gowork is the variable GOWORK.
func Roots(dir, gowork string) ([]string, error) {
	work := gowork
	switch gowork {
	case "":
		work = upward(dir, "go.work")
	case "off":
		work = ""
	}
	module := upward(dir, "go.mod")
	if module == "" && work == "" {
		return nil, fmt.Errorf("%s is not in a Go module: neither it nor a directory above has a go.mod", dir)
	}
	var roots []string
	add := func(file string, whole bool) error {
		if whole {
			roots = append(roots, filepath.Dir(file))
		}
		named, err := namedDirs(file)
		roots = append(roots, named...)
		return err
	}
	if module != "" {
		if err := add(module, true); err != nil {
			return nil, err
		}
	}
	if work != "" {
		roots = append(roots, work, work+".sum")
		if err := add(work, false); err != nil {
			return nil, err
		}
		for _, used := range slices.Clone(roots) {
			if err := add(filepath.Join(used, "go.mod"), false); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errNotDir) {
				return nil, err
			}
		}
	}
	slices.Sort(roots)
	return slices.Compact(roots), nil
}

// upward finds a file in dir or the nearest directory above it; "" when there is
// none.
func upward(dir, name string) string {
	for {
		file := filepath.Join(dir, name)
		if st, err := os.Stat(file); err == nil && st.Mode().IsRegular() {
			return file
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

var errNotDir = errors.New("not a directory")

// namedDirs returns the directories that a go.mod or go.work names. Every word that
// has the form of a local path is taken as one: module paths and versions never have
// that form. The file is parsed by the go command later; a directory too many is only
// copied in vain.
func namedDirs(file string) ([]string, error) {
	if st, err := os.Stat(filepath.Dir(file)); err == nil && !st.IsDir() {
		return nil, errNotDir
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read the module: %w", err)
	}
	defer f.Close()
	content, err := netguard.ReadBounded(f, maxModFile)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	var dirs []string
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, maxModFile)
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "//")
		for _, word := range strings.Fields(line) {
			word = strings.Trim(word, "\"`")
			if !IsLocal(word) {
				continue
			}
			if !filepath.IsAbs(word) {
				word = filepath.Join(filepath.Dir(file), filepath.FromSlash(word))
			}
			if st, err := os.Stat(word); err == nil && st.IsDir() {
				dirs = append(dirs, filepath.Clean(word))
			}
		}
	}
	return dirs, nil
}

// outermost drops paths that are below another one, and those that do not exist.
func outermost(paths []string) []string {
	var kept []string
	for _, p := range paths {
		below := slices.ContainsFunc(kept, func(k string) bool {
			return strings.HasPrefix(p, strings.TrimSuffix(k, string(filepath.Separator))+string(filepath.Separator))
		})
		if _, err := os.Stat(p); err == nil && !below {
			kept = append(kept, p)
		}
	}
	return kept
}

// IsLocal distinguishes a directory from a module path, as the go command does.
func IsLocal(path string) bool {
	return path == "." || path == ".." || strings.HasPrefix(path, "./") || strings.HasPrefix(path, "../") || filepath.IsAbs(path)
}
