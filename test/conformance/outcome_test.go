package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A run fails because of an unexpected failure, of an expected one that passes, and of
// an expectation of a scenario that is not judged.
func TestOutcome_Faults(t *testing.T) {
	for _, tt := range []struct {
		name     string
		expected map[string]string
		failing  []string
		faults   []string // part of each
		passed   int
	}{
		{name: "all pass", passed: 2},
		{name: "an unexpected failure", failing: []string{"ping"}, faults: []string{"ping fails"}, passed: 1},
		{name: "an expected failure", expected: map[string]string{"ping": "why"}, failing: []string{"ping"}, passed: 1},
		{name: "an expected failure passes", expected: map[string]string{"ping": "why"}, faults: []string{"ping passes and is listed"}, passed: 2},
		{name: "headers are judged and not scored", failing: []string{"http-header-validation"}, faults: []string{"http-header-validation fails"}, passed: 2},
		{name: "a scenario that is neither may fail", failing: []string{"tasks-lifecycle"}, passed: 2},
		{name: "an expected failure of a scenario that is neither", expected: map[string]string{"tasks-lifecycle": "why"}, faults: []string{"no scenario"}, passed: 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := result{
				scored:   []string{"ping", "tools-list"},
				unscored: []string{"http-header-validation", "tasks-lifecycle"},
				failures: map[string][]string{},
			}
			for _, s := range tt.failing {
				r.failures[s] = []string{"a check"}
			}
			o := outcome{expected: tt.expected}
			o.add(1, r)
			if len(o.faults) != len(tt.faults) {
				t.Fatalf("faults: %q, want %q", o.faults, tt.faults)
			}
			for i, part := range tt.faults {
				if !strings.Contains(o.faults[i], part) {
					t.Errorf("fault %q does not contain %q", o.faults[i], part)
				}
			}
			if o.passed != tt.passed || o.scored != 2 {
				t.Errorf("%d of %d passed, want %d of 2", o.passed, o.scored, tt.passed)
			}
		})
	}
}

func TestOutcome_ScenarioCountsIfItPassesInEveryRun(t *testing.T) {
	var o outcome
	o.add(1, result{scored: []string{"ping", "tools-list"}, failures: map[string][]string{"ping": {"timeout"}}})
	o.add(2, result{scored: []string{"ping", "tools-list"}, failures: map[string][]string{}})
	if o.passed != 1 || o.runs != 2 || o.failed["ping"] != 1 {
		t.Errorf("%d passed in %d runs, ping failed %d times", o.passed, o.runs, o.failed["ping"])
	}
}

func TestRead_SuiteFiles(t *testing.T) {
	dir := t.TempDir()
	for name, checks := range map[string]string{
		"ping":       `[{"id":"ping","status":"SUCCESS"},{"id":"wire","status":"FAILURE","errorMessage":"no","details":{"a": 1}}]`,
		"tools-list": `[{"id":"tools-list","status":"SUCCESS"},{"id":"names","status":"WARNING"}]`,
		"caching":    `[]`,
	} {
		d := filepath.Join(dir, "server-"+name+"-2026-11-21T12-41-01-518Z")
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, "checks.json"), []byte(checks), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := result{scored: []string{"ping", "tools-list", "caching", "prompts-list"}}
	if err := r.read(dir, "server-"); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"ping":         {"wire: no\n      {\"a\":1}"},
		"caching":      {"the scenario checked nothing"},
		"prompts-list": {"the scenario left no result"},
	}
	if diff := cmp.Diff(want, r.failures); diff != "" {
		t.Error(diff)
	}
}

// Each file of expected failures belongs to a cell, and can be read.
func TestExpectedFailuresBelongToCells(t *testing.T) {
	known := map[string]bool{}
	for _, c := range cells() {
		known[filepath.Base(c.expectedFile())] = true
	}
	files, err := filepath.Glob("expected/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files of expected failures: %v", err)
	}
	for _, f := range files {
		if !known[filepath.Base(f)] {
			t.Errorf("%s belongs to no cell", f)
		}
		if _, err := readReasons(f); err != nil {
			t.Error(err)
		}
	}
}
