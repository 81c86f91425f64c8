package command

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// When memory is given back to the system.
const (
	restEvery = 15 * time.Second
	// restAllocates is the most that an operator allocates in restEvery when it only watches
	// and renews its lease, in bytes.
	restAllocates = 4 << 20
	// worthwhile is how much it has allocated since the last time, so that there is something
	// to give back.
	worthwhile = 16 << 20
)

// memory gives memory back after work. An operator works for a minute after its start, or after
// an edit of what many resources refer to, and then rests for hours.
type memory struct{}

// NeedLeaderElection reports that operators that wait do it as well.
func (memory) NeedLeaderElection() bool { return false }

// Start runs until ctx ends.
func (memory) Start(ctx context.Context) error {
	tick := time.NewTicker(restEvery)
	defer tick.Stop()
	var last, given uint64
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := allocated()
		if now-last < restAllocates && now-given > worthwhile {
			debug.FreeOSMemory()
			given = now
		}
		last = now
	}
}

// allocated is the number of bytes allocated since the start.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}
