package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/seal"
)

// replicaOf starts a gateway with the key that passes requests on by forward.
func replicaOf(t *testing.T, key []byte, self string, forward func(context.Context, http.ResponseWriter, *http.Request, string) bool) (*Gateway, *httptest.Server) {
	t.Helper()
	return serve(t, newFakeBackend(), func(c *Config) {
		c.Key, c.Replicas = key, &Replicas{Self: self, Forward: forward}
	}, nil)
}

func TestReplicas_PassSessionsOn(t *testing.T) {
	key := seal.NewKey()
	_, holder := replicaOf(t, key, "10.0.0.1:8081", func(context.Context, http.ResponseWriter, *http.Request, string) bool {
		t.Error("the holder passes its own session on")
		return false
	})
	id := newWire(t, holder).initialize(mcp.V20251125).session
	var to []string
	present := true
	other, otherServer := replicaOf(t, key, "10.0.0.2:8081", func(_ context.Context, w http.ResponseWriter, _ *http.Request, address string) bool {
		to = append(to, address)
		if present {
			w.WriteHeader(http.StatusTeapot)
		}
		return present
	})
	send := func(h http.Handler, method string, ids ...string) int {
		r := httptest.NewRequest(method, otherServer.URL+"/mcp", http.NoBody)
		r.Header.Set("Accept", "application/json, text/event-stream")
		for _, id := range ids {
			r.Header.Add(mcp.HeaderSessionID, id)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		to = nil
		if got := send(other, method, id); got != http.StatusTeapot || len(to) != 1 || to[0] != "10.0.0.1:8081" {
			t.Errorf("%s: status %d, passed on to %v", method, got, to)
		}
	}
	to = nil
	forged := []byte(id)
	forged[len(forged)/2] ^= 1
	for what, status := range map[string]int{
		"a request from a replica is served here":  send(other.Peer(), http.MethodDelete, id),
		"two ids are an error":                     send(other, http.MethodDelete, id, id),
		"an id of another gateway is not followed": send(other, http.MethodDelete, string(forged)),
	} {
		if len(to) > 0 || status == http.StatusTeapot {
			t.Errorf("%s: status %d, passed on to %v", what, status, to)
		}
	}
	present = false
	if got := send(other, http.MethodDelete, id); len(to) != 1 || got == http.StatusTeapot {
		t.Errorf("when the holder is gone: status %d, attempts %v", got, to)
	}
}
