package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// outcome is what all runs of a cell found.
type outcome struct {
	cell     cell
	expected map[string]string // scenario that fails: why it does
	runs     int
	passed   int // scored scenarios that passed in every run
	scored   int
	headers  int // scenarios about headers that passed in every run
	ofHeader int
	unscored []string       // other scenarios that failed in some run
	failed   map[string]int // judged scenario: in how many runs it failed
	faults   []string       // what is not as expected
}

// readExpected reads a file of `scenario: reason`. No file is an empty one.
func readExpected(path string) (map[string]string, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the expected failures: %w", err)
	}
	var expected map[string]string
	if err := yaml.Unmarshal(b, &expected); err != nil {
		return nil, fmt.Errorf("read the expected failures in %s: %w", path, err)
	}
	for scenario, reason := range expected {
		if strings.TrimSpace(reason) == "" {
			return nil, fmt.Errorf("%s gives no reason for %s", path, scenario)
		}
	}
	return expected, nil
}

// add takes in one run.
func (o *outcome) add(run int, r result) {
	o.runs++
	if o.failed == nil {
		o.failed = map[string]int{}
	}
	judged := r.judged()
	for _, s := range judged {
		checks, reason := r.failures[s], o.expected[s]
		if checks != nil {
			o.failed[s]++
		}
		switch {
		case checks != nil && reason == "":
			o.faults = append(o.faults, fmt.Sprintf("run %d: %s fails:\n    %s", run, s, strings.Join(checks, "\n    ")))
		case checks == nil && reason != "":
			o.faults = append(o.faults, fmt.Sprintf("run %d: %s passes and is listed as failing; remove it from %s", run, s, o.cell.expectedFile()))
		}
	}
	for s := range o.expected {
		if run == 1 && !slices.Contains(judged, s) {
			o.faults = append(o.faults, fmt.Sprintf("%s names %s, which is no scenario that this cell is judged by", o.cell.expectedFile(), s))
		}
	}
	for _, s := range r.unscored {
		if r.failures[s] != nil && !slices.Contains(judged, s) && !slices.Contains(o.unscored, s) {
			o.unscored = append(o.unscored, s)
		}
	}
	o.scored, o.passed, o.ofHeader, o.headers = len(r.scored), 0, len(judged)-len(r.scored), 0
	for i, s := range judged {
		switch {
		case o.failed[s] > 0:
		case i < len(r.scored):
			o.passed++
		default:
			o.headers++
		}
	}
}

// printOutcome prints an outcome for users, failed scenarios first.
func printOutcome(w io.Writer, o outcome) {
	word := "ok  "
	if len(o.faults) > 0 {
		word = "FAIL"
	}
	fmt.Fprintf(w, "%s %-40s %d/%d scored", word, o.cell.name(), o.passed, o.scored)
	if o.ofHeader > 0 {
		fmt.Fprintf(w, ", %d/%d about headers", o.headers, o.ofHeader)
	}
	fmt.Fprintf(w, ", %d expected to fail, %d runs\n", len(o.expected), o.runs)
	for _, f := range o.faults {
		fmt.Fprintln(w, "  "+f)
	}
}
