package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

func TestAServerIsToldThatACallWasGivenUpBeforeItsSessionEnds(t *testing.T) {
	var mu sync.Mutex
	heard := map[string][]string{} // by session
	sessions := 0
	called := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if r.Method == http.MethodPost {
			_ = json.NewDecoder(r.Body).Decode(&m)
		}
		mu.Lock()
		session := r.Header.Get(mcp.HeaderSessionID)
		if m.Method == "initialize" {
			sessions++
			session = strconv.Itoa(sessions)
		}
		heard[session] = append(heard[session], strings.TrimSpace(r.Method+" "+m.Method))
		mu.Unlock()
		w.Header().Set(mcp.HeaderSessionID, session)
		w.Header().Set("Content-Type", "application/json")
		switch m.Method {
		case "initialize":
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`)
		case "tools/call":
			called <- struct{}{}
			<-r.Context().Done()
		case "tools/list":
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{"tools":[]}}`)
		default:
			if r.Method == http.MethodGet {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	defer server.Close()
	defer server.CloseClientConnections()
	judged := 0
	for range 40 { // who comes first was a matter of luck
		app := testApp(t)
		app.In, app.Out, app.Err = strings.NewReader(""), io.Discard, io.Discard
		ctx, cancel := context.WithCancel(t.Context())
		root := Root(app)
		root.SetArgs([]string{"mcp", "call", server.URL, "slow", "--protocol", "session"})
		done := make(chan error, 1)
		go func() { done <- root.ExecuteContext(ctx) }()
		<-called
		began := time.Now()
		cancel()
		if err := <-done; exitCode(err) != exitInterrupted {
			t.Errorf("%v", err)
		}
		if time.Since(began) >= partingTime {
			continue // it waits no longer, and on a busy machine that may be too short
		}
		judged++
		mu.Lock()
		got := heard[strconv.Itoa(sessions)]
		told, ended := slices.Index(got, "POST notifications/cancelled"), slices.Index(got, "DELETE")
		if told < 0 || ended < told {
			t.Errorf("the server heard %q", got)
		}
		mu.Unlock()
		if t.Failed() {
			return
		}
	}
	if judged == 0 {
		t.Error("it always waited for as long as it may")
	}
}
