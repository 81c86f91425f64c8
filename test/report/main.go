// Report runs go test in stages and sums them up, so that `make test` has one
// result for everything: what failed with its output, every skip with its
// reason, and one closing line.
//
//	report -- STAGE 1's go test arguments -- STAGE 2's ... [-- ...]
//
// It exits non-zero when a stage does, or when nothing was tested.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	stages := stages(os.Args[1:])
	if len(stages) == 0 {
		fmt.Fprintln(os.Stderr, "usage: report -- GO TEST ARGUMENTS [-- GO TEST ARGUMENTS ...]")
		os.Exit(2)
	}
	sum := newSummary(os.Stdout)
	failed := false
	for _, args := range stages {
		fmt.Printf("== go test %s\n", strings.Join(args, " "))
		if err := run(ctx, args, sum); err != nil {
			fmt.Printf("go test %s: %v\n", strings.Join(args, " "), err)
			failed = true
		}
	}
	if !sum.close() || failed {
		os.Exit(1)
	}
}

// stages splits the arguments at "--".
func stages(args []string) [][]string {
	var all [][]string
	for _, arg := range args {
		if arg == "--" {
			all = append(all, nil)
		} else if len(all) > 0 {
			all[len(all)-1] = append(all[len(all)-1], arg)
		}
	}
	return all
}

func run(ctx context.Context, args []string, sum *summary) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	// go test passes an interrupt on, so that tests clean up after themselves.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	sum.read(out)
	return cmd.Wait()
}

// read takes in the lines of `go test -json`. A line that is none is shown as it
// is.
func (s *summary) read(r io.Reader) {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		if len(line) > 0 {
			if json.Unmarshal(line, &e) == nil && e.Action != "" {
				s.add(e)
			} else {
				fmt.Fprintf(s.out, "%s", line)
			}
		}
		if err != nil {
			return
		}
	}
}
