package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// stopTimeout bounds a graceful end: the gateway drains for up to 10 s and the
// server gets 10 s; what still holds the workload then is killed.
const stopTimeout = 30 * time.Second

// sweepTimeout bounds the removal of what an owner left on the engine. It does
// not end with the command's context: a clean-up is not left half done.
const sweepTimeout = 30 * time.Second

// killTime bounds the end of a process that was killed.
const killTime = 5 * time.Second

// pace is how long a stop waits.
type pace struct {
	quiet time.Duration // before progress is reported
	stop  time.Duration // before a gateway that received a stop is killed
}

func usualPace() pace { return pace{quiet: time.Second, stop: stopTimeout} }

// ErrInterrupted: the command's context ended first. The error's text has the
// consequence for the workload. It wraps the context's error too.
var ErrInterrupted = errors.New("interrupted")

// interruption is the error of a command whose context ended, usually by Ctrl-C. Its
// text has what is left as it is, and what goes on.
type interruption struct {
	text  string
	cause error // of the context
}

func (i *interruption) Error() string   { return ErrInterrupted.Error() + "; " + i.text }
func (i *interruption) Unwrap() []error { return []error{ErrInterrupted, i.cause} }

// unfinished adds to an interruption what was to come after the stop.
func unfinished(err error, what string) error {
	var i *interruption
	if errors.As(err, &i) {
		return &interruption{text: i.text + ", and " + what, cause: i.cause}
	}
	return err
}

// stopper ends workloads and removes what their owners left.
type stopper struct {
	store *Store
	// engine connects to the container engine.
	engine func(ctx context.Context) (container.Engine, error)
	pace   pace
}

// stop ends a workload as [Manager.Stop] does, without the note for a start that has no
// owner yet.
func (s *stopper) stop(ctx context.Context, name string, progress func(Event)) error {
	owner, err := s.listeningOwner(ctx, name)
	if err != nil {
		return err
	}
	progress = callable(progress)
	defer s.notifyLater(progress, Event{
		Stage:   "stop",
		Message: fmt.Sprintf("waiting for %s to stop (calls have 10 s to end, then the server 10 s)", name),
	})()
	ended := 0
	if owner == nil {
		if ended, err = s.store.EndStrayOwners(ctx, name); err != nil {
			return err
		}
		// One that was not found may have restored its files just then.
		if owner, err = s.listeningOwner(ctx, name); err != nil {
			return err
		}
	}
	if owner == nil {
		return s.sweepStopped(ctx, name, ended)
	}
	spec, err := s.store.Get(name)
	if err != nil {
		// Lost from disk; its owner still has it. Without it we look for a
		// container, which is never wrong.
		spec, _ = owner.Spec(ctx)
	}
	reason, err := s.end(ctx, name, owner)
	if err != nil {
		return err
	}
	if reason != "" {
		progress(Event{Stage: NoteStage, Message: fmt.Sprintf("workload %s: %s", name, reason)})
	}
	if err := s.sweep(ctx, name, spec); err != nil {
		return err
	}
	if err := s.store.SetLast(name, workload.Stopped, reason); err != nil {
		return err
	}
	return stillServed(ctx, spec)
}

// sweepStopped makes sure that nothing of a workload runs that has no owner: no
// container, no gateway at its URL. ended is how many owners without state were ended.
func (s *stopper) sweepStopped(ctx context.Context, name string, ended int) error {
	spec, specErr := s.store.Get(name)
	if specErr != nil && !s.store.has(name) {
		removed, err := s.sweepUnknown(ctx, name)
		if err == nil && ended+removed == 0 {
			return specErr
		}
		return err
	}
	if err := s.sweep(ctx, name, spec); err != nil {
		return err
	}
	if err := stillServed(ctx, spec); err != nil {
		return err
	}
	// A workload that failed is stopped from now on: that was requested.
	if ended > 0 || s.store.Last(name).State != workload.Stopped {
		return s.store.SetLast(name, workload.Stopped, "")
	}
	return fmt.Errorf("workload %q is %w", name, ErrNotRunning)
}

