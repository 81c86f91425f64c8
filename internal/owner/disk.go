package owner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/workload"
)

// How a container's disk is measured. The engine walks all files that the container has
// written, so the next measurement comes no sooner than diskShare times what the last one
// took. Where the free space of the engine's disk is visible, it decides when to measure.
const (
	diskTick  = time.Second      // between two looks at the free space
	diskShare = 20               // of the time, a measurement takes at most one in so many
	diskBlind = 10 * time.Second // between two measurements where the free space is not visible
	diskIdle  = time.Minute      // where it is, and does not shrink
	// diskTimeout bounds one measurement, removeTimeout the removal of a container.
	diskTimeout   = 5 * time.Minute
	removeTimeout = 30 * time.Second
)

// diskPace decides when a container's disk is measured.
type diskPace struct {
	limit int64

	next     time.Time // not before
	measured time.Time // the last measurement's end; zero before the first
	used     int64
	free     int64 // at the last measurement; -1 is not visible
}

// due reports whether to measure now. free is the free space of the engine's disk, in bytes;
// -1 is not visible.
func (p *diskPace) due(now time.Time, free int64) bool {
	switch since := now.Sub(p.measured); {
	case now.Before(p.next):
		return false
	case p.measured.IsZero():
		return true
	case free < 0 || p.free < 0:
		return since >= diskBlind
	case since >= diskIdle:
		return true
	default:
		// The container cannot have written more than what is gone.
		return p.free-free >= max(1, (p.limit-p.used)/8)
	}
}

func (p *diskPace) note(began, ended time.Time, used, free int64) {
	p.next = ended.Add(diskShare * ended.Sub(began))
	p.measured, p.used, p.free = ended, used, free
}

// diskFullError is that a server has written more than it may.
type diskFullError struct{ used, limit int64 }

func (e *diskFullError) Error() string {
	return fmt.Sprintf("it was stopped: the server has written %s in its container and may write %s (--disk-limit)", workload.Bytes(e.used), workload.Bytes(e.limit))
}

// boundDisk stops the workload when its container has written more than its limit: it
// removes the container, which frees the disk, and ends the returned context. A container
// that was started again would write again. The function ends the watch and returns the error
// of what has run within it.
func (o *owner) boundDisk(ctx context.Context) (context.Context, func(error) error) {
	limit := o.spec.Container.Disk()
	if o.instance == nil || limit == 0 {
		return ctx, func(err error) error { return err }
	}
	ctx, end := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		id, full := o.watchDisk(ctx, limit)
		if full == nil {
			return
		}
		o.log.Error("the server has written more than its limit; its container is removed", "used_bytes", full.used, "limit_bytes", full.limit)
		o.mu.Lock()
		stages := o.stages
		o.mu.Unlock()
		if stages != nil && stages.Recorder != nil {
			stages.Recorder.LimitExceeded("disk", full.used, full.limit)
		}
		end(full) // first, so that the end of the container is no reason for another one
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
		defer cancel()
		if err := o.instance.engine.Remove(clean, id); err != nil {
			o.log.Error("cannot remove the container", "error", err)
		}
	})
	return ctx, func(err error) error {
		end(nil)
		watching.Wait()
		if full, ok := errors.AsType[*diskFullError](context.Cause(ctx)); ok {
			return full
		}
		return err
	}
}

// watchDisk measures the container of the moment until it has written more than the limit,
// or ctx ends.
func (o *owner) watchDisk(ctx context.Context, limit int64) (id string, full *diskFullError) {
	s := o.instance
	tick := time.NewTicker(diskTick)
	defer tick.Stop()
	pace := diskPace{limit: limit}
	root, logged := "", ""
	for looked := false; ; {
		select {
		case <-ctx.Done():
			return "", nil
		case <-tick.C:
		}
		s.mu.Lock()
		id = s.id
		s.mu.Unlock()
		if id == "" {
			continue
		}
		if !looked {
			looked, root = true, s.diskRoot(ctx)
		}
		free := freeSpace(root)
		began := time.Now()
		if !pace.due(began, free) {
			continue
		}
		measure, cancel := context.WithTimeout(ctx, diskTimeout)
		used, err := s.engine.DiskUsage(measure, id)
		cancel()
		if err != nil {
			used = pace.used // the container may be gone, or the engine busy
			if text := err.Error(); text != logged && ctx.Err() == nil {
				logged = text
				s.log.Warn("cannot measure the container's disk", "error", err)
			}
		}
		pace.note(began, time.Now(), used, free)
		if err == nil && used > limit {
			return id, &diskFullError{used: used, limit: limit}
		}
	}
}

// diskRoot is the directory with the engine's containers, "" if the engine may be on another
// machine.
func (s *instance) diskRoot(ctx context.Context) string {
	info, err := s.engine.Info(ctx)
	if err != nil || !strings.HasPrefix(info.Socket, "unix://") {
		return ""
	}
	return info.Root
}
