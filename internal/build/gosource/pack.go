package gosource

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/netguard"
)

// Bounds of the source code that is copied into a container.
const (
	maxSource      = 1 << 30 // bytes
	maxSourceFiles = 200_000
	maxGoFile      = 64 << 20 // bytes of one file of Go code
)

// sourceTar copies code into a tar: only the files that the go command may read to
// compile it, because the directories may also hold much else (node_modules) and
// private files.
//
// It reads files of code, by their names, and what a //go:embed directive in one
// of them names. It compiles and embeds nothing of a module inside a module that
// is not among the roots (package embed; Go Modules Reference, Modules, packages,
// and versions).
type sourceTar struct {
	tw       *tar.Writer
	roots    []string
	embedded []string // paths that are embedded, with all below them
	dirs     map[string]bool
	root     string // the one that is being packed
	left     int64
	files    int
}

// Pack writes the trees at roots as a tar, with the paths of this machine. Every
// user may read its files.
func Pack(w io.Writer, roots []string) error {
	s := &sourceTar{tw: tar.NewWriter(w), roots: roots, dirs: map[string]bool{}, left: maxSource, files: maxSourceFiles}
	for _, visit := range []func(path string, d fs.DirEntry) error{s.noteEmbedded, s.add} {
		for _, root := range outermost(roots) {
			s.root = root
			if err := s.walk(root, visit); err != nil {
				return fmt.Errorf("pack %s: %w", root, err)
			}
		}
	}
	return s.tw.Close()
}

func (s *sourceTar) walk(root string, visit func(path string, d fs.DirEntry) error) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && d != nil && d.IsDir() && path != root:
			return fs.SkipDir // unreadable: go reports it, if it matters
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || s.anotherModule(path)):
			return fs.SkipDir
		}
		return visit(path, d)
	})
}

func (s *sourceTar) anotherModule(dir string) bool {
	if slices.Contains(s.roots, dir) {
		return false
	}
	st, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil && st.Mode().IsRegular()
}

// noteEmbedded finds what a file of Go embeds.
func (s *sourceTar) noteEmbedded(path string, d fs.DirEntry) error {
	if d.IsDir() || filepath.Ext(path) != ".go" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil // add meets it again, and may report it
	}
	defer f.Close()
	content, err := netguard.ReadBounded(f, maxGoFile)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	for line := range bytes.Lines(content) {
		rest, ok := bytes.CutPrefix(bytes.TrimLeft(line, " \t"), []byte("//go:embed"))
		if !ok {
			continue
		}
		for _, pattern := range strings.Fields(string(rest)) {
			s.embedded = append(s.embedded, filepath.Join(filepath.Dir(path), embedPrefix(pattern)))
		}
	}
	return nil
}

// embedPrefix is the part of an embed pattern before what can vary (path.Match).
// A quoted pattern with white space in it is cut short by that, which only makes
// more match.
func embedPrefix(pattern string) string {
	quoted := strings.ContainsAny(pattern, "\"`")
	pattern = strings.TrimPrefix(strings.Trim(pattern, "\"`"), "all:")
	if i := strings.IndexAny(pattern, `*?[\`); i >= 0 || quoted {
		if i < 0 {
			i = len(pattern)
		}
		pattern = pattern[:strings.LastIndexByte(pattern[:i], '/')+1]
	}
	return filepath.FromSlash(pattern)
}

// sourceSuffixes are the files that the go command takes for code (go help
// packages; go/build.Package), and profiles that guide the compiler.
var sourceSuffixes = [...]string{
	".go", ".s", ".S", ".sx", ".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx", ".m", ".f", ".F", ".for", ".f90", ".swig", ".swigcxx", ".syso", ".pgo",
}

func (s *sourceTar) wanted(path, name string) bool {
	switch name {
	case "go.mod", "go.sum", "go.work", "go.work.sum", "modules.txt":
		return true
	}
	if slices.Contains(sourceSuffixes[:], filepath.Ext(name)) {
		return true
	}
	return slices.ContainsFunc(s.embedded, func(e string) bool {
		return path == e || strings.HasPrefix(path, strings.TrimSuffix(e, string(filepath.Separator))+string(filepath.Separator))
	})
}

func (s *sourceTar) add(path string, d fs.DirEntry) error {
	link := d.Type()&fs.ModeSymlink != 0
	if d.IsDir() || !link && !s.wanted(path, d.Name()) {
		return nil
	}
	st, err := os.Stat(path) // of what a link leads to
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // a link to nothing
	case err != nil:
		return err
	case link && st.IsDir():
		to, err := os.Readlink(path)
		if err != nil {
			return err
		}
		return s.entry(path, &tar.Header{Typeflag: tar.TypeSymlink, Linkname: filepath.ToSlash(to), Mode: 0o777})
	case !st.Mode().IsRegular() || !s.wanted(path, d.Name()):
		return nil
	}
	return s.addFile(path)
}

// entry writes a header, after those of the directories that it is in.
func (s *sourceTar) entry(path string, h *tar.Header) error {
	if s.files--; s.files < 0 {
		return s.tooLarge()
	}
	if dir := filepath.Dir(path); path != s.root && !s.dirs[dir] {
		s.dirs[dir] = true
		if err := s.entry(dir, &tar.Header{Typeflag: tar.TypeDir, Mode: 0o755}); err != nil {
			return err
		}
	}
	h.Name, h.ModTime, h.Format = strings.TrimPrefix(InContainer(path), "/"), time.Unix(0, 0).UTC(), tar.FormatPAX
	if h.Typeflag == tar.TypeDir {
		h.Name += "/"
	}
	return s.tw.WriteHeader(h)
}

func (s *sourceTar) addFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if s.left -= st.Size(); s.left < 0 {
		return s.tooLarge()
	}
	if err := s.entry(path, &tar.Header{Typeflag: tar.TypeReg, Size: st.Size(), Mode: 0o644}); err != nil {
		return err
	}
	// A file that grows meanwhile is cut off at the size it had.
	if _, err := io.CopyN(s.tw, f, st.Size()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func (s *sourceTar) tooLarge() error {
	return fmt.Errorf("more than %d MiB or %d files are too much to copy into a container; install Go here, or move what is not code out of %s", maxSource>>20, maxSourceFiles, s.root)
}

// InContainer returns where a directory of this machine is in the container: at the same path,
// so that absolute paths in its go.mod hold.
func InContainer(dir string) string { return path.Join("/", slashed(dir)) }

// slashed is a path of this machine in the form that Linux has: C:\a is /a.
func slashed(path string) string {
	return filepath.ToSlash(strings.TrimPrefix(path, filepath.VolumeName(path)))
}
