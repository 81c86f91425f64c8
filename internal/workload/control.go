package workload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// The control protocol is HTTP over the owner's Unix socket:
//
//	GET  /status  the Status, as JSON
//	GET  /spec    the Spec the owner runs, as JSON
//	POST /stop    202; the owner then ends and lets go of its lock
//
// Every response carries the owner's nonce in the header Thv-Nonce.
const nonceHeader = "Thv-Nonce"

// ErrUnresponsive: a process holds the workload but does not answer.
var ErrUnresponsive = errors.New("its gateway does not answer")

// controlTimeout bounds one request to an owner, which responds at once.
const controlTimeout = 3 * time.Second

// Status requests the workload's status from its owner.
func (o *Owner) Status(ctx context.Context) (*Status, error) {
	var st Status
	if err := o.call(ctx, http.MethodGet, "/status", &st); err != nil {
		return nil, err
	}
	st.PID, st.Nonce = o.PID, o.Nonce
	return &st, nil
}

// Spec requests the Spec that the owner runs.
func (o *Owner) Spec(ctx context.Context) (*Spec, error) {
	var spec Spec
	if err := o.call(ctx, http.MethodGet, "/spec", &spec); err != nil {
		return nil, err
	}
	return &spec, nil
}

// Stop requests the owner to end. It returns when the owner has accepted that.
func (o *Owner) Stop(ctx context.Context) error {
	return o.call(ctx, http.MethodPost, "/stop", nil)
}

func (o *Owner) call(ctx context.Context, method, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
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
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil {
		return fmt.Errorf("workload %q: %w (%v)", o.Name, ErrUnresponsive, err)
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

// ControlHandler serves the control protocol for an owner. stop is called once
// for every request to stop and must not block.
func ControlHandler(nonce string, spec *Spec, status func() *Status, stop func()) http.Handler {
	answer := func(w http.ResponseWriter, code int, v any) {
		w.Header().Set(nonceHeader, nonce)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(v) // fails when the caller has gone
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, status()) })
	mux.HandleFunc("GET /spec", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, spec) })
	mux.HandleFunc("POST /stop", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusAccepted, struct{}{})
		stop()
	})
	return mux
}
