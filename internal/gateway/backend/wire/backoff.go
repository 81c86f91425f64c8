package wire

import (
	"context"
	"time"
)

// The pauses between attempts to reconnect.
const (
	firstPause = 200 * time.Millisecond
	MaxPause   = 30 * time.Second
)

// Backoff computes the pauses between attempts.
type Backoff struct {
	Retry    time.Duration // as the server requests, 0 for none
	Attempts int           // in a row, without success
}

// Pause is how long to wait before the next attempt.
func (s *Backoff) Pause() time.Duration {
	if s.Retry > 0 && s.Attempts == 0 {
		return min(s.Retry, MaxPause)
	}
	return min(max(s.Retry, firstPause)<<min(s.Attempts, 10), MaxPause)
}

// Sleep waits for d or until ctx ends.
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
