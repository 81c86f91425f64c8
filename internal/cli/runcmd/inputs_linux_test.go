package runcmd

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/ptytest"
	"github.com/toolhaven/toolhaven/internal/source"
)

func TestAskMissing_Prompts(t *testing.T) {
	s := ptytest.New(t)
	app := &base.App{In: s.TTY, Err: s.TTY, Out: io.Discard, Env: func(string) string { return "" }}
	values := map[string]string{"GIVEN": "x"}
	done := make(chan error, 1)
	go func() {
		done <- askMissing(t.Context(), app, values, []source.Input{
			{Name: "REGION", Required: true, Description: "where\x1b[2J it is", Choices: []string{"eu", "us"}},
			{Name: "PASSPHRASE", Required: true, Secret: true},
			{Name: "GIVEN", Required: true}, {Name: "OPTIONAL"},
		})
	}()
	s.Shows(t, "REGION (where it is): ")
	io.WriteString(s.Person, "eu\n")
	s.Shows(t, "PASSPHRASE: ")
	for deadline := time.Now().Add(ptytest.LongEnough); s.Echoes(t); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a secret is shown while it is typed")
		}
	}
	io.WriteString(s.Person, "hunter2\n")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if values["REGION"] != "eu" || values["PASSPHRASE"] != "hunter2" || len(values) != 3 {
		t.Errorf("got %v", values)
	}
	if seen := s.Shows(t, "PASSPHRASE"); strings.Contains(seen, "hunter2") || !s.Echoes(t) {
		t.Errorf("the screen shows %q; echo is %t", seen, s.Echoes(t))
	}
}

func TestAskMissing_InterruptRestoresTheTerminal(t *testing.T) {
	s := ptytest.New(t)
	app := &base.App{In: s.TTY, Err: s.TTY, Out: io.Discard, Env: func(string) string { return "" }}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- askMissing(ctx, app, map[string]string{}, []source.Input{{Name: "TOKEN", Required: true}})
	}()
	s.Shows(t, "TOKEN: ")
	for deadline := time.Now().Add(ptytest.LongEnough); s.Echoes(t); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("what looks like a secret is shown while it is typed")
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || base.ExitCode(err) != base.ExitInterrupted {
		t.Errorf("got %v", err)
	}
	if !s.Echoes(t) {
		t.Error("the terminal is left without echo")
	}
	io.WriteString(s.Person, "\n") // lets the read end
}

func TestApprover(t *testing.T) {
	s := ptytest.New(t)
	o := &options{app: &base.App{In: s.TTY, Err: s.TTY, Out: io.Discard}, arg: "io.example/a\x1b[2J"}
	for answer, want := range map[string]bool{"y\n": true, "yes\n": true, "n\n": false, "\n": false, "what\n": false} {
		got := make(chan bool, 1)
		go func() {
			ok, err := o.approver(t.Context())(source.Grant{What: `the network "host"` + answer, Risk: "it can connect"})
			if err != nil {
				t.Error(err)
			}
			got <- ok
		}()
		s.Shows(t, `entry of io.example/a requests the network "host"`+strings.TrimSpace(answer))
		io.WriteString(s.Person, answer)
		if ok := <-got; ok != want {
			t.Errorf("%q approves: %t", answer, ok)
		}
	}
	o.app = &base.App{In: strings.NewReader("y\n"), Err: s.TTY, Out: io.Discard}
	if o.approver(t.Context()) != nil {
		t.Error("without a terminal something can be approved")
	}
	o.dryRun = true
	if ok, err := o.approver(t.Context())(source.Grant{What: "a mount"}); !ok || err != nil || len(o.requested) != 1 {
		t.Errorf("a dry run notes %q, %v", o.requested, err)
	}
}
