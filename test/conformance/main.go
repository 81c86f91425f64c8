// Command conformance measures Toolhaven with the official suite of the Model
// Context Protocol (npm @modelcontextprotocol/conformance), as `make conformance`.
//
// A cell is one measurement: a harness, which is the suite with one revision of the
// protocol; a backend, which is a third-party MCP server; and the connection between
// them, direct or through the gateway that `thv run` starts. In the cells of the client
// suite, the suite is the server, and a third-party client calls it. The cells are a
// table in cells.go. Two of them run at a time.
//
// The suite reports scenarios. Those that a revision requires are scored, and the
// scenarios about HTTP headers are judged with them, though the suite does not score
// them. A scenario that cannot pass in a cell is listed, with the reason, in
// expected/CELL.yaml. One that fails without being listed fails the run, and so does
// one that is listed and passes. Each scenario consists of checks. A scenario whose
// checks have other results behind the gateway than directly is listed, with the
// reason, in differences.yaml, by the same rule.
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
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

// cellTime bounds one run of the suite: 70 scenarios, of which each may take 30
// seconds to fail.
const cellTime = 20 * time.Minute

// cellsAtATime is how many cells run in parallel. They share neither ports nor names.
const cellsAtATime = 2

func command(ctx context.Context, args []string) error {
	switch {
	case len(args) > 0 && args[0] == "behind":
		return behind(ctx, args[1:])
	case len(args) > 0 && args[0] == "browse":
		return browse(ctx, args[1:])
	}
	return run(ctx, args)
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	only := flags.String("cell", "", "run only cells whose name contains this, and do not write docs/conformance.md")
	repeat := flags.Int("repeat", 1, "the number of runs of each cell")
	thv := flags.String("thv", "bin/thv", "the program under test")
	cache := flags.String("cache", "test/.cache/conformance", "the folder that test/setup/conformance.sh installed")
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

	reasons, err := readReasons(differencesFile)
	if err != nil {
		return err
	}
	outcomes, err := h.measureAll(ctx, chosen, *repeat)
	if err != nil {
		return err
	}
	complete := *only == ""
	faults := differenceFaults(outcomes, reasons, complete)
	for _, f := range faults {
		fmt.Println("FAIL", f)
	}
	fmt.Printf("the suite's output and every failing check: %s\n", h.results)
	if complete {
		if err := os.WriteFile("docs/conformance.md", document(outcomes, *repeat, reasons), 0o644); err != nil {
			return fmt.Errorf("write the table: %w", err)
		}
		fmt.Println("wrote docs/conformance.md")
	}
	failed := 0
	for _, o := range outcomes {
		if len(o.faults) > 0 {
			failed++
		}
	}
	if failed+len(faults) > 0 {
		return fmt.Errorf("%d of %d cells and %d differences are not as expected", failed, len(outcomes), len(faults))
	}
	return nil
}

// measureAll measures the cells, some at a time, and prints each outcome. The outcomes
// are in the order of the cells.
func (h *harness) measureAll(ctx context.Context, chosen []cell, repeat int) ([]outcome, error) {
	if slices.ContainsFunc(chosen, func(c cell) bool { return c.backend.image == goImage }) {
		if err := h.makeImage(ctx); err != nil {
			return nil, err
		}
	}
	outcomes := make([]outcome, len(chosen))
	var printing sync.Mutex
	var group errgroup.Group
	group.SetLimit(cellsAtATime)
	for i, c := range chosen {
		group.Go(func() error {
			o, err := h.measure(ctx, c, repeat)
			if ctx.Err() != nil {
				return errors.New("interrupted")
			}
			if err != nil {
				o.faults = append(o.faults, err.Error())
			}
			outcomes[i] = o
			printing.Lock()
			defer printing.Unlock()
			printOutcome(os.Stdout, o)
			return nil
		})
	}
	return outcomes, group.Wait()
}

func matching(all []cell, part string) (chosen []cell) {
	for _, c := range all {
		if strings.Contains(c.name(), part) {
			chosen = append(chosen, c)
		}
	}
	return chosen
}

// measure starts a cell's servers and runs the suite with them.
func (h *harness) measure(ctx context.Context, c cell, repeat int) (outcome, error) {
	o := outcome{cell: c}
	expected, err := readReasons(c.expectedFile())
	if err != nil {
		return o, err
	}
	o.expected = expected
	dir := filepath.Join(h.results, c.file())
	if err := os.RemoveAll(dir); err != nil {
		return o, fmt.Errorf("remove the results of the run before: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return o, fmt.Errorf("make a folder for results: %w", err)
	}
	suite, end, err := h.prepare(ctx, c, dir)
	if err != nil {
		return o, fmt.Errorf("start %s: %w", c.name(), err)
	}
	defer end()
	for i := range repeat {
		bounded, cancel := context.WithTimeout(ctx, cellTime)
		r, err := suite(bounded, filepath.Join(dir, fmt.Sprint(i+1)))
		cancel()
		if err != nil {
			return o, fmt.Errorf("run %d: %w", i+1, err)
		}
		o.add(i+1, r)
	}
	return o, nil
}

// prepare returns the function that runs the suite with a cell's servers. end stops what
// prepare started.
func (h *harness) prepare(ctx context.Context, c cell, dir string) (suite func(context.Context, string) (result, error), end func(), err error) {
	if c.backend.clientSuite {
		return func(ctx context.Context, dir string) (result, error) {
			return h.runClientSuite(ctx, c, dir)
		}, func() {}, nil
	}
	url, end, err := h.start(ctx, c, dir)
	return func(ctx context.Context, dir string) (result, error) {
		return h.suite(ctx, c.harness, url, dir)
	}, end, err
}
