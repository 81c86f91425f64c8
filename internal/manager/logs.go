package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/toolhaven/toolhaven/internal/logfile"
)

// LogOptions choose what Logs writes.
type LogOptions struct {
	Follow bool // go on until ctx ends
	Proxy  bool // the gateway's log instead of the server's
	Audit  bool // the audit log instead of the server's
	Tail   int  // only the last lines; 0 is all
}

// Logs writes a workload's log to w. ErrNotFound when there is no such
// workload; a workload that has logged nothing writes nothing.
func (m *Manager) Logs(ctx context.Context, name string, opt LogOptions, w io.Writer) error {
	if !m.store.has(name) {
		return fmt.Errorf("%w: %q", ErrNotFound, name)
	}
	path := m.store.ServerLog(name)
	if opt.Proxy {
		path = m.store.ProxyLog(name)
	}
	if opt.Audit {
		var err error
		if path, err = m.auditLog(name); err != nil {
			return err
		}
	}
	f, err := os.Open(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the log of %q: %w", name, err)
	}
	if f != nil {
		if err := logfile.SeekTail(f, opt.Tail); err != nil {
			f.Close()
			return fmt.Errorf("read the log of %q: %w", name, err)
		}
		if _, err := io.Copy(w, f); err != nil {
			f.Close()
			return err
		}
	}
	if !opt.Follow {
		if f != nil {
			return f.Close()
		}
		return nil
	}
	return logfile.Follow(ctx, path, f, w, func() bool { return m.store.has(name) })
}

// auditLog is the path of a workload's audit log. It is an error if it has none.
func (m *Manager) auditLog(name string) (string, error) {
	spec, err := m.store.Get(name)
	if err != nil {
		return "", err
	}
	if !spec.Audit.On() {
		return "", fmt.Errorf("workload %q has no audit log; run it with --enable-audit", name)
	}
	return spec.Audit.Path(m.store.AuditLog(name)), nil
}
