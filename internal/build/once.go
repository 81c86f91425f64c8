package build

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// once makes an image unless the engine has it. Of several processes that need
// the same image one makes it and the others wait for that: otherwise one that is
// stopped would remove what another has just made.
func (b *Builder) once(ctx context.Context, image string, build func() error) (built bool, err error) {
	dir := filepath.Join(b.cfg.StateDir, "locks")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false, fmt.Errorf("lock the build of %s: %w", image, err)
	}
	lock := flock.New(filepath.Join(dir, hash([]byte(image))[:32]), flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, 100*time.Millisecond); err != nil {
		return false, fmt.Errorf("lock the build of %s: %w", image, err)
	}
	defer func() { _ = lock.Unlock() }() // closing the file is what unlocks it
	if there, err := b.exists(ctx, image); err != nil || there {
		return false, err
	}
	if err := build(); err != nil {
		b.undo(ctx, image)
		return false, err
	}
	return true, nil
}

// stepOutput keeps the end of the output of the build step that runs last, without
// the builder's own lines: those repeat whole commands.
type stepOutput struct{ text tail }

func (o *stepOutput) line(text string) {
	lower := strings.ToLower(text)
	switch {
	case strings.HasPrefix(lower, "step "):
		o.text.Reset()
	case strings.HasPrefix(strings.TrimLeft(lower, " "), "--"), strings.HasPrefix(lower, "removing intermediate container"):
	default:
		_, _ = o.text.Write([]byte(text + "\n")) // memory, which takes everything
	}
}

// installError is a failed installation: in its first line what failed, then
// the end of the output meanwhile.
type installError struct {
	err    error
	output string
}

func (e *installError) Error() string {
	head, rest, _ := strings.Cut(e.err.Error(), "\n")
	if e.output != "" {
		rest = e.output
	}
	return strings.TrimRight(lastLines(head)+"\n"+lastLines(rest), "\n")
}

func (e *installError) Unwrap() error { return e.err }
