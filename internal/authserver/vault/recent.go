package vault

import "sync"

// The bounds of what a process remembers, in records and in bytes as they are stored.
const (
	maxRecent      = 20_000
	maxRecentBytes = 64 << 20
)

// recent has the last records that this process saw, for the time in which the store cannot
// be reached. At its bounds it drops any others.
type recent struct {
	mu      sync.Mutex
	bytes   int
	records map[string]*record
}

func newRecent() *recent { return &recent{records: map[string]*record{}} }

func (c *recent) get(key string) *record {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.records[key]
}

func (c *recent) put(r *record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(r.Key)
	for key := range c.records {
		if len(c.records) < maxRecent && c.bytes+len(r.raw) <= maxRecentBytes {
			break
		}
		c.drop(key)
	}
	c.records[r.Key] = r
	c.bytes += len(r.raw)
}

func (c *recent) remove(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(key)
}

func (c *recent) drop(key string) {
	if old := c.records[key]; old != nil {
		c.bytes -= len(old.raw)
		delete(c.records, key)
	}
}
