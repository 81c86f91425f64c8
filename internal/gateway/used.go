package gateway

import (
	"sync"
	"time"
)

// usedOnce remembers what may be used once, for as long as it would be good. Its
// memory is bounded: two generations, of which the older is forgotten as a whole.
// Then nothing is good any more that was issued when the newest of the forgotten
// was, or before, so that nothing is ever good twice. A gateway that starts knows
// nothing of what one before it with the same key took, so its floor is its start.
// Below the floor are also some that nobody used yet: a client that is refused
// makes its request again.
type usedOnce struct {
	mu            sync.Mutex
	young, old    generation
	youngSince    time.Time
	floor         int64 // what was issued then or before is refused; it only rises
	maxGeneration int
}

type generation struct {
	nonces map[string]struct{}
	newest int64 // when the newest was issued
}

func (g *generation) has(nonce string) bool { _, ok := g.nonces[nonce]; return ok }

// take uses the nonce up, which was issued then (Unix microseconds), or says why
// it is not good.
func (u *usedOnce) take(nonce string, issued int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case issued <= u.floor:
		return errStateExpired
	case u.young.has(nonce) || u.old.has(nonce):
		return errState
	}
	if now := time.Now(); u.young.nonces == nil || len(u.young.nonces) >= u.maxGeneration || now.Sub(u.youngSince) > stateTime {
		u.floor = max(u.floor, u.old.newest)
		u.old, u.young, u.youngSince = u.young, generation{nonces: map[string]struct{}{}}, now
	}
	u.young.nonces[nonce] = struct{}{}
	u.young.newest = max(u.young.newest, issued)
	return nil
}
