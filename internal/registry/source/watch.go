package source

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// How long a file must be unchanged before it is read, and how long that may be
// delayed in all.
const (
	settle    = 150 * time.Millisecond
	settleMax = 2 * time.Second
)

// watch calls changed whenever the file at path may have another content, until
// ctx ends. The directories are watched, not the file, so that files and links may be
// replaced by renaming: Kubernetes replaces the link ..data on the path of the file.
// ready is called once the watch is set.
func watch(ctx context.Context, path string, ready, changed func()) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", path, err)
	}
	defer w.Close()
	last, err := follow(w, path)
	if err != nil {
		return fmt.Errorf("watch %s: %w", path, err)
	}
	ready()
	quiet := time.NewTimer(0)
	<-quiet.C
	defer quiet.Stop()
	var first time.Time // time of the first pending event
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, open := <-w.Events:
			if !open {
				return nil
			}
			if first.IsZero() {
				first = time.Now()
			}
			quiet.Reset(max(0, min(settle, settleMax-time.Since(first))))
		case err, open := <-w.Errors:
			if !open {
				return nil
			}
			// Events were lost: something may have changed.
			if err != nil {
				quiet.Reset(settle)
			}
		case <-quiet.C:
			first = time.Time{}
			now, err := follow(w, path)
			if err != nil {
				return fmt.Errorf("watch %s: %w", path, err)
			}
			// Events of other files in these directories are ignored.
			if !now.same(last) {
				last = now
				changed()
			}
		}
	}
}

// trace identifies the state of a file without its content.
type trace struct {
	info os.FileInfo // nil when there is no file
}

func (t trace) same(u trace) bool {
	if t.info == nil || u.info == nil {
		return t.info == nil && u.info == nil
	}
	return os.SameFile(t.info, u.info) && t.info.Size() == u.info.Size() && t.info.ModTime().Equal(u.info.ModTime())
}

// maxLinks bounds the links on the path of a file, as the kernel does.
const maxLinks = 40

// follow watches the directory of path and of every link on the way to the file,
// and returns the file's current state.
func follow(w *fsnotify.Watcher, path string) (trace, error) {
	for at, n := path, 0; n < maxLinks; n++ {
		if err := w.Add(filepath.Dir(at)); err != nil && n == 0 {
			return trace{}, err
		}
		target, err := os.Readlink(at)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(at), target)
		}
		at = target
	}
	info, err := os.Stat(path)
	if err != nil {
		return trace{}, nil //nolint:nilerr // there is no file now; the next fetch reports why
	}
	return trace{info}, nil
}
