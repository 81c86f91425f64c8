//go:build hostile

package hostile

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway/backend"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// As [TestServersThatDoWrong], over HTTP+SSE.
func TestSSEServersThatDoWrong(t *testing.T) {
	noLeaks(t)
	s := &SSE{}
	g := gatewayOf(t, backend.NewSSE(backend.SSEConfig{URL: serve(t, s), Transport: &http.Transport{MaxResponseHeaderBytes: mcp.MaxHeader}}))
	sufferAll(t, serve(t, g), false, sseWants())
}

func sseWants() map[string]string {
	wants := all(func(f Fault) string {
		if f.Say == nil {
			return ""
		}
		return f.Want
	})
	for name, f := range EventFaults() {
		wants[name] = f.Want
	}
	for name, f := range PostFaults() {
		wants[name] = f.Want
	}
	return wants
}

// A server names where its messages are POSTed to. Wherever else that is than at
// its own origin, nothing is ever sent there (MCP 2024-11-05, Transports, HTTP
// with SSE).
func TestEndpointsElsewhere(t *testing.T) {
	var strayed atomic.Int64
	trap := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strayed.Add(1) }))
	defer trap.Close()
	elsewhere := strings.TrimPrefix(trap.URL, "http://")
	for _, row := range []struct {
		endpoint string // {S} is path and session, {H} host and port of the server, {T} of the trap
		want     string
	}{
		{"{S}", Good},
		{" {S} ", Good},
		{"http://{H}{S}", Good},
		{"HTTP://{H}{S}", Good},
		{"//{H}{S}", Good},
		{"http://{H}{S}#fragment", Good},
		{"?{session}", Good},
		{"messages?{session}", Good},
		{"/../../../messages?{session}", Good},
		{"/%2e%2e/%2e%2e/messages?{session}", Good},
		{"/./a/..//messages?{session}", Good},
		{"/http://{T}{S}", Good}, // a path

		{"http://{T}{S}", Bad},
		{"//{T}{S}", Bad},
		{"https://{H}{S}", Bad},
		{"ws://{H}{S}", Bad},
		{"ftp://{H}{S}", Bad},
		{"file:///etc/passwd", Bad},
		{"javascript:alert(1)", Bad},
		{"data:,{S}", Bad},
		{"http:{S}", Bad},
		{"http:///messages?{session}", Bad},
		{"http://user@{H}{S}", Bad},
		{"http://user:secret@{H}{S}", Bad},
		{"http://@{H}{S}", Bad},
		{"http://{H}@{T}{S}", Bad},
		{"http://{T}#@{H}{S}", Bad},
		{"http://{T}?@{H}{S}", Bad},
		{`http://{T}\@{H}{S}`, Bad},
		{`http:\\{T}{S}`, Bad},
		{"http://{H}.evil.example/{S}", Bad},
		{"http://localhost.{S}", Bad},
		{"http://[::1]{S}", Bad},
		{"http://127.0.0.1{S}", Bad},         // another port
		{"http://0177.0.0.1:{port}{S}", Bad}, // the same address, but not to everybody
		{"http://2130706433:{port}{S}", Bad}, //
		{"http://127.0.0.1:0{port}{S}", Bad}, //
		{"http://127.0.0.1:{port}:{port}{S}", Bad},
		{"http://127.0.0.1:99999{S}", Bad},
		{"http://169.254.169.254/latest", Bad},
		{"http://{H}%00{S}", Bad},
		{"{S}\x00", Bad},
		{"{S}\x7f", Bad},
		{"%zz", Bad},
		{"/messages\ndata: ?{session}", Bad},
		{"http://{T}/" + strings.Repeat("x", 1<<20), Bad},
		{strings.Repeat("x", mcp.MaxEvent+1), Bad},
	} {
		t.Run(fmt.Sprintf("%.50q", row.endpoint), func(t *testing.T) {
			noLeaks(t)
			s := &SSE{Begin: func(w http.ResponseWriter, r *http.Request, own string) bool {
				_, session, _ := strings.Cut(own, "?")
				_, port, _ := strings.Cut(r.Host, ":")
				return Names(w, strings.NewReplacer("{session}", session, "{S}", own, "{port}", port, "{H}", r.Host, "{T}", elsewhere).Replace(row.endpoint))
			}}
			g := gatewayOf(t, backend.NewSSE(backend.SSEConfig{URL: serve(t, s), Transport: &http.Transport{}}))
			url := serve(t, g)
			for _, modern := range []bool{false, true} {
				c := clientOf(t, url, modern)
				err := tryOnce(t, c)
				if (err == nil) != (row.want == Good) {
					t.Errorf("modern client %v: %v", modern, err)
				}
				if err != nil && (strings.Contains(err.Error(), "secret") || len(err.Error()) > 1000) {
					t.Errorf("modern client %v is told %.2000s", modern, err)
				}
			}
			if n := s.Posted.Load(); row.want == Bad && n != 0 {
				t.Errorf("%d messages were sent", n)
			}
		})
	}
	if n := strayed.Load(); n != 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
}

