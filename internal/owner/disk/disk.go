// Package disk measures what a container writes, until that is more than its limit. An engine
// bounds a container's disk only where its storage has quotas, so the owner does as a kubelet
// does for ephemeral storage.
//
// The engine walks all files that the container has written, so the next measurement comes no
// sooner than 20 times what the last one took. Where the free space of the engine's disk is
// visible, it decides when to measure.
package disk

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/workload"
)

const (
	tick  = time.Second      // between two looks at the free space
	share = 20               // of the time, a measurement takes at most one in so many
	blind = 10 * time.Second // between two measurements where the free space is not visible
	idle  = time.Minute      // where it is, and does not shrink
	// timeout bounds one measurement.
	timeout = 5 * time.Minute
)

// FullError is that a server has written more than it may, in bytes.
type FullError struct{ Used, Limit int64 }

func (e *FullError) Error() string {
	return fmt.Sprintf("it was stopped: the server has written %s in its container and may write %s (--disk-limit)", workload.Bytes(e.Used), workload.Bytes(e.Limit))
}

// Watch measures the container of the moment, which current returns ("" for none), until one
// has written more than the limit, or ctx ends: then full is nil.
func Watch(ctx context.Context, engine container.Engine, current func() string, limit int64, log *slog.Logger) (id string, full *FullError) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	pace := pace{limit: limit}
	root, logged := "", ""
	for looked := false; ; {
		select {
		case <-ctx.Done():
			return "", nil
		case <-ticker.C:
		}
		if id = current(); id == "" {
			continue
		}
		if !looked {
			looked, root = true, rootOf(ctx, engine)
		}
		free := freeSpace(root)
		began := time.Now()
		if !pace.due(began, free) {
			continue
		}
		measure, cancel := context.WithTimeout(ctx, timeout)
		used, err := engine.DiskUsage(measure, id)
		cancel()
		if err != nil {
			used = pace.used // the container may be gone, or the engine busy
			if text := err.Error(); text != logged && ctx.Err() == nil {
				logged = text
				log.Warn("cannot measure the container's disk", "error", err)
			}
		}
		pace.note(began, time.Now(), used, free)
		if err == nil && used > limit {
			return id, &FullError{Used: used, Limit: limit}
		}
	}
}

// rootOf is the directory with the engine's containers, "" if the engine may be on another
// machine.
func rootOf(ctx context.Context, engine container.Engine) string {
	info, err := engine.Info(ctx)
	if err != nil || !strings.HasPrefix(info.Socket, "unix://") {
		return ""
	}
	return info.Root
}

// pace decides when a container's disk is measured.
type pace struct {
	limit int64

	next     time.Time // not before
	measured time.Time // the last measurement's end; zero before the first
	used     int64
	free     int64 // at the last measurement; -1 is not visible
}

// due reports whether to measure now. free is the free space of the engine's disk, in bytes;
// -1 is not visible.
func (p *pace) due(now time.Time, free int64) bool {
	switch since := now.Sub(p.measured); {
	case now.Before(p.next):
		return false
	case p.measured.IsZero():
		return true
	case free < 0 || p.free < 0:
		return since >= blind
	case since >= idle:
		return true
	default:
		// The container cannot have written more than what is gone.
		return p.free-free >= max(1, (p.limit-p.used)/8)
	}
}

func (p *pace) note(began, ended time.Time, used, free int64) {
	p.next = ended.Add(share * ended.Sub(began))
	p.measured, p.used, p.free = ended, used, free
}
