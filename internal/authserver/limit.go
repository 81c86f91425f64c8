package authserver

import (
	"net/netip"
	"sync"

	"golang.org/x/time/rate"
)

// limiter bounds requests by address. A forgotten address starts anew.
type limiter struct {
	every rate.Limit
	burst int

	mu      sync.Mutex
	clients map[string]*rate.Limiter
}

// limitedAddresses is how many addresses are remembered.
const limitedAddresses = 4096

func (l *limiter) allow(address string) bool {
	address = network(address)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.clients) >= limitedAddresses {
		l.forget()
	}
	if l.clients == nil {
		l.clients = map[string]*rate.Limiter{}
	}
	if l.clients[address] == nil {
		l.clients[address] = rate.NewLimiter(l.every, l.burst)
	}
	return l.clients[address].Allow()
}

// forget removes the addresses that may send a whole burst again, or all if there are none.
func (l *limiter) forget() {
	for address, c := range l.clients {
		if c.Tokens() >= float64(l.burst) {
			delete(l.clients, address)
		}
	}
	if len(l.clients) >= limitedAddresses {
		clear(l.clients)
	}
}

// network is what an address counts as: one sender has a whole /64 of IPv6 (RFC 6177 section
// 2).
func network(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.Unmap().Is4() {
		return address
	}
	prefix, err := ip.WithZone("").Prefix(64)
	if err != nil {
		return address
	}
	return prefix.String()
}
