package catalog

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// slow is a store whose answers wait to be let go.
type slow struct {
	store.Store
	asked int
	let   chan int64
}

func (s *slow) Revisions(context.Context, []string) ([]store.Revision, error) {
	s.asked++
	return []store.Revision{{Number: <-s.let}}, nil
}

func TestQuestionsAtTheSameTimeAreOneButNeverAnEarlierOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{let: make(chan int64)}
		r := &revisions{store: s}
		ask := func(want int64) {
			go func() {
				got, err := r.of(t.Context(), []string{"a"})
				if err != nil || got[0].Number != want {
					t.Errorf("got %v, %v; want %d", got, err, want)
				}
			}()
			synctest.Wait()
		}
		ask(1)
		for range 20 { // while the first is out
			ask(2)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.of(ended, []string{"a"}); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller who left got %v", err)
		}
		s.let <- 1
		synctest.Wait()
		ask(3) // while the second is out
		s.let <- 2
		s.let <- 3
		synctest.Wait()
		if s.asked != 3 {
			t.Errorf("22 questions were %d", s.asked)
		}
	})
}
