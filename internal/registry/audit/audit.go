// Package audit writes the record of writes to the registry: one JSON object a
// line, in a file or to a stream.
//
// A write is announced by [Log.Begin] before it is made, and recorded by
// [Log.Record] after it. Begin fails while records cannot be stored, so that the
// caller can reject the write. On Linux, Begin reserves room for the record on the
// file system: a disk that becomes full later does not affect it. A record that
// cannot be stored all the same is logged, counted, kept in memory, and stored
// before the next one.
package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
)

// ErrNotStored: records cannot be stored now.
var ErrNotStored = errors.New("the record of writes cannot be stored")

// maxPending bounds the records that wait to be stored, in bytes.
const maxPending = 1 << 20

// Options of a Log.
type Options struct {
	// File is appended to; "" is Out.
	File string
	Out  io.Writer
	// Accept makes Begin succeed while records cannot be stored.
	Accept bool
	// Log receives every record that could not be stored, with the reason.
	Log *slog.Logger
	// Failed, if any, is called for each of them. It must not block.
	Failed func()
}

// Log is a record of writes. It may be used concurrently.
type Log struct {
	opt Options

	mu      sync.Mutex
	file    *os.File // nil where records go to Out
	torn    bool     // the file ends within a line
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
	if l.opt.File == "" {
		return nil
	}
	// Read access is for the check of the last byte; a device need not have it.
	f, err := os.OpenFile(l.opt.File, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("audit.file: %w", err)
	}
	torn, err := endsWithinLine(f)
	if err != nil {
		f.Close()
		return fmt.Errorf("audit.file: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.file.Close()
	}
	l.file, l.torn = f, torn
	return nil
}

// endsWithinLine reports whether the last line of a file has no end: a process that
// was writing it was killed, or the disk was full.
func endsWithinLine(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false, err
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], info.Size()-1)
	return last[0] != '\n', err
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
	if err == nil && l.file != nil {
		err = reserve(l.file)
	}
	if err == nil || l.opt.Accept {
		return nil
	}
	l.opt.Failed()
	l.opt.Log.Error("a write is rejected: its record could not be stored", "file", l.opt.File, "error", err)
	return fmt.Errorf("%w: %w", ErrNotStored, err)
}

// Record stores a record. What cannot be stored goes to the log of errors.
func (l *Log) Record(attrs ...slog.Attr) {
	var line bytes.Buffer
	record := slog.NewRecord(time.Now(), slog.LevelInfo, "registry write", 0)
	record.AddAttrs(attrs...)
	err := slog.NewJSONHandler(&line, nil).Handle(context.Background(), record)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		if err = l.flush(); err == nil {
			err = l.append(line.Bytes())
		}
		if err != nil && len(l.pending)+line.Len() <= maxPending {
			l.pending = append(l.pending, line.Bytes()...)
		}
	}
	if err == nil {
		return
	}
	l.opt.Failed()
	l.opt.Log.LogAttrs(context.Background(), slog.LevelError, "an audit record could not be stored",
		slog.String("file", l.opt.File), slog.Any("error", err), slog.Any("record", slog.GroupValue(attrs...)))
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
	before, statErr := l.file.Stat()
	n, err := l.file.Write(lines)
	if err == nil || n == 0 {
		return err
	}
	after, afterErr := l.file.Stat()
	if statErr != nil || afterErr != nil || after.Size() != before.Size()+int64(n) || l.file.Truncate(before.Size()) != nil {
		l.torn = true
	}
	return err
}
