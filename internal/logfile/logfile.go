// Package logfile reads the logs of workloads: their last lines, and what is added to them.
package logfile

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"time"
)

// Follow copies what is added to the file at path, through rotation and through
// removal and creation, until ctx ends or kept reports that there will be none any more.
func Follow(ctx context.Context, path string, f *os.File, w io.Writer, kept func() bool) error {
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
			if !kept() {
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

// SeekTail moves to the start of the last n lines; 0 is the start of the file.
func SeekTail(f *os.File, n int) error {
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

// Tail is the last lines of a file, each indented, or "".
func Tail(path string, lines int) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	b = bytes.TrimRight(b, "\n")
	all := bytes.Split(b, []byte("\n"))
	all = all[max(0, len(all)-lines):]
	var out bytes.Buffer
	for _, l := range all {
		if len(l) > 0 {
			fmt.Fprintf(&out, "\n  %s", l)
		}
	}
	return out.String()
}
