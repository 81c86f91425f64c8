// Command conformance measures Toolhaven with the official suite of the Model
// Context Protocol (npm @modelcontextprotocol/conformance), as `make conformance`.
//
// A cell is one measurement: a harness, which is the suite speaking one revision
// of the protocol; a backend, which is a third-party MCP server; and the
// connection between them, direct or through the gateway that `thv run` starts.
// The cells are a table in cells.go.
//
// The suite reports scenarios. Those that a revision requires are scored, and the
// scenarios about HTTP headers are judged with them, though the suite does not score
// them. A scenario that cannot pass in a cell is listed, with the reason, in
// expected/CELL.yaml. One that fails without being listed fails the run, and so does
// one that is listed and passes.
//
// A complete run writes docs/conformance.md. The suite's output, with the failing
// checks of each scenario, is kept in test/.cache/conformance/results.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

// cellTime bounds one run of the suite: 70 scenarios, of which each may take 30
// seconds to fail.
const cellTime = 20 * time.Minute

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	only := flags.String("cell", "", "run only cells whose name contains this; docs/conformance.md is left alone")
	repeat := flags.Int("repeat", 1, "run each cell so many times")
	thv := flags.String("thv", "bin/thv", "the program under test")
	cache := flags.String("cache", "test/.cache/conformance", "what test/setup/conformance.sh installed")
	list := flags.Bool("list", false, "print the names of the cells")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen := matching(cells(), *only)
	switch {
	case len(chosen) == 0:
		return fmt.Errorf("no cell's name contains %q; -list prints them", *only)
	case *repeat < 1:
		return fmt.Errorf("-repeat is %d; it must be at least 1", *repeat)
	case *list:
		for _, c := range chosen {
			fmt.Println(c.name())
		}
		return nil
	}
	h, err := newHarness(*thv, *cache)
	if err != nil {
		return err
	}

	var outcomes []outcome
	failed := 0
	for _, c := range chosen {
		o, err := h.measure(ctx, c, *repeat)
		if err != nil {
			if ctx.Err() != nil {
				return errors.New("interrupted")
			}
			o.faults = append(o.faults, err.Error())
		}
		printOutcome(os.Stdout, o)
		if len(o.faults) > 0 {
			failed++
		}
		outcomes = append(outcomes, o)
	}
	fmt.Printf("the suite's output and every failing check: %s\n", h.results)
	if *only == "" {
		if err := os.WriteFile("docs/conformance.md", document(outcomes, *repeat), 0o644); err != nil {
			return fmt.Errorf("write the table: %w", err)
		}
		fmt.Println("wrote docs/conformance.md")
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d cells are not as expected", failed, len(outcomes))
	}
	return nil
}

func matching(all []cell, part string) (chosen []cell) {
	for _, c := range all {
		if strings.Contains(c.name(), part) {
			chosen = append(chosen, c)
		}
	}
	return chosen
}

// measure starts a cell's servers and runs the suite on them.
func (h *harness) measure(ctx context.Context, c cell, repeat int) (outcome, error) {
	o := outcome{cell: c}
	expected, err := readExpected(c.expectedFile())
	if err != nil {
		return o, err
	}
	o.expected = expected
	dir := filepath.Join(h.results, c.file())
	if err := os.RemoveAll(dir); err != nil {
		return o, fmt.Errorf("remove the results of the run before: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return o, fmt.Errorf("make a place for results: %w", err)
	}
	url, end, err := h.start(ctx, c, dir)
	if err != nil {
		return o, fmt.Errorf("start %s: %w", c.name(), err)
	}
	defer end()
	for i := range repeat {
		bounded, cancel := context.WithTimeout(ctx, cellTime)
		r, err := h.suite(bounded, c.harness, url, filepath.Join(dir, fmt.Sprint(i+1)))
		cancel()
		if err != nil {
			return o, fmt.Errorf("run %d: %w", i+1, err)
		}
		o.add(i+1, r)
	}
	return o, nil
}