// tryOnce opens a session, if there is such a thing, and calls a good tool.
func tryOnce(t *testing.T, c *Client) error {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := c.Open(ctx); err != nil {
		return err
	}
	n := nonce()
	o, err := c.Call(ctx, mcp.StringID("x"), "good", fmt.Sprintf(`{"nonce":%q}`, n), "")
	if err == nil {
		err = judge(c, o, nil, n, Good, false)
	}
	return errors.Join(err, c.Close(ctx))
}

// Streams that do not begin as they should, or never. Who waits is told in time;
// the clock is the test's own.
func TestStreamsThatNeverBegin(t *testing.T) {
	write := func(text string, on bool) func(http.ResponseWriter, *http.Request, string) bool {
		return func(w http.ResponseWriter, _ *http.Request, endpoint string) bool {
			_, _ = w.Write([]byte(strings.ReplaceAll(text, "ENDPOINT", endpoint)))
			_ = http.NewResponseController(w).Flush()
			return on
		}
	}
	forever := func(chunk string, pause time.Duration) func(http.ResponseWriter, *http.Request, string) bool {
		return func(w http.ResponseWriter, r *http.Request, _ string) bool {
			for {
				if _, err := w.Write([]byte(chunk)); err != nil || r.Context().Err() != nil {
					return false
				}
				_ = http.NewResponseController(w).Flush()
				time.Sleep(pause)
			}
		}
	}
	status := func(code int) func(http.ResponseWriter, *http.Request, string) bool {
		return func(w http.ResponseWriter, _ *http.Request, _ string) bool {
			w.Header().Set("Location", "http://169.254.169.254/")
			http.Error(w, strings.Repeat("no ", 100_000), code)
			return false
		}
	}
	const endpoint = "event: endpoint\ndata: ENDPOINT\n\n"
	for name, row := range map[string]struct {
		begin func(http.ResponseWriter, *http.Request, string) bool
		want  string
	}{
		"never an endpoint":                          {write(": hello\n\n", true), Bad},
		"nothing at all":                             {func(http.ResponseWriter, *http.Request, string) bool { return true }, Bad},
		"headers only":                               {write("", true), Bad},
		"ends at once":                               {write("", false), Bad},
		"ends in the event":                          {write("event: endpoint\ndata: ENDPOINT\n", false), Bad},
		"stays in the event":                         {write("event: endpoint\ndata: ENDPOINT\n", true), Bad},
		"an endpoint for ever":                       {forever("event: endpoint\ndata: "+strings.Repeat("/x", 1<<15)+"\n", 0), Bad},
		"a line for ever":                            {forever(strings.Repeat("x", 1<<16), 0), Bad},
		"comments for ever":                          {forever(":\n\n", time.Millisecond), Bad},
		"messages for ever":                          {forever("data: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n", time.Millisecond), Bad},
		"no event's name":                            {write("data: ENDPOINT\n\n", true), Bad},
		"another event's name":                       {write("event: Endpoint\ndata: ENDPOINT\n\n", true), Bad},
		"an endpoint without end":                    {write("event: endpoint\n\n", true), Bad},
		"two endpoints":                              {write(endpoint+"event: endpoint\ndata: http://169.254.169.254/\n\n", true), Good},
		"two endpoints, wrong first":                 {write("event: endpoint\ndata: http://169.254.169.254/\n\n"+endpoint, true), Bad},
		"an answer before":                           {write("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n"+endpoint, true), Good},
		"what is no message before":                  {write("data: {{{\n\n"+endpoint, true), Good},
		"what is no message after":                   {write(endpoint+"data: {{{\n\n", true), Bad},
		"an answer to initialize before it is asked": {write(endpoint+"data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n", true), Either},
		"CR":         {write("event: endpoint\rdata: ENDPOINT\r\r", true), Good},
		"a BOM":      {write("\ufeff"+endpoint, true), Good},
		"redirected": {status(307), Bad},
		"401":        {status(401), Bad},
		"404":        {status(404), Bad},
		"500":        {status(500), Bad},
		"JSON": {func(w http.ResponseWriter, _ *http.Request, own string) bool {
			w.Header().Set("Content-Type", mcp.TypeJSON)
			return Names(w, own)
		}, Bad},
		"cut": {func(http.ResponseWriter, *http.Request, string) bool { panic(http.ErrAbortHandler) }, Bad},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &SSE{Begin: row.begin}
				t.Cleanup(func() { time.Sleep(time.Second) }) // for the server to notice
				g := gatewayOf(t, backend.NewSSE(backend.SSEConfig{URL: "http://server/sse", Transport: Wire{s}}))
				for _, modern := range []bool{false, true} {
					c := &Client{URL: "http://localhost/mcp", HTTP: &http.Client{Transport: Wire{g}}, Modern: modern}
					began := time.Now()
					err := tryOnce(t, c)
					// A modern client's call may come after a question for the tools.
					if took := time.Since(began); took > 90*time.Second {
						t.Errorf("modern client %v was told after %s", modern, took)
					}
					if row.want != Either && (err == nil) != (row.want == Good) {
						t.Errorf("modern client %v: %v", modern, err)
					}
				}
			})
		})
	}
}
