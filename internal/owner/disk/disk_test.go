package disk

import (
	"testing"
	"time"
)

// A measurement takes at most one twentieth of the time, and comes when the server can have
// written a part of what it may still write.
func TestPace(t *testing.T) {
	const mib = 1 << 20
	began := time.Now()
	for name, row := range map[string]struct {
		took, after time.Duration
		used        int64
		before, now int64 // free; -1 is not visible
		want        bool
	}{
		"nothing was written":                       {time.Millisecond, 2 * time.Second, 0, 1000 * mib, 1000 * mib, false},
		"nothing was written for long":              {time.Millisecond, time.Minute, 0, 1000 * mib, 1000 * mib, true},
		"a little is gone":                          {time.Millisecond, 2 * time.Second, 20 * mib, 1000 * mib, 991 * mib, false},
		"an eighth of the rest is gone":             {time.Millisecond, 2 * time.Second, 20 * mib, 1000 * mib, 990 * mib, true},
		"near the limit":                            {time.Millisecond, 2 * time.Second, 99 * mib, 1000 * mib, 999 * mib, true},
		"at the limit":                              {time.Millisecond, 2 * time.Second, 100 * mib, 1000 * mib, 1000*mib - 1, true},
		"the walk takes long":                       {time.Second, 19 * time.Second, 20 * mib, 1000 * mib, 0, false},
		"the walk took long a while ago":            {time.Second, 20 * time.Second, 20 * mib, 1000 * mib, 0, true},
		"the free space is not visible":             {time.Millisecond, 9 * time.Second, 0, -1, -1, false},
		"the free space is not visible, for longer": {time.Millisecond, 10 * time.Second, 0, -1, -1, true},
	} {
		p := pace{limit: 100 * mib}
		if !p.due(began, row.before) {
			t.Errorf("%s: the first measurement is not due", name)
		}
		ended := began.Add(row.took)
		p.note(began, ended, row.used, row.before)
		if got := p.due(ended.Add(row.after), row.now); got != row.want {
			t.Errorf("%s: due is %t", name, got)
		}
	}
}
