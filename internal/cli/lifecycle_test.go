package cli

import (
	"bufio"
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
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/workload"
)

// thvProcess is thv in a process of its own, which a test interrupts.
type thvProcess struct {
	cmd   *exec.Cmd
	lines chan string // of standard error
}

func startProgram(t *testing.T, args ...string) *thvProcess {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &thvProcess{cmd: cmd, lines: make(chan string, 100)}
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(stderr); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	return p
}

// says waits for the next line on standard error.
func (p *thvProcess) says(t *testing.T, part string) {
	t.Helper()
	select {
	case line := <-p.lines:
		if !strings.Contains(line, part) {
			t.Errorf("it says %q, want %q", line, part)
		}
	case <-time.After(longEnough):
		t.Fatalf("it never says %q", part)
	}
}

// ends waits for the end; nothing more must be said until then.
func (p *thvProcess) ends(t *testing.T, code int) {
	t.Helper()
	for line := range p.lines {
		t.Errorf("it says too: %q", line)
	}
	_ = p.cmd.Wait() // the code is looked at
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code %d, want %d", got, code)
	}
}

func (p *thvProcess) interrupt(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
}

// waitForState asks until the workload is in that state.
func waitForState(t *testing.T, app *App, name string, want workload.State) {
	t.Helper()
	var st workload.Status
	for deadline := time.Now().Add(longEnough); ; time.Sleep(20 * time.Millisecond) {
		if err := json.Unmarshal([]byte(must(t, app, "status", name, "-o", "json")), &st); err != nil {
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

func statusOf(t *testing.T, app *App, name string) (st workload.Status) {
	t.Helper()
	if err := json.Unmarshal([]byte(must(t, app, "status", name, "-o", "json")), &st); err != nil {
		t.Fatal(err)
	}
	return st
}

// waitForRun waits until the workload is there and running.
func waitForRun(t *testing.T, app *App, name string) {
	t.Helper()
	for deadline := time.Now().Add(longEnough); ; time.Sleep(20 * time.Millisecond) {
		if stdout, _, _ := thv(t, app, "status", name, "-o", "json"); strings.Contains(stdout, `"state": "running"`) {
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
	target, err := url.Parse(strings.TrimSuffix(remoteServer(t, nil), "/mcp"))
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

// slowCalls is a remote server whose calls wait to be let go.
func slowCalls(t *testing.T) (url string, called <-chan struct{}, let func()) {
	t.Helper()
	came, gone := make(chan struct{}, 16), make(chan struct{})
	url = remoteServer(t, func(r *http.Request) {
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

func TestCtrlCDuringAStopLeavesTheStopGoing(t *testing.T) {
	app := livingApp(t)
	url, called, let := slowCalls(t)
	must(t, app, "run", url, "--name", "one")
	call := startProgram(t, "mcp", "call", "one", "echo", "--arg", "text=hi")
	select {
	case <-called:
	case <-time.After(longEnough):
		t.Fatal("the server was never called")
	}
	rm := startProgram(t, "rm", "one")
	rm.says(t, "waiting for one to stop (calls have 10 s to end")
	rm.interrupt(t)
	rm.says(t, `Error: interrupted; workload "one" was asked to stop, and goes on stopping by itself, and it is not removed`)
	rm.ends(t, exitInterrupted)
	waitForState(t, app, "one", workload.Stopping)
	let()
	call.ends(t, exitOK)
	waitForState(t, app, "one", workload.Stopped)
}

func TestABadStartTimeoutIsSaidBeforeAnythingStarts(t *testing.T) {
	app := livingApp(t)
	url := remoteServer(t, nil)
	must(t, app, "run", url, "--name", "one")
	for _, value := range []string{"abc", "-1s", "0s", "90"} {
		t.Setenv(EnvStartTimeout, value)
		want := fmt.Sprintf("Error: THV_START_TIMEOUT is %q; it must be a time above zero, such as 90s or 3m\n", value)
		for _, args := range [][]string{{"run", url, "--name", "two"}, {"run", "-f", url, "--name", "two"}, {"start", "one"}, {"restart", "one"}} {
			stdout, stderr, code := thv(t, app, args...)
			if code != exitUsage || stdout != "" || stderr != want {
				t.Errorf("%s, %v: exit code %d, %q, %q", value, args, code, stdout, stderr)
			}
		}
		waitForState(t, app, "one", workload.Running)
	}
	if got := must(t, app, "list"); strings.Count(got, "\n") != 1 {
		t.Errorf("list prints %q", got)
	}
}

// silentServer answers nothing; asked tells that it was asked.
func silentServer(t *testing.T) (url string, asked <-chan struct{}) {
	t.Helper()
	came := make(chan struct{}, 16)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case came <- struct{}{}:
		default: // asked again, and nobody waits for that
		}
		<-r.Context().Done()
	}))
	t.Cleanup(func() {
		silent.CloseClientConnections()
		silent.Close()
	})
	return silent.URL + "/mcp", came
}

// starting runs thv, and returns when the server it starts has been asked.
func starting(t *testing.T, asked <-chan struct{}, args ...string) *thvProcess {
	t.Helper()
	p := startProgram(t, args...)
	p.says(t, "waiting for the server to answer")
	if t.Failed() {
		t.FailNow()
	}
	select {
	case <-asked:
	case <-time.After(longEnough):
		t.Fatal("the server was never asked")
	}
	return p
}

func TestAStopOfAWorkloadThatIsStarting(t *testing.T) {
	app := livingApp(t)
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
			must(t, app, strings.Fields(c.stops)...)
			p.says(t, early)
			p.ends(t, exitFailure)
			var all []workload.Status
			if err := json.Unmarshal([]byte(must(t, app, "list", "-o", "json")), &all); err != nil || len(all) != c.left {
				t.Fatalf("list: %+v, %v", all, err)
			}
			if c.left > 0 && all[0].State != workload.Stopped {
				t.Errorf("it is %s (%s)", all[0].State, all[0].Reason)
			}
		})
	}
}

func TestTheAdviceFitsTheState(t *testing.T) {
	app := livingApp(t)
	silent, asked := silentServer(t)
	url, called, let := slowCalls(t)
	advised := func(state, want string) {
		t.Helper()
		for _, args := range [][]string{{"mcp", "tools", "one"}, {"start", "one"}, {"run", url, "--name", "one"}} {
			if state == "starting" && args[0] == "start" {
				continue // it waits for the other start
			}
			stdout, stderr, code := thv(t, app, args...)
			if code != exitFailure || stdout != "" || !strings.Contains(stderr, " is "+state+"; "+want) {
				t.Errorf("%s, %v: exit code %d, %q, %q", state, args, code, stdout, stderr)
			}
		}
	}
	p := starting(t, asked, "run", silent, "--transport", "streamable-http", "--name", "one")
	advised("starting", "wait until `thv status one` says that it is running")
	must(t, app, "rm", "one")
	p.says(t, "was stopped while it was starting")
	p.ends(t, exitFailure)

	must(t, app, "run", url, "--name", "one")
	call := startProgram(t, "mcp", "call", "one", "echo", "--arg", "text=hi")
	select {
	case <-called:
	case <-time.After(longEnough):
		t.Fatal("the server was never called")
	}
	stop := startProgram(t, "stop", "one")
	waitForState(t, app, "one", workload.Stopping)
	advised("stopping", "when it has stopped, start it with `thv start one`")
	let()
	call.ends(t, exitOK)
	for line := range stop.lines { // perhaps what it waits for, then the end
		if !strings.Contains(line, "waiting for one to stop") && line != "one stopped" {
			t.Errorf("stop says %q", line)
		}
	}
	stop.ends(t, exitOK)
	for _, args := range [][]string{{"mcp", "tools", "one"}, {"run", url, "--name", "one"}} {
		if _, stderr, code := thv(t, app, args...); code != exitFailure || !strings.Contains(stderr, " is stopped; start it with `thv start one`") {
			t.Errorf("stopped, %v: exit code %d, %q", args, code, stderr)
		}
	}
}

func TestConcurrentStartsOfOneWorkloadAllSucceed(t *testing.T) {
	app := livingApp(t)
	url := must(t, app, "run", remoteServer(t, nil), "--name", "one")
	must(t, app, "stop", "one")
	type result struct {
		stdout, stderr string
		err            error
	}
	results := make(chan result)
	for range 4 {
		go func() {
			var stdout, stderr bytes.Buffer
			cmd := exec.CommandContext(t.Context(), os.Args[0], "start", "one")
			cmd.Env = append(os.Environ(), asProgram+"=1")
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
	app := livingApp(t)
	server := newRemote(t)
	url := must(t, app, "run", server.url, "--name", "one")
	server.down.Store(true)
	for _, args := range [][]string{{"restart", "one"}, {"stop", "one"}, {"start", "one"}} {
		stdout, stderr, code := thv(t, app, args...)
		if code != exitOK || args[0] != "stop" && (stdout != url || !strings.Contains(stderr, "one is degraded")) {
			t.Errorf("%v: exit code %d, %q, %q", args, code, stdout, stderr)
		}
	}
	if st := statusOf(t, app, "one"); st.State != workload.Degraded || !strings.Contains(st.Reason, "down for a test") {
		t.Errorf("it is %s (%s)", st.State, st.Reason)
	}
	if _, stderr, code := thv(t, app, "run", server.url, "--name", "two", "--transport", "streamable-http"); code != exitFailure || !strings.Contains(stderr, "did not answer") {
		t.Errorf("a first run: exit code %d, %q", code, stderr)
	}
	server.down.Store(false)
	waitForState(t, app, "one", workload.Running)
	must(t, app, "mcp", "call", "one", "echo", "--arg", "text=hi")
}

func TestAChosenPortIsForgottenByRm(t *testing.T) {
	app := livingApp(t)
	server := remoteServer(t, nil)
	port := strconv.Itoa(unusedPort())
	if got := must(t, app, "run", server, "--name", "one", "--proxy-port", port); got != "http://127.0.0.1:"+port+"/mcp\n" {
		t.Errorf("run prints %q", got)
	}
	must(t, app, "rm", "one")
	if got := must(t, app, "run", server, "--name", "one"); strings.Contains(got, port) {
		t.Errorf("run after rm prints %q", got)
	}
}