// listeningOwner is the owner of a workload. One that has just taken hold, or is letting
// go, has no socket; it is waited for up to controlTimeout.
func (s *stopper) listeningOwner(ctx context.Context, name string) (*Owner, error) {
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	for {
		owner, err := s.store.Owner(name)
		if err != nil || owner == nil || owner.PID != 0 {
			return owner, err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			owner.PID = s.store.holder(name)
			return owner, nil
		}
	}
}

// end has owner let go of the workload, gracefully or by force; reason is why force was
// needed.
func (s *stopper) end(ctx context.Context, name string, owner *Owner) (reason string, err error) {
	// Sent in any case, so that after an interrupt it is certain that the stop was
	// requested. The request has a timeout of its own.
	stopErr := owner.Stop(context.WithoutCancel(ctx))
	limit := s.pace.stop
	if stopErr != nil {
		limit = 0 // it does not answer, or it ended just now
	}
	switch {
	case s.released(ctx, name, owner, limit):
		return "", nil
	case ctx.Err() != nil && stopErr != nil:
		return "", &interruption{fmt.Sprintf("the gateway of workload %q does not answer, and is left as it is", name), ctx.Err()}
	case ctx.Err() != nil:
		return "", &interruption{fmt.Sprintf("workload %q is stopping, and continues to stop", name), ctx.Err()}
	}
	reason = "its gateway did not answer and was killed"
	if stopErr == nil {
		reason = fmt.Sprintf("its gateway did not end within %s and was killed", s.pace.stop)
	}
	if err := s.store.kill(owner); err != nil {
		return "", err
	}
	if !s.released(context.WithoutCancel(ctx), name, owner, killTime) {
		return "", fmt.Errorf("workload %q: process %d still holds it after being killed", name, owner.PID)
	}
	return reason, nil
}

// notifyLater reports e after pace.quiet, unless cancel is called before. After cancel
// has returned nothing is reported.
func (s *stopper) notifyLater(report func(Event), e Event) (cancel func()) {
	over, silent := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(silent)
		select {
		case <-over:
		case <-time.After(s.pace.quiet):
			report(e)
		}
	}()
	return func() {
		close(over)
		<-silent
	}
}

// released waits until owner no longer holds the workload.
func (s *stopper) released(ctx context.Context, name string, owner *Owner, limit time.Duration) bool {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		// A holder without a note is between taking it away and unlocking.
		if now, err := s.store.Owner(name); err == nil && (now == nil || now.Nonce != "" && now.Nonce != owner.Nonce) {
			return true
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// sweep removes what a dead owner left on the engine, whether or not ctx ends
// meanwhile. A workload that never has a container needs no engine for that. spec
// may be nil when it is lost.
func (s *stopper) sweep(ctx context.Context, name string, spec *workload.Spec) error {
	if spec != nil && spec.Remote != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepTimeout)
	defer cancel()
	engine, err := s.engine(ctx)
	if err != nil {
		return fmt.Errorf("look for containers of workload %q: %w", name, err)
	}
	return RemoveContainers(ctx, engine, s.store, name)
}

// sweepUnknown removes the containers of a workload that is not stored, and returns
// how many there were. It may have been a remote one, so no engine is needed.
func (s *stopper) sweepUnknown(ctx context.Context, name string) (int, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepTimeout)
	defer cancel()
	engine, err := s.engine(ctx)
	if errors.Is(err, container.ErrUnavailable) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look for containers of workload %q: %w", name, err)
	}
	found, err := Containers(ctx, engine, s.store, name)
	if err != nil {
		return 0, err
	}
	return len(found), RemoveContainers(ctx, engine, s.store, name)
}

// RemoveContainers removes every container of a workload of this store. The
// caller has made sure that no owner uses them.
func RemoveContainers(ctx context.Context, engine container.Engine, store *Store, name string) error {
	found, err := Containers(ctx, engine, store, name)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range found {
		errs = append(errs, engine.Remove(ctx, c.ID))
	}
	return errors.Join(errs...)
}

// Containers are all containers of a workload of this store, ended ones too.
func Containers(ctx context.Context, engine container.Engine, store *Store, name string) ([]container.Container, error) {
	return engine.List(ctx, map[string]string{LabelWorkload: name, LabelStore: store.ID()})
}
