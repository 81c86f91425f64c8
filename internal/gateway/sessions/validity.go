package sessions

import (
	"net/http"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
)

// validity ends a stream when the tokens of its client have expired. The zero value never
// ends one: there is no authentication.
type validity struct {
	end func() // ends the stream; set before the session is in the table

	mu    sync.Mutex
	until time.Time
	timer *time.Timer
}

// extend accounts for the token of the request r of the session's principal.
func (v *validity) extend(r *http.Request) {
	c := exchange.CallerOf(r.Context())
	if c == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if !c.Expires.After(v.until) {
		return
	}
	v.until = c.Expires
	if v.timer == nil {
		v.timer = time.AfterFunc(time.Until(v.until), v.end)
		return
	}
	v.timer.Reset(time.Until(v.until))
}

func (v *validity) stop() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.timer != nil {
		v.timer.Stop()
	}
}
