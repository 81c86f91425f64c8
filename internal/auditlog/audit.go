// Package auditlog stores audit records: one JSON object a line, in a file or to a
// stream.
//
// What is recorded, such as a write to the registry or a request to a gateway, is
// announced by [Log.Begin] before it is made, and recorded by [Log.Record] or
// [Log.Append] after it. Begin fails while records cannot be stored, so that the
// caller can reject the request. On Linux, Begin reserves room for the record on the
// file system: a disk that becomes full later does not affect it. A record that
// cannot be stored all the same is logged, counted, kept in memory, and stored
// before the next one.
package auditlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// ErrNotStored: records cannot be stored now.
var ErrNotStored = errors.New("audit records cannot be stored")

// maxPending bounds the records that wait to be stored, in bytes.
const maxPending = 1 << 20

// Options of a Log.
type Options struct {
	// File is appended to; "" is Out.
	File string
	Out  io.Writer
	// MaxSize is the size in bytes at which File is renamed to File.1, File.1 to File.2,
	// and so on up to File.5; 0 is no limit.
	MaxSize int64
	// Accept makes Begin succeed while records cannot be stored.
	Accept bool
	// Log receives every record that could not be stored, with the reason.
	Log *slog.Logger
	// Failed, if any, is called for each of them. It must not block.
	Failed func()
}

// Log stores records. It may be used concurrently.
type Log struct {
	opt Options

	failing atomic.Bool // the last attempt to store a record failed

	mu      sync.Mutex
	file    *os.File // nil where records go to Out
	torn    bool     // the file ends within a line
	size    int64    // of the file
	pending []byte   // whole lines that are not stored yet
}

// Open opens the file, which is created, readable by this user alone.
func Open(opt Options) (*Log, error) {
	l := &Log{opt: opt}
	if l.opt.Failed == nil {
		l.opt.Failed = func() {}
	}
	if l.opt.Log == nil {
		l.opt.Log = slog.New(slog.DiscardHandler)
	}
	if err := l.Reopen(); err != nil {
		return nil, err
	}
	return l, nil
}

// Reopen opens the file anew: after it was renamed, records go to a new one. When
// that fails, the file that was open stays in use.
func (l *Log) Reopen() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reopen()
}

// reopen is Reopen for a caller that holds mu.
func (l *Log) reopen() error {
	if l.opt.File == "" {
		return nil
	}
	// Read access is for the check of the last byte; a device need not have it.
	f, err := os.OpenFile(l.opt.File, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("audit.file: %w", err)
	}
	size, torn, err := endsWithinLine(f)
	if err != nil {
		f.Close()
		return fmt.Errorf("audit.file: %w", err)
	}
	if l.file != nil {
		l.file.Close()
	}
	l.file, l.torn, l.size = f, torn, size
	return nil
}

// kept is the number of renamed files that are kept.
const kept = 5

// rotate renames the file, if a line of n bytes makes it too large, and opens a new one.
// When that fails the file grows: records are worth more than the limit.
func (l *Log) rotate(n int) {
	if l.opt.MaxSize == 0 || l.size == 0 || l.size+int64(n) <= l.opt.MaxSize {
		return
	}
	name := func(i int) string { return fmt.Sprintf("%s.%d", l.opt.File, i) }
	for i := kept; i > 1; i-- {
		if err := os.Rename(name(i-1), name(i)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return
		}
	}
	if os.Rename(l.opt.File, name(1)) == nil {
		if err := l.reopen(); err != nil {
			l.opt.Log.Warn("the audit log was renamed, and a new one cannot be opened", "error", err)
		}
	}
}

// endsWithinLine reports whether the last line of a file has no end: a process that
// was writing it was killed, or the disk was full.
func endsWithinLine(f *os.File) (size int64, torn bool, err error) {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return 0, false, err
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], info.Size()-1)
	return info.Size(), last[0] != '\n', err
}

// Close closes the file.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.flush()
	if l.file != nil {
		err = errors.Join(err, l.file.Close())
	}
	return err
}

// Begin announces a write: its error, ErrNotStored, means that the write's record
// could not be stored. In a Log that accepts, it has none.
func (l *Log) Begin() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.flush()
	if err == nil && l.file != nil && !l.opt.Accept {
		err = reserve(l.file)
	}
	l.failing.Store(err != nil)
	if err == nil || l.opt.Accept {
		return nil
	}
	l.opt.Failed()
	l.opt.Log.Error("a request is rejected: its record could not be stored", "file", l.opt.File, "error", err)
	return fmt.Errorf("%w: %w", ErrNotStored, err)
}

// Record stores a record. What cannot be stored goes to the log of errors.
func (l *Log) Record(attrs ...slog.Attr) {
	var line bytes.Buffer
	record := slog.NewRecord(time.Now(), slog.LevelInfo, "registry write", 0)
	record.AddAttrs(attrs...)
	err := slog.NewJSONHandler(&line, nil).Handle(context.Background(), record)
	if err == nil {
		err = l.store(line.Bytes())
	}
	if err == nil {
		return
	}
	l.opt.Failed()
	l.opt.Log.LogAttrs(context.Background(), slog.LevelError, "an audit record could not be stored",
		slog.String("file", l.opt.File), slog.Any("error", err), slog.Any("record", slog.GroupValue(attrs...)))
}

// Failing reports whether records could not be stored when the last one was due.
func (l *Log) Failing() bool { return l.failing.Load() }

// Append stores a line, which ends in a line break, as Record does. A line that cannot be
// stored is not in the log of errors: it may contain the data of a call.
func (l *Log) Append(line []byte) {
	if err := l.store(line); err != nil {
		l.opt.Failed()
		l.opt.Log.Error("an audit record could not be stored", "file", l.opt.File, "error", err)
	}
}

// store stores a line, or keeps it until there is room. The error means that it is not
// stored yet.
func (l *Log) store(line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.flush()
	if err == nil {
		err = l.append(line)
	}
	if err != nil && len(l.pending)+len(line) <= maxPending {
		l.pending = append(l.pending, line...)
	}
	l.failing.Store(err != nil)
	return err
}

// flush stores the records that wait.
func (l *Log) flush() error {
	if len(l.pending) == 0 {
		return nil
	}
	err := l.append(l.pending)
	if err == nil {
		l.pending = nil
	}
	return err
}

// append writes whole lines. A line that was written in part is taken back, or
// else ended before the next one.
func (l *Log) append(lines []byte) error {
	if l.file == nil {
		_, err := l.opt.Out.Write(lines)
		return err
	}
	if l.torn {
		if _, err := l.file.Write([]byte("\n")); err != nil {
			return err
		}
		l.torn = false
	}
	l.rotate(len(lines))
	before, statErr := l.file.Stat()
	n, err := l.file.Write(lines)
	l.size += int64(n)
	if err == nil || n == 0 {
		return err
	}
	after, afterErr := l.file.Stat()
	if statErr != nil || afterErr != nil || after.Size() != before.Size()+int64(n) || l.file.Truncate(before.Size()) != nil {
		l.torn = true
	}
	return err
}
