package local

import (
	"fmt"
	"net/http"
	"os/exec"
	"testing"
	"time"
)

// StartServer starts a program that serves HTTP, and returns when ready, a URL of it,
// answers 200. within bounds that. The program ends at stop and with the test, also when the
// test's process is killed. What it prints is logged when the test fails.
func StartServer(t testing.TB, program *exec.Cmd, ready string, within time.Duration) (stop func(), output *Output) {
	t.Helper()
	output = new(Output)
	command := watched(program)
	command.Stdout, command.Stderr = output, output
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatalf("start %s: %v", program.Path, err)
	}
	ended := make(chan struct{})
	go func() {
		_ = command.Wait() // it was killed
		close(ended)
	}()
	stop = func() {
		stdin.Close()
		<-ended
	}
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("%s printed:\n%s", program.Path, output)
		}
	})
	for deadline := time.Now().Add(within); ; {
		err := answers(ready)
		if err == nil {
			return stop, output
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not answer within %s: %v", program.Path, within, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// watched returns a shell that runs the program. It ends it, with the programs that it has
// started, when its own standard input ends, which it does with this process.
func watched(program *exec.Cmd) *exec.Cmd {
	const script = `setsid "$@" </dev/null & pid=$!; cat >/dev/null; env kill -9 -- -$pid; wait $pid`
	command := exec.Command("sh", append([]string{"-c", script, "sh", program.Path}, program.Args[1:]...)...)
	command.Env, command.Dir = program.Env, program.Dir
	return command
}

func answers(url string) error {
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: answered %s", url, resp.Status)
	}
	return nil
}
