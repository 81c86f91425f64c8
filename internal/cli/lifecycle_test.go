package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/clitest"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// waitForState waits until the workload is in that state.
func waitForState(t *testing.T, app *base.App, name string, want workload.State) {
	t.Helper()
	var st workload.Status
	for deadline := time.Now().Add(clitest.LongEnough); ; time.Sleep(20 * time.Millisecond) {
		if err := json.Unmarshal([]byte(clitest.Must(t, app, "status", name, "-o", "json")), &st); err != nil {
			t.Fatal(err)
		}
		if st.State == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is %s (%s), want %s", name, st.State, st.Reason, want)
		}
	}
}

func statusOf(t *testing.T, app *base.App, name string) (st workload.Status) {
	t.Helper()
	if err := json.Unmarshal([]byte(clitest.Must(t, app, "status", name, "-o", "json")), &st); err != nil {
		t.Fatal(err)
	}
	return st
}

// waitForRun waits until the workload is there and running.
func waitForRun(t *testing.T, app *base.App, name string) {
	t.Helper()
	for deadline := time.Now().Add(clitest.LongEnough); ; time.Sleep(20 * time.Millisecond) {
		if stdout, _, _ := clitest.Run(t, app, "status", name, "-o", "json"); strings.Contains(stdout, `"state": "running"`) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s never runs", name)
		}
	}
}

// remote is a server at a URL that can be down: what is before it answers 503 then.
type remote struct {
	url  string
	down atomic.Bool
}

func newRemote(t *testing.T) *remote {
	t.Helper()
	r := &remote{}
	target, err := url.Parse(strings.TrimSuffix(clitest.RemoteServer(t, nil), "/mcp"))
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if r.down.Load() {
			http.Error(w, "down for a test", http.StatusServiceUnavailable)
			return
		}
		proxy.ServeHTTP(w, req)
	}))
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
	})
	r.url = front.URL + "/mcp"
	return r
}

