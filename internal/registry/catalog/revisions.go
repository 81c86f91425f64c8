package catalog

import (
	"context"
	"strings"
	"sync"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// revisions asks the store how far sources have come, once for all who want to
// know at the same time: while one question is out, those who come wait for the
// next, which is asked after they came. So each answer is of a moment after its
// caller's, and the database is asked one thing at a time however many ask us.
type revisions struct {
	store store.Store

	mu    sync.Mutex
	lines map[string]*line // by what they ask for
}

// line is a sequence of the same question.
type line struct {
	sources []string
	asking  bool
	next    *answer // what those who wait now will get; nil when nobody does
}

type answer struct {
	done      chan struct{}
	revisions []store.Revision
	err       error
}

func (r *revisions) of(ctx context.Context, sources []string) ([]store.Revision, error) {
	key := strings.Join(sources, "\x00")
	r.mu.Lock()
	l := r.lines[key]
	if l == nil {
		if r.lines == nil {
			r.lines = map[string]*line{}
		}
		l = &line{sources: sources}
		r.lines[key] = l
	}
	if l.next == nil {
		l.next = &answer{done: make(chan struct{})}
	}
	a := l.next
	if !l.asking {
		l.asking = true
		// It is not this caller's alone, so it does not end with this caller.
		go r.ask(context.WithoutCancel(ctx), l)
	}
	r.mu.Unlock()
	select {
	case <-a.done:
		return a.revisions, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ask asks until nobody waits.
func (r *revisions) ask(ctx context.Context, l *line) {
	for {
		r.mu.Lock()
		a := l.next
		l.next = nil
		if a == nil {
			l.asking = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		bounded, cancel := context.WithTimeout(ctx, refreshTimeout)
		a.revisions, a.err = r.store.Revisions(bounded, l.sources)
		cancel()
		close(a.done)
	}
}
