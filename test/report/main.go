// Report runs go test in stages and sums them up, so that `make test` has one
// result for everything: what failed with its output, every skip with its
// reason, and one closing line.
//
//	report -- STAGE 1's go test arguments --again STAGE 2's ... [-- ...]
//
// It exits non-zero when a stage does, or when nothing was tested. Of a stage
// that begins with --again, tests that failed, three at most and none for a data
// race or a panic, are run once more, and named aloud if they pass then.
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
		fmt.Fprintln(os.Stderr, "usage: report {--|--again} GO TEST ARGUMENTS [{--|--again} GO TEST ARGUMENTS ...]")
		os.Exit(2)
	}
	sum := newSummary(os.Stdout)
	failed := false
	for _, stage := range stages {
		line := "go test " + strings.Join(stage.args, " ")
		fmt.Println("== " + line)
		sum.begin()
		if err := run(ctx, stage.args, sum); err != nil {
			fmt.Printf("%s: %v\n", line, err)
			failed = failed || !stage.again || !sum.again(stage.args, func(args []string, sum *summary) error { return run(ctx, args, sum) })
		}
	}
	if !sum.close() || failed {
		os.Exit(1)
	}
}

// stage is one run of go test.
type stage struct {
	args  []string
	again bool // what fails may be run once more
}

// stages splits the arguments at "--" and "--again".
func stages(args []string) []stage {
	var all []stage
	for _, arg := range args {
		switch {
		case arg == "--" || arg == "--again":
			all = append(all, stage{again: arg == "--again"})
		case len(all) > 0:
			last := &all[len(all)-1]
			last.args = append(last.args, arg)
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
