package owner

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/owner/disk"
)

// removeTimeout bounds the removal of a container that has filled its disk.
const removeTimeout = 30 * time.Second

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
		id, full := disk.Watch(ctx, o.instance.engine, o.instance.container, limit, o.log)
		if full == nil {
			return
		}
		o.log.Error("the server has written more than its limit; its container is removed", "used_bytes", full.Used, "limit_bytes", full.Limit)
		o.mu.Lock()
		stages := o.stages
		o.mu.Unlock()
		if stages != nil && stages.Recorder != nil {
			stages.Recorder.LimitExceeded("disk", full.Used, full.Limit)
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
		if full, ok := errors.AsType[*disk.FullError](context.Cause(ctx)); ok {
			return full
		}
		return err
	}
}

// container is the id of the container of the moment, "" if there is none.
func (s *instance) container() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}
