package sessions

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
)

// resume resumes the session with the id, which another gateway with the same key began.
// Otherwise the error is errSessionOver. Concurrent calls return the same session.
func (st *Store) resume(ctx context.Context, id, principal string) (*session, error) {
	t, ok := st.ids.open(id, principal)
	if !ok || !st.ids.canResume(t, time.Now()) {
		return nil, errSessionOver
	}
	// Several requests may wait for the session; none of them cancels it.
	return await(ctx, st.resuming.DoChan(id, func() (any, error) { return st.resumeOnce(id, principal, t) }))
}

// await waits for a session that other requests may wait for too.
func await(ctx context.Context, made <-chan singleflight.Result) (*session, error) {
	select {
	case r := <-made:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*session), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (st *Store) resumeOnce(id, principal string, t *sessionToken) (*session, error) {
	if !st.core.Calls.Enter() {
		return nil, httpd.ErrStopping
	}
	defer st.core.Calls.Leave()
	if s := st.find(id, principal); s != nil {
		return s, nil
	}
	if st.table.hasEnded(t.serial) {
		return nil, errSessionOver
	}
	s := newSession(st.core, id)
	s.principal, s.serial, s.resumed = principal, t.serial, true
	s.streams.resumable = true
	s.client = &exchange.Client{Principal: principal, Version: t.version, Capabilities: t.capabilities, Info: t.info}
	// Answers to requests of the earlier gateway must not match those of this one.
	s.questions.startAfter(time.Now().UnixMicro())
	conn, err := st.core.Backend.Resume(st.core.Context, s.client, t.handle, s)
	if err == nil {
		s.version, err = agreedVersion(conn)
	}
	if err != nil {
		s.end(errSessionOver) // the server may have sent messages to it
	}
	switch {
	case errors.Is(err, exchange.ErrNotResumable):
		return nil, errSessionOver
	case err != nil:
		st.release(conn)
		if cause := context.Cause(st.core.Context); cause != nil {
			err = cause
		}
		return nil, err
	}
	s.streams.agree(s.version)
	s.mu.Lock()
	s.conn = conn
	s.mu.Unlock()
	if err := st.enroll(s); err != nil {
		return nil, err
	}
	st.core.Log.Info("a session from before the gateway's start was resumed")
	return s, nil
}
