//go:build hostile

package hostile

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// maxHeap bounds what the whole test process has in use, both sides and the race
// detector's share included: a gateway alone stays far below.
const maxHeap = 512 << 20

// memory watches the heap in use.
type memory struct {
	mu   sync.Mutex
	peak uint64
	most uint64
}

// watchMemory looks at the heap until the test ends.
func watchMemory(t *testing.T) *memory {
	t.Helper()
	m := &memory{}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				m.look()
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-done
		t.Logf("at most %d MiB of heap in use", max(m.peak, m.most)>>20)
	})
	return m
}

func (m *memory) look() uint64 {
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.peak = max(m.peak, s.HeapInuse)
	return m.peak
}

// check fails the test when there was too much in use since the last check.
func (m *memory) check(t *testing.T, what string) {
	t.Helper()
	if peak := m.look(); peak > maxHeap {
		t.Errorf("%s: %d MiB of heap in use", what, peak>>20)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.most, m.peak = max(m.most, m.peak), 0
}
