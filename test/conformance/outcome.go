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

// outcome is the result of all runs of a cell.
type outcome struct {
	cell     cell
	expected map[string]string // scenario that fails: why it does
	runs     int
	passed   int // scored scenarios that passed in every run
	scored   int
	headers  int // judged scenarios that are not scored and passed in every run
	ofHeader int
	checks   map[string][]check // of each scenario, in the run in which the fewest passed
	unscored []string           // other scenarios that failed in some run
	failed   map[string]int     // judged scenario: number of runs in which it failed
	faults   []string           // results that are not as expected
}

// tally counts the checks of all scenarios, scored or not.
func (o outcome) tally() tally { return tallyOf(o.checks) }

func tallyOf(checks map[string][]check) (t tally) {
	for _, cs := range checks {
		n := count(cs)
		t.passed += n.passed
		t.failed += n.failed
	}
	return t
}

// readReasons reads a file of `scenario: reason`. A missing file counts as empty.
func readReasons(path string) (map[string]string, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the reasons: %w", err)
	}
	var reasons map[string]string
	if err := yaml.Unmarshal(b, &reasons); err != nil {
		return nil, fmt.Errorf("read the reasons in %s: %w", path, err)
	}
	for scenario, reason := range reasons {
		if strings.TrimSpace(reason) == "" {
			return nil, fmt.Errorf("%s gives no reason for %s", path, scenario)
		}
	}
	return reasons, nil
}

// add adds the result of one run.
func (o *outcome) add(run int, r result) {
	o.runs++
	if o.checks == nil || tallyOf(r.checks).passed < o.tally().passed {
		o.checks = r.checks
	}
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
			o.faults = append(o.faults, fmt.Sprintf("%s names %s, which is no scenario that can fail this cell", o.cell.expectedFile(), s))
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
		fmt.Fprintf(w, ", %d/%d not scored", o.headers, o.ofHeader)
	}
	fmt.Fprintf(w, ", %s checks, %d expected to fail, %d runs\n", o.tally(), len(o.expected), o.runs)
	for _, f := range o.faults {
		fmt.Fprintln(w, "  "+f)
	}
}
