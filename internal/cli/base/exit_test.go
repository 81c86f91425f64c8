package base

import (
	"errors"
	"testing"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/manager"
)

func TestExitCode(t *testing.T) {
	for err, want := range map[error]int{
		nil: ExitOK, errors.New("x"): ExitFailure, Usage("x"): ExitUsage, container.ErrUnavailable: ExitNoEngine,
		manager.ErrNotFound: ExitNotFound, &Reported{manager.ErrNotFound}: ExitNotFound,
	} {
		if got := ExitCode(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
}
