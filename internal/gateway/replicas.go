package gateway

import (
	"context"
	"net/http"

	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Replicas are the other gateways of one workload, behind the same address. They have the same
// [Config.Key] and name.
type Replicas struct {
	// Self is the address at which they reach this one; session ids have it.
	Self string
	// Forward passes a request on to the replica at an address, and its response back, until
	// ending ends. It returns false when there is none, and then has read and written nothing.
	Forward func(ending context.Context, w http.ResponseWriter, r *http.Request, address string) bool
}

func (r *Replicas) self() string {
	if r == nil {
		return ""
	}
	return r.Self
}

// Peer serves requests that other replicas pass on. The caller has verified that they come
// from one.
func (g *Gateway) Peer() http.Handler { return g.peer }

// peerKey is the context key of requests from replicas.
type peerKey struct{}

func ofPeer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), peerKey{}, true)))
	})
}

// passedOn passes a request of a session that another replica has on to that replica; false
// when it is to be served here. A request that was passed on is not passed on again. ids are
// the session ids that the request has: the error for two is the front's.
func (g *Gateway) passedOn(w http.ResponseWriter, r *http.Request, ids []string) bool {
	if g.cfg.Replicas == nil || len(ids) != 1 || r.Method == http.MethodOptions || r.Context().Value(peerKey{}) != nil {
		return false
	}
	address := g.store.Holder(ids[0], httpd.Principal(r))
	if address == "" {
		return false
	}
	ending := g.core.Draining // of a stream that has no end of its own
	if r.Method != http.MethodGet {
		if !g.core.Calls.Enter() {
			g.core.Fail(w, http.StatusServiceUnavailable, mcp.ID{}, httpd.ErrStopping)
			return true
		}
		defer g.core.Calls.Leave()
		ending = g.core.Context
	}
	return g.cfg.Replicas.Forward(ending, w, r, address)
}
