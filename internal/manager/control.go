package manager

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/toolhaven/toolhaven/internal/egress"
	"github.com/toolhaven/toolhaven/internal/toolset"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// The control protocol is HTTP over the owner's Unix socket:
//
//	GET  /status  the Status, as JSON
//	GET  /spec    the Spec the owner runs, as JSON
//	GET  /tools   the toolset.List of the server, as JSON; 502 when it cannot be read
//	POST /tools/accept  remembers the tools as they are now; the changes, as JSON; or 502
//	GET  /connections?after=N  the egress.Records of an isolated server after change N, as
//	      JSON; 502 when it is not isolated
//	POST /stop    202; the owner then ends and lets go of its lock
//
// Every response carries the owner's nonce in the header Thv-Nonce.
const nonceHeader = "Thv-Nonce"

// ErrUnresponsive: a process holds the workload but does not answer.
var ErrUnresponsive = errors.New("its gateway does not answer")

// controlTimeout bounds one request to an owner, which responds at once. toolsTimeout is for
// a request that its server answers.
const (
	controlTimeout = 3 * time.Second
	toolsTimeout   = 40 * time.Second
)

// maxControl bounds one response of an owner, in bytes.
const maxControl = 32 << 20

// Status requests the workload's status from its owner.
func (o *Owner) Status(ctx context.Context) (*workload.Status, error) {
	var st workload.Status
	if err := o.call(ctx, controlTimeout, http.MethodGet, "/status", &st); err != nil {
		return nil, err
	}
	st.PID, st.Nonce = o.PID, o.Nonce
	return &st, nil
}

// Spec requests the Spec that the owner runs.
func (o *Owner) Spec(ctx context.Context) (*workload.Spec, error) {
	var spec workload.Spec
	if err := o.call(ctx, controlTimeout, http.MethodGet, "/spec", &spec); err != nil {
		return nil, err
	}
	return &spec, nil
}

// Tools requests all tools of the workload's server.
func (o *Owner) Tools(ctx context.Context) (*toolset.List, error) {
	var list toolset.List
	if err := o.call(ctx, toolsTimeout, http.MethodGet, "/tools", &list); err != nil {
		return nil, err
	}
	return &list, nil
}

// AcceptTools requests the owner to remember the tools as they are now, and returns what had
// changed.
func (o *Owner) AcceptTools(ctx context.Context) ([]toolset.Change, error) {
	var changes []toolset.Change
	if err := o.call(ctx, toolsTimeout, http.MethodPost, "/tools/accept", &changes); err != nil {
		return nil, err
	}
	return changes, nil
}

// Connections requests the connections of an isolated server that changed after a change.
func (o *Owner) Connections(ctx context.Context, after uint64) ([]egress.Record, error) {
	var records []egress.Record
	if err := o.call(ctx, controlTimeout, http.MethodGet, "/connections?after="+strconv.FormatUint(after, 10), &records); err != nil {
		return nil, err
	}
	return records, nil
}

// Stop requests the owner to end. It returns when the owner has accepted that.
func (o *Owner) Stop(ctx context.Context) error {
	return o.call(ctx, controlTimeout, http.MethodPost, "/stop", nil)
}

func (o *Owner) call(ctx context.Context, timeout time.Duration, method, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", o.socket)
		},
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://owner"+path, nil)
	if err != nil {
		return err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("workload %q: %w (%v)", o.Name, ErrUnresponsive, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxControl))
	if err != nil {
		return fmt.Errorf("workload %q: %w (%v)", o.Name, ErrUnresponsive, err)
	}
	var fault controlFault
	if resp.StatusCode == http.StatusBadGateway && json.Unmarshal(body, &fault) == nil {
		return fmt.Errorf("workload %q: %s", o.Name, fault.Error)
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("workload %q: its gateway refused %s %s: %s", o.Name, method, path, bytes.TrimSpace(body))
	}
	if o.Nonce != "" && resp.Header.Get(nonceHeader) != o.Nonce {
		return fmt.Errorf("workload %q: the process that answers at %s is not its gateway", o.Name, o.socket)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(body, into)
}

// Control is what an owner's control socket serves.
type Control struct {
	Nonce  string
	Spec   *workload.Spec
	Status func() *workload.Status
	Tools  func(context.Context) (*toolset.List, error)
	// AcceptTools remembers the tools as they are and returns what had changed.
	AcceptTools func(context.Context) ([]toolset.Change, error)
	// Connections returns the connections that changed after a change; an error if the
	// server is not isolated.
	Connections func(after uint64) ([]egress.Record, error)
	// Stop is called once for every request to stop and must not block.
	Stop func()
}

// controlFault is the body of a response with an error.
type controlFault struct {
	Error string `json:"error"`
}

// Handler serves the control protocol.
func (c Control) Handler() http.Handler {
	answer := func(w http.ResponseWriter, code int, v any) {
		w.Header().Set(nonceHeader, c.Nonce)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(v) // fails when the caller has gone
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, c.Status()) })
	mux.HandleFunc("GET /spec", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, c.Spec) })
	outcome := func(w http.ResponseWriter, v any, err error) {
		if err != nil {
			answer(w, http.StatusBadGateway, controlFault{err.Error()})
			return
		}
		answer(w, http.StatusOK, v)
	}
	mux.HandleFunc("GET /tools", func(w http.ResponseWriter, r *http.Request) {
		list, err := c.Tools(r.Context())
		outcome(w, list, err)
	})
	mux.HandleFunc("POST /tools/accept", func(w http.ResponseWriter, r *http.Request) {
		changes, err := c.AcceptTools(r.Context())
		outcome(w, changes, err)
	})
	mux.HandleFunc("GET /connections", func(w http.ResponseWriter, r *http.Request) {
		after, err := strconv.ParseUint(r.FormValue("after"), 10, 64)
		if err != nil {
			http.Error(w, "after is not a number", http.StatusBadRequest)
			return
		}
		records, err := c.Connections(after)
		outcome(w, records, err)
	})
	mux.HandleFunc("POST /stop", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusAccepted, struct{}{})
		c.Stop()
	})
	return mux
}
