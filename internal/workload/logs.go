package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
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
		if err := seekTail(f, opt.Tail); err != nil {
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
	return follow(ctx, path, f, w, func() bool { return m.store.has(name) })
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

// follow copies what is added to the file at path, through rotation and through
// removal and creation, until ctx ends or stored reports that the workload was removed.
func follow(ctx context.Context, path string, f *os.File, w io.Writer, stored func() bool) error {
	defer func() {
		if f != nil {
			f.Close()
		}
	}()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if f != nil {
			if _, err := io.Copy(w, f); err != nil {
				return err
			}
		}
		now, err := os.Stat(path)
		if err != nil {
			if !stored() {
				return nil
			}
			continue
		}
		if f != nil {
			if was, err := f.Stat(); err == nil && os.SameFile(was, now) {
				continue
			}
			f.Close()
		}
		if f, err = os.Open(path); err != nil {
			f = nil
		}
	}
}

// seekTail moves to the start of the last n lines; 0 is the start of the file.
func seekTail(f *os.File, n int) error {
	if n <= 0 {
		return nil
	}
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	found := 0
	for at := end; at > 0; {
		size := min(int64(len(buf)), at)
		at -= size
		if _, err := f.ReadAt(buf[:size], at); err != nil && err != io.EOF {
			return err
		}
		for i := size - 1; i >= 0; i-- {
			// The newline that ends the file does not start a line.
			if buf[i] == '\n' && at+i != end-1 {
				if found++; found == n {
					_, err := f.Seek(at+i+1, io.SeekStart)
					return err
				}
			}
		}
	}
	_, err = f.Seek(0, io.SeekStart)
	return err
}
