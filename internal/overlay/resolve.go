package overlay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// FileName is the name of an ignore file in a mount; GlobalName that of the global one, in
// the user's configuration directory.
const (
	FileName   = ".thvignore"
	GlobalName = "thvignore"
)

// maxHidden bounds the paths that are hidden: each is a mount of the container.
const maxHidden = 1000

// Mount is a host path made visible in a container.
type Mount struct{ Host, Container string }

// Hidden is a path that the server must not see.
type Hidden struct {
	// Path is the one in the container, Host the one on this machine.
	Path, Host string
	// Dir: a directory, with all that is in it.
	Dir bool
	// Rule is the pattern that hides it, with its file and line.
	Rule string
}

// Result is what the patterns mean for some mounts.
type Result struct {
	// Hidden are sorted by path. None is inside of another.
	Hidden []Hidden
	// Exposed are paths in the container that look like secrets and that nothing hides; at
	// most a few.
	Exposed []string
	// Files are the ignore files that were read.
	Files []string
}

// Resolve reads the ignore files of the mounts and the global one ("" is none), and finds
// what they match. A mounted file, which was named by itself, is not hidden.
func Resolve(ctx context.Context, mounts []Mount, global string) (*Result, error) {
	r := &resolver{ctx: ctx, mounts: mounts, out: &Result{}}
	if global != "" {
		rules, err := r.read(global, nil)
		if err != nil {
			return nil, err
		}
		if rules != nil {
			r.global = rules
		}
	}
	for _, m := range mounts {
		info, err := os.Stat(m.Host)
		if err != nil {
			return nil, fmt.Errorf("look for files to hide: %w", err)
		}
		if !info.IsDir() {
			continue
		}
		r.mount = m
		var layers []*rules
		if r.global != nil {
			layers = append(layers, r.global)
		}
		if err := r.dir(m.Host, nil, layers, ""); err != nil {
			return nil, err
		}
	}
	r.out.finish()
	return r.out, nil
}

// resolver walks the mounts.
type resolver struct {
	ctx    context.Context
	mounts []Mount
	global *rules // nil for none
	mount  Mount  // the one that is walked
	out    *Result
}

// read returns the rules of a file; nil if it does not exist. A link is not followed in a
// mount: it could make the file unreadable for the person who wrote it.
func (r *resolver) read(file string, base []string) (*rules, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if errors.Is(err, fs.ErrPermission) {
		if _, statErr := os.Lstat(file); errors.Is(statErr, fs.ErrPermission) {
			return nil, nil // its directory is closed, for the server too
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the ignore file: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("the ignore file %s is not a file", file)
	}
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the ignore file: %w", err)
	}
	patterns, err := parse(file, content)
	if err != nil {
		return nil, err
	}
	r.out.Files = append(r.out.Files, file)
	return newRules(file, base, patterns), nil
}

// dir looks at what is in a directory. rel is its path below the mount. rule is what hides
// all of it, "" for nothing: such a directory is walked only when a mount is inside of it.
func (r *resolver) dir(host string, rel []string, layers []*rules, rule string) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	own, err := r.read(filepath.Join(host, FileName), rel)
	if err != nil {
		return err
	}
	if own != nil {
		layers = append(slices.Clip(layers), own)
	}
	if len(layers) == 0 && len(rel) >= exposedDepth {
		return nil
	}
	entries, err := os.ReadDir(host)
	if errors.Is(err, fs.ErrPermission) {
		return nil // the server has the rights of the same user
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for files to hide: %w", err)
	}
	for _, e := range entries {
		if err := r.entry(host, append(slices.Clip(rel), e.Name()), e, layers, rule); err != nil {
			return err
		}
	}
	return nil
}

