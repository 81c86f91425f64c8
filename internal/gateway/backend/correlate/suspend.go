package correlate

import "github.com/toolhaven/toolhaven/internal/exchange"

// This file ends the pending requests of a table and rejects new ones, for good or until
// the server responds again.

// rejects returns the error with which Add fails, nil for none. The caller holds mu.
func (t *RequestTable) rejects(x *exchange.Exchange) error {
	if t.failure != nil {
		return t.failure
	}
	if x.Client != nil && x.Client.LivenessCheck {
		return nil
	}
	return t.suspended
}

// Refuse fails every later Add with err.
func (t *RequestTable) Refuse(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failure == nil {
		t.failure = err
	}
}

// Fail ends every pending request with err, and fails every later Add with it.
func (t *RequestTable) Fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failure == nil {
		t.failure = err
	}
	for _, f := range t.pending {
		t.pending.fail(f, err)
	}
}

// Suspend ends every pending request with err, and fails Add with it until Resume. Requests
// of a liveness check ([exchange.Client]) are still sent. It returns the requests that it
// ended: the server may still read them.
func (t *RequestTable) Suspend(err error) (ended []*PendingRequest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.suspended = err
	for _, f := range t.pending {
		if !f.orphan {
			ended = append(ended, f)
		}
		t.pending.fail(f, err)
	}
	return ended
}

// Resume reverses Suspend: Add accepts requests again.
func (t *RequestTable) Resume() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.suspended = nil
}

// Waiting reports whether a request is pending that was not cancelled.
func (t *RequestTable) Waiting() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range t.pending {
		if !f.orphan {
			return true
		}
	}
	return false
}
