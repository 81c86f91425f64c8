package owner

import (
	"os"
	"runtime"
	"runtime/debug"
)

// heapFloor is what the gateway's heap may grow by before it is collected for the first
// time, in bytes: the little that lives in it would else be looked through for every
// few megabytes that calls leave behind, a tenth of the processor time of small calls.
const heapFloor = 16 << 20

// FitProcess makes this process one that owns a workload and does little else, until
// release. It is called once, before [Main].
func FitProcess() (release func()) {
	// A gateway that idles for days should not keep what a burst took.
	debug.SetGCPercent(50)
	// A gateway runs beside its server and its clients, and only forwards messages. With
	// as many processors as the machine has it wakes one for each message and takes it
	// from them: docs/decisions/0008.
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(max(1, runtime.GOMAXPROCS(0)/2))
	}
	// Counted by the collector, and never touched: it takes addresses, not memory. Now and
	// then the runtime writes zeros into a new slice; untouched drops these pages again.
	floor := make([]byte, heapFloor)
	untouched(floor)
	return func() { runtime.KeepAlive(floor) }
}
