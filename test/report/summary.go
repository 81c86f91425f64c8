package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
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

// duration is how long a stage or a package took, in seconds.
type duration struct {
	name    string
	seconds float64
}

// summary counts tests and keeps what is printed at the end. Of a test with
// subtests only the innermost are counted.
type summary struct {
	out     io.Writer
	output  map[string]*strings.Builder // by package and test, until it passes
	parents map[string]bool
	skips   []string
	// lines are go test's own closing lines, one for each package.
	lines                   []string
	stages, packages        []duration
	passed, failed, skipped int
}

func newSummary(out io.Writer) *summary {
	return &summary{out: out, output: map[string]*strings.Builder{}, parents: map[string]bool{}}
}

// readTimes adds the stages of a file, which may be missing: "" for none.
func (s *summary) readTimes(file string) error {
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the durations of earlier stages: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		seconds, name, _ := strings.Cut(strings.TrimSpace(line), "\t")
		n, err := strconv.ParseFloat(seconds, 64)
		if err != nil {
			return fmt.Errorf("%s: %q does not begin with seconds", file, line)
		}
		s.stages = append(s.stages, duration{name, n})
	}
	return nil
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
		s.printUnended(e.Package)
		s.lines = append(s.lines, fmt.Sprintf("FAIL\t%s\t%.3fs", e.Package, e.Elapsed))
	default:
		s.lines = append(s.lines, fmt.Sprintf("ok  \t%s\t%.3fs", e.Package, e.Elapsed))
	}
	s.packages = append(s.packages, duration{e.Package, e.Elapsed})
	fmt.Fprintln(s.out, s.lines[len(s.lines)-1])
}

// maxUnended bounds the output of a test that did not end, in bytes: a timeout's has the
// stacks of all goroutines.
const maxUnended = 200 << 10

// printUnended prints the output of the tests that ran when their process ended: by a timeout,
// a panic or a signal, which are in it.
func (s *summary) printUnended(pkg string) {
	for _, k := range slices.Sorted(maps.Keys(s.output)) {
		name, ok := strings.CutPrefix(k, key(pkg, ""))
		if !ok || name == "" {
			continue
		}
		output := s.output[k].String()
		fmt.Fprintf(s.out, "!! %s did not end\n%s\n", name, output[:min(len(output), maxUnended)])
		delete(s.output, k)
	}
}

// reason is the message of a skipped test.
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

// close prints the summary and reports whether everything passed. A run without
// a test did not pass.
func (s *summary) close() bool {
	fmt.Fprintln(s.out, "\n== summary")
	for _, line := range s.lines {
		fmt.Fprintln(s.out, line)
	}
	s.printSlowest("stages", s.stages)
	s.printSlowest("packages", s.packages)
	if len(s.skips) > 0 {
		fmt.Fprintf(s.out, "\n!! %d TESTS DID NOT RUN\n", len(s.skips))
		for _, skip := range s.skips {
			fmt.Fprintln(s.out, "!! "+skip)
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

// printSlowest prints the ten that took longest.
func (s *summary) printSlowest(what string, all []duration) {
	const most = 10
	if len(all) == 0 {
		return
	}
	sorted := slices.SortedStableFunc(slices.Values(all), func(a, b duration) int { return cmp.Compare(b.seconds, a.seconds) })
	fmt.Fprintf(s.out, "\nslowest %s, seconds:\n", what)
	for _, d := range sorted[:min(most, len(sorted))] {
		fmt.Fprintf(s.out, "%8.1f  %s\n", d.seconds, d.name)
	}
}
