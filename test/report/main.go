// Report runs the stages of `make test` and prints one result for all of them:
// what failed with its output, every skipped test with its reason, the slowest
// stages and packages, and one closing line.
//
//	report [-times FILE] STAGE ARGUMENTS [STAGE ARGUMENTS ...]
//
// STAGE is "--" for a run of `go test` with these arguments, and "--run" for that of a
// program. NAME=VALUE before the arguments sets a variable of the stage's environment.
// FILE holds the durations of stages that ran before, such as the set-up: one a line,
// seconds, a tab and the name.
//
// A stage is printed with the seconds that it took and, in brackets, those of a
// processor: without what container engines did for it.
//
// The exit status is 1 if a stage fails or no test ran. No test is run twice: one
// that fails now and then has a fault.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	times := flag.String("times", "", "a file with the durations of earlier stages")
	// The flag package would take the first "--" for the end of the flags.
	flags, rest := splitFlags(os.Args[1:])
	if err := flag.CommandLine.Parse(flags); err != nil {
		os.Exit(2)
	}
	stages := parseStages(rest)
	if len(stages) == 0 {
		fmt.Fprintln(os.Stderr, "usage: report [-times FILE] {--|--run} ARGUMENTS ...")
		os.Exit(2)
	}
	sum := newSummary(os.Stdout)
	if err := sum.readTimes(*times); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
	passed := true
	for _, stage := range stages {
		line := stage.String()
		fmt.Println("== " + line)
		began := time.Now()
		used, err := stage.run(ctx, sum)
		if err != nil {
			fmt.Printf("%s: %v\n", line, err)
			passed = false
		}
		sum.stages = append(sum.stages, duration{fmt.Sprintf("[%.0f] %s", used.Seconds(), line), time.Since(began).Seconds()})
	}
	if !sum.close() || !passed {
		os.Exit(1)
	}
}

// stage is one run of go test, or of a program.
type stage struct {
	args    []string
	program bool
}

// begins reports whether an argument begins a stage.
func begins(arg string) bool { return arg == "--" || arg == "--run" }

// splitFlags splits the arguments before the first stage.
func splitFlags(args []string) (flags, rest []string) {
	for i, arg := range args {
		if begins(arg) {
			return args[:i], args[i:]
		}
	}
	return args, nil
}

// parseStages splits the arguments where a stage begins.
func parseStages(args []string) []stage {
	var all []stage
	for _, arg := range args {
		if begins(arg) {
			all = append(all, stage{program: arg == "--run"})
			continue
		}
		last := &all[len(all)-1]
		last.args = append(last.args, arg)
	}
	return all
}

// splitEnv splits off the leading NAME=VALUE arguments.
func splitEnv(args []string) (env, rest []string) {
	for i, arg := range args {
		if strings.HasPrefix(arg, "-") || !strings.Contains(arg, "=") {
			return args[:i], args[i:]
		}
	}
	return args, nil
}

func (s stage) String() string {
	line := strings.Join(s.args, " ")
	if !s.program {
		line = "go test " + line
	}
	if len(line) > 150 { // a list of packages
		line = line[:147] + "..."
	}
	return line
}

// run runs the stage. used is the time of processors that it and its children took.
func (s stage) run(ctx context.Context, sum *summary) (used time.Duration, err error) {
	env, argv := splitEnv(s.args)
	if !s.program {
		argv = append([]string{"go", "test", "-json"}, argv...)
	}
	if len(argv) == 0 {
		return 0, errors.New("the stage has no arguments")
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	// go test forwards an interrupt, so that tests can clean up.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	defer func() {
		if state := cmd.ProcessState; state != nil {
			used = state.UserTime() + state.SystemTime()
		}
	}()
	if s.program {
		cmd.Stdout = os.Stdout
		return 0, cmd.Run()
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	sum.read(out)
	return 0, cmd.Wait()
}

// read reads the lines of `go test -json`. Other lines are printed as they are.
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
