package backend

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// beginning is a server that has begun a session, and answers initialize when told.
func beginning(t *testing.T) (srv string, s *script, begun, answer chan struct{}) {
	t.Helper()
	s = newScript(nil)
	begun, answer = make(chan struct{}, 10), make(chan struct{})
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.Header.Get(mcp.HeaderSessionID) == "" {
			body, err := io.ReadAll(r.Body) // or its end would not be noticed
			if err != nil {
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			begun <- struct{}{}
			select {
			case <-answer:
			case <-r.Context().Done():
				return
			}
		}
		s.ServeHTTP(w, r)
	})).URL, s, begun, answer
}

// leaves is a client that leaves when the server has begun its session, and what it gets.
func leaves(t *testing.T, b exchange.Backend, begun <-chan struct{}) error {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	opened := make(chan error, 1)
	go func() {
		_, err := b.Open(ctx, backendtest.FullClient(), backendtest.NewPeer())
		opened <- err
	}()
	<-begun
	leave()
	return <-opened
}

// A session that a server has begun when its client leaves is ended there, though only
// the answer, which comes later, says which it is.
func TestASessionWhoseClientLeftWhileItBeganIsEnded(t *testing.T) {
	t.Parallel()
	url, s, begun, answer := beginning(t)
	b := closeAfter(t, streamableBackend(url))
	if err := leaves(t, b, begun); !errors.Is(err, context.Canceled) {
		t.Errorf("who leaves gets %v", err)
	}
	close(answer)
	select {
	case <-s.deleted:
	case <-backendtest.TestContext(t).Done():
		t.Error("the server keeps the session")
	}
}

func TestTheEndDoesNotWaitForASessionThatBegins(t *testing.T) {
	t.Parallel()
	url, _, begun, _ := beginning(t)
	b := streamableBackend(url)
	_ = leaves(t, b, begun)
	began := time.Now()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took >= wire.FarewellTimeout {
		t.Errorf("it took %s", took)
	}
}
