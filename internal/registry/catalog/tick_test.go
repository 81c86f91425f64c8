package catalog

import (
	"testing"
	"time"
)

// A replica whose clock is behind, or does not move, still writes later than
// anything that its registry shows.
func TestAWriteIsLaterThanAllThatIsShown(t *testing.T) {
	shown := view{heads("s", "a/x 1.0.0", "a/x 2.0.0")} // the last on the second day
	for name, clock := range map[string]time.Time{"behind": day.AddDate(-1, 0, 0), "the same": day.AddDate(0, 0, 1), "ahead": day.AddDate(1, 0, 0)} {
		r := &registryView{clock: func() time.Time { return clock }}
		last := day.AddDate(0, 0, 1)
		for range 3 {
			now := r.tick(shown)
			if !now.After(last) || now.Before(clock) {
				t.Errorf("%s: %s after %s", name, now, last)
			}
			last = now
		}
	}
}
