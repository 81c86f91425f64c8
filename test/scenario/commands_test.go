//go:build integration

package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/toolhaven/toolhaven/test/local"
)

type command = func(ts *testscript.TestScript, neg bool, args []string)

// commands are the commands of scripts in addition to testscript's own.
func commands() map[string]command {
	cmds := map[string]command{
		"thv":        thv,
		"until":      until,
		"json":       jsonValue,
		"jsonenv":    jsonEnv,
		"containers": countContainers,
		"processes":  countProcesses,
		"signal":     sendSignal,
		"listen":     listen,
		"free":       free,
		"web":        web,
		"public":     public,
		"http":       httpRequest,
		"smalldisk":  smallDisk,
	}
	maps.Copy(cmds, serverCommands())
	maps.Copy(cmds, signingCommands())
	return cmds
}

// thv ARGS... runs the program, bounded in time. With "!" it must fail as a
// program should: non-zero, with an error on standard error, and no panic.
func thv(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) > 0 && args[0] == "rm" {
		checkLeaks(ts) // while its logs are there
	}
	err := ts.Exec("timeout", append([]string{"--kill-after=5", "300", thvPath()}, args...)...)
	stderr := ts.ReadFile("stderr")
	checkOutput(ts, args)
	if strings.Contains(stderr, "goroutine 1 [") {
		ts.Fatalf("thv panicked")
	}
	switch {
	case neg && err == nil:
		ts.Fatalf("thv succeeded, but should have failed")
	case neg && strings.TrimSpace(stderr) == "":
		ts.Fatalf("thv failed without a word")
	case neg && (strings.Contains(err.Error(), "exit status 124") || strings.Contains(err.Error(), "exit status 137")):
		ts.Fatalf("thv did not come to an end")
	case !neg && err != nil:
		ts.Fatalf("thv: %v", err)
	}
}

// patience bounds every wait for something that must happen, which takes long on a busy
// machine.
const patience = time.Minute

// until PROGRAM ARGS... runs a program again and again until it succeeds (or fails,
// with "!"), with patience.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: until PROGRAM ARGS...")
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		if err := ts.Exec(args[0], args[1:]...); (err == nil) != neg {
			return
		} else if time.Now().After(deadline) {
			ts.Fatalf("still not so after %s: %v", patience, err)
		}
	}
}

// json FILE PATH VALUE compares a value in a file or in stdout: json stdout
// .0.state running. A text compares as itself, everything else as its JSON. A
// length is PATH.length.
func jsonValue(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: json FILE PATH VALUE")
	}
	got := lookUp(ts, args[0], args[1])
	if (got == args[2]) == neg {
		ts.Fatalf("%s %s is %q; want (not %v) %q", args[0], args[1], got, neg, args[2])
	}
}

// jsonenv NAME FILE PATH sets a variable to a value in a file or in stdout.
func jsonEnv(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: jsonenv NAME FILE PATH")
	}
	ts.Setenv(args[0], lookUp(ts, args[1], args[2]))
}

func lookUp(ts *testscript.TestScript, file, path string) string {
	var v any
	if err := json.Unmarshal([]byte(ts.ReadFile(file)), &v); err != nil {
		ts.Fatalf("%s is not JSON: %v", file, err)
	}
	for step := range strings.SplitSeq(strings.TrimPrefix(path, "."), ".") {
		switch node := v.(type) {
		case map[string]any:
			v = node[step]
		case []any:
			i, err := strconv.Atoi(step)
			switch {
			case step == "length":
				v = float64(len(node))
			case err != nil || i < 0 || i >= len(node):
				return ""
			default:
				v = node[i]
			}
		default:
			return ""
		}
	}
	if s, ok := v.(string); ok {
		return s
	}
	b, err := json.Marshal(v)
	ts.Check(err)
	return string(b)
}

func here(ts *testscript.TestScript) *place { return ts.Value(placeKey{}).(*place) }

// containers N [FILTER...] waits until there are N containers of this
// script; a filter is docker's: status=running.
func countContainers(ts *testscript.TestScript, _ bool, args []string) {
	eventually(ts, args[0], "containers", func() (int, error) {
		ids, err := here(ts).containers(args[1:]...)
		return len(ids), err
	})
}

// processes N waits until there are N thv processes of this script.
func countProcesses(ts *testscript.TestScript, _ bool, args []string) {
	eventually(ts, args[0], "processes", func() (int, error) { return len(here(ts).processes()), nil })
}

func eventually(ts *testscript.TestScript, want, what string, count func() (int, error)) {
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		n, err := count()
		ts.Check(err)
		if strconv.Itoa(n) == want {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%d %s; want %s", n, what, want)
		}
	}
}

