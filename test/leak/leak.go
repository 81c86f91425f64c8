// Package leak fails a test that leaves goroutines behind. A goroutine that ends by
// itself may need a while for it on a busy machine, longer than goleak waits: here it
// has a minute, and one that stays is found all the same.
package leak

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const patience = time.Minute

// None fails the test if goroutines started after it are left at its end. Call it
// first.
func None(t testing.TB) {
	t.Helper()
	now := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		if err := left(now); err != nil {
			t.Error(err)
		}
	})
}

// Main runs a package's tests, which fail if goroutines are left when all have passed.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := left(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// left is an error that shows what stays.
func left(options ...goleak.Option) error {
	end := time.Now().Add(patience)
	for {
		// Find itself looks twenty times, for a second or two.
		if err := goleak.Find(options...); err == nil || time.Now().After(end) {
			return err
		}
	}
}