func (r *resolver) entry(dir string, rel []string, e fs.DirEntry, layers []*rules, rule string) error {
	inside := r.mount.Container + "/" + strings.Join(rel, "/")
	if r.isMount(inside) {
		return nil // another mount covers it
	}
	host := filepath.Join(dir, e.Name())
	if rule == "" {
		rule = ruleFor(layers, rel, e.IsDir())
	}
	switch {
	case rule == "" && e.IsDir():
		return r.dir(host, rel, layers, "")
	case rule == "":
		r.expose(inside, e)
		return nil
	case e.IsDir() && r.holdsMount(inside):
		return r.dir(host, rel, layers, rule)
	case e.Type()&fs.ModeSymlink != 0:
		return r.link(host, inside, rule)
	}
	return r.hide(Hidden{Path: inside, Host: host, Dir: e.IsDir(), Rule: rule})
}

func (r *resolver) hide(h Hidden) error {
	if len(r.out.Hidden) == maxHidden {
		return fmt.Errorf("the ignore patterns hide more than %d paths, the last one %s (%s); hide the directory that they are in", maxHidden, h.Path, h.Rule)
	}
	r.out.Hidden = append(r.out.Hidden, h)
	return nil
}

// maxLinks bounds how many links lead to a file.
const maxLinks = 16

// link hides what a link leads to, if that is in a mount: nothing can be mounted over the
// link itself. What is elsewhere is the container's own.
func (r *resolver) link(host, inside, rule string) error {
	for range maxLinks {
		target, err := os.Readlink(host)
		if err != nil {
			return nil //nolint:nilerr // it was replaced meanwhile
		}
		target = filepath.ToSlash(target)
		if !path.IsAbs(target) {
			target = path.Join(path.Dir(inside), target)
		}
		inside = path.Clean(target)
		m, ok := r.mountOf(inside)
		if !ok || inside == m.Container {
			return nil
		}
		host = filepath.Join(m.Host, filepath.FromSlash(strings.TrimPrefix(inside, m.Container)))
		info, err := os.Lstat(host)
		if err != nil {
			return nil //nolint:nilerr // it leads to nothing
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			return r.hide(Hidden{Path: inside, Host: host, Dir: info.IsDir(), Rule: rule})
		}
	}
	return nil
}

// mountOf returns the mount that a path in the container is in.
func (r *resolver) mountOf(inside string) (best Mount, ok bool) {
	for _, m := range r.mounts {
		if (inside == m.Container || strings.HasPrefix(inside, m.Container+"/")) && len(m.Container) >= len(best.Container) {
			best, ok = m, true
		}
	}
	return best, ok
}

func (r *resolver) isMount(inside string) bool {
	return slices.ContainsFunc(r.mounts, func(m Mount) bool { return m.Container == inside })
}

func (r *resolver) holdsMount(inside string) bool {
	return slices.ContainsFunc(r.mounts, func(m Mount) bool { return strings.HasPrefix(m.Container, inside+"/") })
}

// ruleFor returns the rule that hides a path, "" if none does. The rules of the innermost
// directory come first (gitignore(5)); the global ones are the outermost.
func ruleFor(layers []*rules, rel []string, dir bool) string {
	for i := len(layers) - 1; i >= 0; i-- {
		p := layers[i].match(rel, dir)
		switch {
		case p == nil:
		case p.negated:
			return ""
		default:
			return fmt.Sprintf("%s:%d: %s", layers[i].file, p.line, p)
		}
	}
	return ""
}

// finish sorts what is hidden, and leaves out what is inside of something hidden.
func (o *Result) finish() {
	slices.SortFunc(o.Hidden, func(a, b Hidden) int { return strings.Compare(a.Path, b.Path) })
	var kept []Hidden
	for _, h := range o.Hidden {
		covered := slices.ContainsFunc(kept, func(k Hidden) bool {
			return k.Path == h.Path || k.Dir && strings.HasPrefix(h.Path, k.Path+"/")
		})
		if !covered {
			kept = append(kept, h)
		}
	}
	o.Hidden = kept
}