// signal NAME PID sends KILL, STOP, CONT, TERM or INT. After KILL it waits until the
// process is gone, after STOP until it has stopped.
func sendSignal(ts *testscript.TestScript, _ bool, args []string) {
	signals := map[string]syscall.Signal{
		"KILL": syscall.SIGKILL, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT, "TERM": syscall.SIGTERM, "INT": syscall.SIGINT,
	}
	sig, ok := signals[args[0]]
	pid, err := strconv.Atoi(args[1])
	if !ok || err != nil || pid <= 1 {
		ts.Fatalf("usage: signal KILL|STOP|CONT|TERM|INT PID")
	}
	if !slices.Contains(here(ts).processes(), pid) {
		ts.Fatalf("process %d is not a thv of this script", pid)
	}
	if sig == syscall.SIGSTOP {
		ts.Check(local.Suspend(pid))
		return
	}
	ts.Check(syscall.Kill(pid, sig))
	if sig == syscall.SIGKILL {
		eventually(ts, "0", "processes of that id", func() (int, error) {
			if state, _, ok := stat(pid); ok && state != 'Z' {
				return 1, nil
			}
			return 0, nil
		})
	}
}

// listen NAME [PORT] takes a port on the loopback address until the script ends
// and sets NAME to it; connections are closed at once.
func listen(ts *testscript.TestScript, _ bool, args []string) {
	port := "0"
	if len(args) > 1 {
		port = args[1]
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	ts.Setenv(args[0], strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
}

// web PORT ADDRESS [ADDRESS6] serves HTTP on all addresses of this machine until the script
// ends, answering "hello HOST". It sets PORT to the port, ADDRESS to an address of the
// machine that is not loopback, and ADDRESS6 to such an address of IPv6, if it has one.
func web(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", ":0")
	ts.Check(err)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "hello", r.Host)
	})}
	go func() { _ = server.Serve(l) }()
	ts.Defer(func() { server.Close() })
	ts.Setenv(args[0], strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	four, six, err := machineAddresses()
	ts.Check(err)
	ts.Setenv(args[1], four)
	if len(args) > 2 {
		ts.Setenv(args[2], six)
	}
}

// machineAddresses are addresses of this machine that are neither loopback nor link-local.
// six is "" where it has none.
func machineAddresses() (four, six string, err error) {
	found, err := net.InterfaceAddrs()
	if err != nil {
		return "", "", err
	}
	for _, a := range found {
		ip, _, err := net.ParseCIDR(a.String())
		if err != nil {
			return "", "", err
		}
		switch {
		case ip.IsLoopback() || ip.IsLinkLocalUnicast():
		case ip.To4() != nil && four == "":
			four = ip.String()
		case ip.To4() == nil && six == "":
			six = ip.String()
		}
	}
	if four == "" {
		return "", "", errors.New("this machine has no address")
	}
	return four, six, nil
}

// free PORT waits until no process listens on a loopback port.
func free(ts *testscript.TestScript, neg bool, args []string) {
	want := "0"
	if neg {
		want = "1"
	}
	eventually(ts, want, "listeners on port "+args[0], func() (int, error) {
		l, err := net.Listen("tcp", "127.0.0.1:"+args[0])
		if err != nil {
			return 1, nil
		}
		return 0, l.Close()
	})
}

// http STATUS METHOD URL [HEADER:VALUE...] [@FILE] sends a request, body from
// FILE, and puts the answer's body into the file "response" and its headers,
// sorted, into "headers". With STATUS "none" there must be no response.
func httpRequest(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: http STATUS METHOD URL [HEADER:VALUE...] [@FILE]")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var body io.Reader
	header := http.Header{}
	for _, arg := range args[3:] {
		if file, ok := strings.CutPrefix(arg, "@"); ok {
			body = strings.NewReader(ts.ReadFile(file))
		} else if name, value, ok := strings.Cut(arg, ":"); ok {
			header.Add(name, strings.TrimSpace(value))
		}
	}
	req, err := http.NewRequestWithContext(ctx, args[1], args[2], body)
	ts.Check(err)
	req.Header = header
	if host := header.Get("Host"); host != "" {
		req.Host = host
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		if args[0] != "none" {
			ts.Fatalf("%s %s: %v", args[1], args[2], err)
		}
		return
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	ts.Check(err)
	var headers strings.Builder
	resp.Header.Write(&headers)
	ts.Check(os.WriteFile(ts.MkAbs("response"), text, 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("headers"), []byte(headers.String()), 0o600))
	if strconv.Itoa(resp.StatusCode) != args[0] {
		ts.Fatalf("%s %s: %s: %s", args[1], args[2], resp.Status, text)
	}
}

// smalldisk DIR KIB mounts a disk of so many KiB at DIR until the script ends.
func smallDisk(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o700))
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%sk,mode=0700", args[1])); err != nil {
		ts.Fatalf("mount a disk of %s KiB: %v", args[1], err)
	}
	ts.Defer(func() {
		if err := exec.Command("umount", "-l", dir).Run(); err != nil {
			ts.Logf("umount %s: %v", dir, err)
		}
	})
}
