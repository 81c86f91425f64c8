package authserver

import (
	"fmt"
	"testing"

	"golang.org/x/time/rate"
)

// One sender has one limit, and takes nothing from another's.
func TestLimiter_ByAddress(t *testing.T) {
	t.Parallel()
	l := limiter{every: rate.Limit(1e-9), burst: 2}
	for i, c := range []struct {
		address string
		want    bool
	}{
		{"192.0.2.1", true}, {"192.0.2.1", true}, {"192.0.2.1", false},
		{"192.0.2.2", true},
		{"2001:db8::1", true}, {"2001:db8::2", true}, {"2001:db8::3", false}, // one /64
		{"2001:db8:0:1::1", true},
		{"a socket", true}, {"a socket", true}, {"a socket", false},
	} {
		if got := l.allow(c.address); got != c.want {
			t.Errorf("request %d, from %s: %t", i, c.address, got)
		}
	}
}

// Senders of many addresses do not fill the memory.
func TestLimiter_Bounded(t *testing.T) {
	t.Parallel()
	l := limiter{every: rate.Limit(1e-9), burst: 1}
	for i := range 3 * limitedAddresses {
		if !l.allow(fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)) {
			t.Fatalf("the first request of address %d is refused", i)
		}
	}
	if n := len(l.clients); n > limitedAddresses {
		t.Errorf("%d addresses are remembered", n)
	}
}
