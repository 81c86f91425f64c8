// Package leak fails a test that leaves goroutines behind. A goroutine that ends by
// itself may take longer on a busy machine than goleak waits: it has a minute here.
package leak

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is the time that goroutines have to end.
const patience = time.Minute

// None fails the test if goroutines started after this call are left at its end.
// It cannot be used by parallel tests: the goroutines of one would count as left by
// the other. Their package uses [Main] or [Run].
func None(t testing.TB) {
	t.Helper()
	now := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		if err := left(now); err != nil {
			t.Error(err)
		}
	})
}

// Main runs a package's tests and exits. The exit code is not zero if goroutines
// are left after all tests have passed.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run is [Main] for a TestMain that has to clean up: it returns the exit code.
func Run(m *testing.M) int {
	code := m.Run()
	if code != 0 {
		return code
	}
	if err := left(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// left returns an error that shows the goroutines that do not end.
func left(options ...goleak.Option) error {
	end := time.Now().Add(patience)
	for {
		// Find itself looks twenty times, for a second or two.
		if err := goleak.Find(options...); err == nil || time.Now().After(end) {
			return err
		}
	}
}
