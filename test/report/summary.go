package main

import (
	"fmt"
	"io"
	"strings"
)

// event is one line of `go test -json` (go doc test2json).
type event struct {
	Action     string
	Package    string
	ImportPath string // of build output
	Test       string
	Output     string
	Elapsed    float64 // seconds
}

// summary counts tests and keeps what a person must see. A test with subtests
// counts as they do: only the innermost are counted.
type summary struct {
	out     io.Writer
	output  map[string]*strings.Builder // by package and test, until it passes
	parents map[string]bool
	skips   []string
	// failures are the functions of the stage that failed, by package and name,
	// and failing its packages.
	failures map[string]*failure
	failing  []string
	chance   []string // what failed and passed when it was run again
	// lines are go test's own closing lines, one for each package.
	lines                   []string
	passed, failed, skipped int
}

func newSummary(out io.Writer) *summary {
	s := &summary{out: out, output: map[string]*strings.Builder{}, parents: map[string]bool{}}
	s.begin()
	return s
}

// begin a stage.
func (s *summary) begin() {
	s.failures, s.failing = map[string]*failure{}, nil
}

func key(pkg, test string) string { return pkg + "\x00" + test }

func (s *summary) add(e event) {
	k := key(e.Package, e.Test)
	switch e.Action {
	case "run":
		if i := strings.LastIndex(e.Test, "/"); i > 0 {
			s.parents[key(e.Package, e.Test[:i])] = true
		}
	case "output":
		s.keep(k, e.Output)
	case "build-output":
		fmt.Fprint(s.out, e.Output)
	case "pass", "skip", "fail":
		s.end(k, e)
		delete(s.output, k)
	}
}

func (s *summary) keep(k, text string) {
	if s.output[k] == nil {
		s.output[k] = &strings.Builder{}
	}
	s.output[k].WriteString(text)
}

func (s *summary) end(k string, e event) {
	output := ""
	if b := s.output[k]; b != nil {
		output = b.String()
	}
	if e.Test == "" {
		s.endPackage(e, output)
		return
	}
	inner := !s.parents[k]
	switch {
	case e.Action == "fail":
		fmt.Fprint(s.out, output)
		s.fail(e, output, inner)
		if inner {
			s.failed++
		}
	case e.Action == "skip" && inner:
		s.skipped++
		s.skips = append(s.skips, fmt.Sprintf("%s %s: %s", e.Package, e.Test, reason(output)))
	case inner:
		s.passed++
	}
}

func (s *summary) endPackage(e event, output string) {
	switch e.Action {
	case "skip": // no test files
		return
	case "fail":
		fmt.Fprint(s.out, output)
		s.failing = append(s.failing, e.Package)
		s.lines = append(s.lines, fmt.Sprintf("FAIL\t%s\t%.3fs", e.Package, e.Elapsed))
	default:
		s.lines = append(s.lines, fmt.Sprintf("ok  \t%s\t%.3fs", e.Package, e.Elapsed))
	}
	fmt.Fprintln(s.out, s.lines[len(s.lines)-1])
}

// reason is what a skipped test said.
func reason(output string) string {
	var words []string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---") {
			words = append(words, line)
		}
	}
	if len(words) == 0 {
		return "no reason given"
	}
	return strings.Join(words, " ")
}

// close prints the sum and tells whether all is well. A run that tested nothing
// is not.
func (s *summary) close() bool {
	fmt.Fprintln(s.out, "\n== summary")
	for _, line := range s.lines {
		fmt.Fprintln(s.out, line)
	}
	if len(s.skips) > 0 {
		fmt.Fprintf(s.out, "\n!! %d TESTS DID NOT RUN\n", len(s.skips))
		for _, skip := range s.skips {
			fmt.Fprintln(s.out, "!! "+skip)
		}
	}
	if len(s.chance) > 0 {
		fmt.Fprintf(s.out, "\n!! %d TESTS FAILED, AND PASSED WHEN RUN AGAIN (their output is above)\n", len(s.chance))
		for _, test := range s.chance {
			fmt.Fprintln(s.out, "!! "+test)
		}
	}
	failedPackages := 0
	for _, line := range s.lines {
		if strings.HasPrefix(line, "FAIL") {
			failedPackages++
		}
	}
	if s.failed == 0 {
		s.failed = failedPackages // a package that did not build has no tests
	}
	fmt.Fprintf(s.out, "\n%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped)
	return s.failed == 0 && s.passed > 0
}
