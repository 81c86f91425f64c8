package wire

import (
	"context"
	"time"
)

// The first and the longest pause between attempts to reconnect.
const (
	firstPause = 200 * time.Millisecond
	MaxPause   = 30 * time.Second
)

// Backoff computes the pauses between attempts.
type Backoff struct {
	Retry    time.Duration // the server requested this pause, 0 for none
	Attempts int           // consecutive failures
}

// Pause returns how long to wait before the next attempt. It doubles with each attempt, up
// to [MaxPause].
func (s *Backoff) Pause() time.Duration {
	if s.Retry > 0 && s.Attempts == 0 {
		return min(s.Retry, MaxPause)
	}
	return min(max(s.Retry, firstPause)<<min(s.Attempts, 10), MaxPause)
}

// Sleep waits for d. It returns ctx.Err() if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