// A server may require a token for every request but initialize. run logs in, or says why it
// cannot, before the workload exists.
func TestRun_LoginBehindInitialize(t *testing.T) {
	app := clitest.App(t)
	var initialized atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case !bytes.Contains(body, []byte(`"initialize"`)):
			w.Header().Set("WWW-Authenticate", `Bearer scope="read"`)
			w.WriteHeader(http.StatusUnauthorized)
		default:
			initialized.Add(1)
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`,
				regexp.MustCompile(`"id": ?([^,}]+)`).FindSubmatch(body)[1])
		}
	}))
	t.Cleanup(s.Close)
	_, stderr, code := clitest.Run(t, app, "run", s.URL+"/mcp", "--name", "one")
	if code != base.ExitFailure || !strings.Contains(stderr, "log in to "+s.URL+"/mcp: it answers 401 Unauthorized and does not say where to sign in") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if n := initialized.Load(); n != 1 {
		t.Errorf("the server received initialize %d times", n)
	}
	if got := clitest.Must(t, app, "list"); strings.Contains(got, "one") {
		t.Errorf("list prints %q", got)
	}
}

// slowCalls is a remote server whose calls wait to be let go.
func slowCalls(t *testing.T) (url string, called <-chan struct{}, let func()) {
	t.Helper()
	came, gone := make(chan struct{}, 16), make(chan struct{})
	url = clitest.RemoteServer(t, func(r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(`"tools/call"`)) {
			came <- struct{}{}
			select {
			case <-gone:
			case <-r.Context().Done():
			}
		}
	})
	return url, came, func() { close(gone) }
}

func TestInterrupt_DuringStop(t *testing.T) {
	app := clitest.LivingApp(t)
	url, called, let := slowCalls(t)
	clitest.Must(t, app, "run", url, "--name", "one")
	call := clitest.Start(t, "mcp", "call", "one", "echo", "--arg", "text=hi")
	select {
	case <-called:
	case <-time.After(clitest.LongEnough):
		t.Fatal("the server was never called")
	}
	rm := clitest.Start(t, "rm", "one")
	rm.Says(t, "waiting for one to stop (calls have 10 s to end")
	rm.Interrupt(t)
	rm.Says(t, `Error: interrupted; workload "one" is stopping, and continues to stop, and it is not removed`)
	rm.Ends(t, base.ExitInterrupted)
	waitForState(t, app, "one", workload.Stopping)
	let()
	call.Ends(t, base.ExitOK)
	waitForState(t, app, "one", workload.Stopped)
}

func TestStartTimeout_Invalid(t *testing.T) {
	app := clitest.LivingApp(t)
	url := clitest.RemoteServer(t, nil)
	clitest.Must(t, app, "run", url, "--name", "one")
	for _, value := range []string{"abc", "-1s", "0s", "90"} {
		t.Setenv(base.EnvStartTimeout, value)
		want := fmt.Sprintf("Error: THV_START_TIMEOUT is %q; it must be a time above zero, such as 90s or 3m\n", value)
		for _, args := range [][]string{{"run", url, "--name", "two"}, {"run", "-f", url, "--name", "two"}, {"start", "one"}, {"restart", "one"}} {
			stdout, stderr, code := clitest.Run(t, app, args...)
			if code != base.ExitUsage || stdout != "" || stderr != want {
				t.Errorf("%s, %v: exit code %d, %q, %q", value, args, code, stdout, stderr)
			}
		}
		waitForState(t, app, "one", workload.Running)
	}
	if got := clitest.Must(t, app, "list"); strings.Count(got, "\n") != 1 {
		t.Errorf("list prints %q", got)
	}
}

// silentServer never responds; asked receives a value for each request.
func silentServer(t *testing.T) (url string, asked <-chan struct{}) {
	t.Helper()
	came := make(chan struct{}, 16)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case came <- struct{}{}:
		default: // the test waits for the first ones only
		}
		<-r.Context().Done()
	}))
	t.Cleanup(func() {
		silent.CloseClientConnections()
		silent.Close()
	})
	return silent.URL + "/mcp", came
}

// starting runs thv, and returns when the server it starts has received a request.
func starting(t *testing.T, asked <-chan struct{}, args ...string) *clitest.Process {
	t.Helper()
	p := clitest.Start(t, args...)
	p.Says(t, "waiting for the server to answer")
	if t.Failed() {
		t.FailNow()
	}
	select {
	case <-asked:
	case <-time.After(clitest.LongEnough):
		t.Fatal("the server received no request")
	}
	return p
}

func TestStop_WhileStarting(t *testing.T) {
	app := clitest.LivingApp(t)
	url, asked := silentServer(t)
	run := []string{"run", url, "--transport", "streamable-http", "--name", "one"}
	const early = `Error: workload "one" was stopped while it was starting`

	for _, c := range []struct {
		args  []string
		stops string
		left  int
	}{
		{run, "stop one", 1}, {[]string{"start", "one"}, "stop one", 1}, {[]string{"start", "one"}, "rm one", 0},
		{append(run, "-f"), "stop one", 1}, {[]string{"restart", "one"}, "rm one", 0}, {run, "rm one", 0}, {append(run, "-f"), "rm one", 0},
	} {
		t.Run(c.args[0]+", "+c.stops, func(t *testing.T) {
			p := starting(t, asked, c.args...)
			clitest.Must(t, app, strings.Fields(c.stops)...)
			p.Says(t, early)
			p.Ends(t, base.ExitFailure)
			var all []workload.Status
			if err := json.Unmarshal([]byte(clitest.Must(t, app, "list", "-o", "json")), &all); err != nil || len(all) != c.left {
				t.Fatalf("list: %+v, %v", all, err)
			}
			if c.left > 0 && all[0].State != workload.Stopped {
				t.Errorf("it is %s (%s)", all[0].State, all[0].Reason)
			}
		})
	}
}

func TestAdvice_ByState(t *testing.T) {
	app := clitest.LivingApp(t)
	silent, asked := silentServer(t)
	url, called, let := slowCalls(t)
	advised := func(state, want string) {
		t.Helper()
		for _, args := range [][]string{{"mcp", "tools", "one"}, {"start", "one"}, {"run", url, "--name", "one"}} {
			if state == "starting" && args[0] == "start" {
				continue // it waits for the other start
			}
			stdout, stderr, code := clitest.Run(t, app, args...)
			if code != base.ExitFailure || stdout != "" || !strings.Contains(stderr, " is "+state+"; "+want) {
				t.Errorf("%s, %v: exit code %d, %q, %q", state, args, code, stdout, stderr)
			}
		}
	}
	p := starting(t, asked, "run", silent, "--transport", "streamable-http", "--name", "one")
	advised("starting", "wait until `thv status one` says that it is running")
	clitest.Must(t, app, "rm", "one")
	p.Says(t, "was stopped while it was starting")
	p.Ends(t, base.ExitFailure)

	clitest.Must(t, app, "run", url, "--name", "one")
	call := clitest.Start(t, "mcp", "call", "one", "echo", "--arg", "text=hi")
	select {
	case <-called:
	case <-time.After(clitest.LongEnough):
		t.Fatal("the server was never called")
	}
	stop := clitest.Start(t, "stop", "one")
	waitForState(t, app, "one", workload.Stopping)
	advised("stopping", "when it has stopped, start it with `thv start one`")
	let()
	call.Ends(t, base.ExitOK)
	for line := range stop.Lines { // perhaps what it waits for, then the end
		if !strings.Contains(line, "waiting for one to stop") && line != "one stopped" {
			t.Errorf("stop writes %q", line)
		}
	}
	stop.Ends(t, base.ExitOK)
	for _, args := range [][]string{{"mcp", "tools", "one"}, {"run", url, "--name", "one"}} {
		if _, stderr, code := clitest.Run(t, app, args...); code != base.ExitFailure || !strings.Contains(stderr, " is stopped; start it with `thv start one`") {
			t.Errorf("stopped, %v: exit code %d, %q", args, code, stderr)
		}
	}
}

func TestConcurrentStartsOfOneWorkloadAllSucceed(t *testing.T) {
	app := clitest.LivingApp(t)
	url := clitest.Must(t, app, "run", clitest.RemoteServer(t, nil), "--name", "one")
	clitest.Must(t, app, "stop", "one")
	type result struct {
		stdout, stderr string
		err            error
	}
	results := make(chan result)
	for range 4 {
		go func() {
			var stdout, stderr bytes.Buffer
			cmd := exec.CommandContext(t.Context(), os.Args[0], "start", "one")
			cmd.Env = append(os.Environ(), clitest.AsProgram+"=1")
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run()
			results <- result{stdout.String(), stderr.String(), err}
		}()
	}
	for range 4 {
		if r := <-results; r.err != nil || r.stdout != url {
			t.Errorf("start: %v, %q, %q", r.err, r.stdout, r.stderr)
		}
	}
}

func TestARemoteServerThatIsDownIsRetriedAfterAStart(t *testing.T) {
	app := clitest.LivingApp(t)
	server := newRemote(t)
	url := clitest.Must(t, app, "run", server.url, "--name", "one")
	server.down.Store(true)
	for _, args := range [][]string{{"restart", "one"}, {"stop", "one"}, {"start", "one"}} {
		stdout, stderr, code := clitest.Run(t, app, args...)
		if code != base.ExitOK || args[0] != "stop" && (stdout != url || !strings.Contains(stderr, "one is degraded")) {
			t.Errorf("%v: exit code %d, %q, %q", args, code, stdout, stderr)
		}
	}
	if st := statusOf(t, app, "one"); st.State != workload.Degraded || !strings.Contains(st.Reason, "down for a test") {
		t.Errorf("it is %s (%s)", st.State, st.Reason)
	}
	if _, stderr, code := clitest.Run(t, app, "run", server.url, "--name", "two", "--transport", "streamable-http"); code != base.ExitFailure || !strings.Contains(stderr, "did not answer") {
		t.Errorf("a first run: exit code %d, %q", code, stderr)
	}
	server.down.Store(false)
	waitForState(t, app, "one", workload.Running)
	clitest.Must(t, app, "mcp", "call", "one", "echo", "--arg", "text=hi")
}

func TestAChosenPortIsForgottenByRm(t *testing.T) {
	app := clitest.LivingApp(t)
	server := clitest.RemoteServer(t, nil)
	port := strconv.Itoa(unusedPort())
	if got := clitest.Must(t, app, "run", server, "--name", "one", "--proxy-port", port); got != "http://127.0.0.1:"+port+"/mcp\n" {
		t.Errorf("run prints %q", got)
	}
	clitest.Must(t, app, "rm", "one")
	if got := clitest.Must(t, app, "run", server, "--name", "one"); strings.Contains(got, port) {
		t.Errorf("run after rm prints %q", got)
	}
}
