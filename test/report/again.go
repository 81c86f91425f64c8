package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// mostAgain is how many tests of a stage are run a second time. More failures
// than these are no chance.
const mostAgain = 3

// failure is a test, one of a package's functions, that failed.
type failure struct {
	pkg, test string
	innermost int // of its subtests, that failed
	// grave says that chance is no excuse: a data race, or a panic.
	grave bool
}

// fail notes what failed, in the name of the function that it is part of.
func (s *summary) fail(e event, output string, inner bool) {
	test, _, _ := strings.Cut(e.Test, "/")
	k := key(e.Package, test)
	f := s.failures[k]
	if f == nil {
		f = &failure{pkg: e.Package, test: test}
		s.failures[k] = f
	}
	if inner {
		f.innermost++
	}
	f.grave = f.grave || strings.Contains(output, "DATA RACE") || strings.Contains(output, "panic:") || strings.Contains(output, "fatal error:")
}

// again runs the few tests of a stage that failed once more, one by one, and
// tells whether all of them pass now. Those count as passed, and are named aloud
// at the end: such a test, or what it tests, has a fault that wants to be found.
// The stage's arguments say how to test: flags are those that begin with "-" and
// have their value behind "=".
func (s *summary) again(args []string, run func([]string, *summary) error) bool {
	if len(s.failures) == 0 || len(s.failures) > mostAgain {
		return false
	}
	packages := map[string]bool{}
	for _, f := range s.failures {
		if f.grave {
			return false
		}
		packages[f.pkg] = true
	}
	for _, pkg := range s.failing {
		if !packages[pkg] { // it did not build, or failed beside its tests
			return false
		}
	}
	flags := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return !strings.HasPrefix(arg, "-") })
	for _, k := range slices.Sorted(maps.Keys(s.failures)) {
		f := s.failures[k]
		fmt.Fprintf(s.out, "== once more: %s %s\n", f.pkg, f.test)
		second := newSummary(s.out)
		if err := run(slices.Concat(flags, []string{"-count=1", "-run=^" + f.test + "$", f.pkg}), second); err != nil || second.failed > 0 || second.passed == 0 {
			return false
		}
	}
	for _, f := range s.failures {
		s.failed -= f.innermost
		s.passed += f.innermost
		s.chance = append(s.chance, f.pkg+" "+f.test)
	}
	for i, line := range s.lines {
		if pkg, is := strings.CutPrefix(line, "FAIL\t"); is {
			s.lines[i] = "ok  \t" + pkg + " (with a test that passed only when run again)"
		}
	}
	return true
}
