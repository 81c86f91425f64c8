package manager

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/logfile"
)

// The pipes between `run` and the owner it starts: the owner's standard output carries
// one JSON object a line. Its standard input carries one line with what the starter hands
// over, and then Detach; its end means that the starter has gone.
const (
	// Detach is what the starter writes when it has seen that the owner is
	// ready. An end of input before that means that the starter was
	// interrupted: the owner takes everything down again.
	Detach = "detach\n"
)

// Notice is one line from an owner that is starting. Exactly one of its fields
// is set.
type Notice struct {
	Progress *Event `json:"progress,omitempty"`
	Ready    bool   `json:"ready,omitempty"`
	Failed   string `json:"failed,omitempty"`
	// Stopped: the owner received a stop before it was ready, and has ended.
	Stopped bool `json:"stopped,omitempty"`
	// Taken: another owner has the workload.
	Taken bool `json:"taken,omitempty"`
}

// spawn starts the owner of a stored workload as a process of its own and waits
// until it is ready. When that fails or ctx ends, the owner has ended.
func (m *Manager) spawn(ctx context.Context, name string, progress func(Event)) error {
	spec, err := m.store.Get(name)
	if errors.Is(err, ErrNotFound) {
		return fmt.Errorf("workload %q was %w", name, ErrRemovedEarly)
	}
	if err != nil {
		return err
	}
	// Before the process starts: it may request a password.
	secrets, err := m.handover(ctx, spec)
	if err != nil {
		return fmt.Errorf("start workload %q: %w", name, err)
	}
	logFile, err := os.OpenFile(m.store.ProxyLog(name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("workload %q was %w", name, ErrRemovedEarly)
	}
	if err != nil {
		return fmt.Errorf("start workload %q: %w", name, err)
	}
	defer logFile.Close()
	cmd := exec.Command(m.exe, "owner", name)
	cmd.Dir = "/" // keep no directory in use
	if os.PathSeparator != '/' {
		cmd.Dir = ""
	}
	cmd.Env = ownerEnv(os.Environ())
	cmd.Stderr = logFile
	cmd.SysProcAttr = detached()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start workload %q: %w", name, err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start workload %q: %w", name, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start workload %q: %w", name, err)
	}
	handed := make(chan struct{})
	go func() {
		_, _ = stdin.Write(append(secrets, '\n')) // fails when the owner has exited
		close(handed)
	}()
	notices := make(chan error, 1)
	go func() { notices <- readNotices(stdout, progress) }()

	select {
	case err = <-notices:
	case <-ctx.Done():
		err = &interruption{fmt.Sprintf("workload %q was starting, and is taken down again", name), ctx.Err()}
	}
	if err == nil {
		<-handed // the owner has read it
		_, err = io.WriteString(stdin, Detach)
	}
	stdin.Close() // without Detach before it: take it down
	if err == nil {
		// The owner goes on by itself.
		stdout.Close()
		return cmd.Process.Release()
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }() // err is reported instead
	select {
	case <-ended:
	case <-time.After(stopTimeout):
		_ = cmd.Process.Kill()
		<-ended
	}
	switch {
	case errors.Is(err, ErrStoppedEarly):
		return fmt.Errorf("workload %q was %w", name, err)
	case errors.Is(err, ErrAlreadyRunning):
		return fmt.Errorf("workload %q is %w", name, err)
	case errors.Is(err, errSilent):
		// A failed run removes the log.
		lines := logfile.Tail(m.store.ProxyLog(name), 5)
		if lines != "" {
			lines = "; the last lines of its log:" + lines
		}
		return fmt.Errorf("start workload %q: its gateway exited without reporting an error%s", name, lines)
	}
	return err
}

// ownerEnv is the environment of an owner: this one without secrets that it receives over
// its standard input (the password of the store, THV_SECRET_NAME).
func ownerEnv(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, "THV_SECRET") })
}

// maxHandover bounds what is handed over, in bytes.
const maxHandover = 64 << 20

// ReadHandover reads what the starter hands over from an owner's standard input. rest is
// the input after it.
func ReadHandover(stdin io.Reader) (secrets []byte, rest io.Reader, err error) {
	in := bufio.NewReader(stdin)
	for {
		part, err := in.ReadSlice('\n')
		secrets = append(secrets, part...)
		switch {
		case err == nil:
			return secrets[:len(secrets)-1], in, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, nil, fmt.Errorf("the process that started the gateway is gone: %w", err)
		case len(secrets) > maxHandover:
			return nil, nil, errors.New("too much is handed over to the gateway")
		}
	}
}

// errSilent: the owner exited without reporting an error.
var errSilent = errors.New("the gateway reported nothing")

func readNotices(r io.Reader, progress func(Event)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var n Notice
		if err := json.Unmarshal(lines.Bytes(), &n); err != nil {
			return fmt.Errorf("unexpected output of the gateway: %q", lines.Text())
		}
		switch {
		case n.Ready:
			return nil
		case n.Failed != "":
			return errors.New(n.Failed)
		case n.Stopped:
			return ErrStoppedEarly
		case n.Taken:
			return ErrAlreadyRunning
		case n.Progress != nil:
			progress(*n.Progress)
		}
	}
	return errSilent
}
