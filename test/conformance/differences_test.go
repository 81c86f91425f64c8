package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func checksOf(statuses ...string) (all []check) {
	for _, s := range statuses {
		id, status, _ := strings.Cut(s, " ")
		all = append(all, check{ID: id, Status: status})
	}
	return all
}

// The suite counts SUCCESS and FAILURE only.
func TestCount(t *testing.T) {
	got := count(checksOf("a SUCCESS", "b FAILURE", "c SUCCESS", "d INFO", "e WARNING", "f SKIPPED"))
	if got != (tally{passed: 2, failed: 1}) || got.String() != "2/3" {
		t.Errorf("count returned %+v, printed as %s", got, got)
	}
}

// pair returns the outcomes of a server that was measured directly and behind the gateway.
func pair(direct, gateway map[string][]check) []outcome {
	c := cell{harness: session, backend: backend{name: "server", what: "a server"}}
	behind := c
	behind.gateway = true
	return []outcome{{cell: c, runs: 1, checks: direct}, {cell: behind, runs: 1, checks: gateway}}
}

func TestDifferences(t *testing.T) {
	outcomes := pair(map[string][]check{
		"same":      checksOf("a SUCCESS", "b INFO"),
		"uncounted": checksOf("a SUCCESS", "b INFO"),
		"fails":     checksOf("a SUCCESS"),
		"fewer":     checksOf("a SUCCESS", "b SUCCESS"),
		"more":      checksOf("a SUCCESS"),
		"worse":     checksOf("a SUCCESS"),
	}, map[string][]check{
		"same":      checksOf("a SUCCESS", "b INFO"),
		"uncounted": checksOf("a SUCCESS", "b WARNING", "c INFO"),
		"fails":     checksOf("a FAILURE"),
		"fewer":     checksOf("a SUCCESS", "b INFO"),
		"more":      checksOf("a SUCCESS", "b SUCCESS"),
		"worse":     checksOf("a SUCCESS", "b FAILURE"),
	})
	outcomes[1].expected = map[string]string{"fails": "expected to"}
	rows := rowsOf(outcomes)
	if len(rows) != 1 {
		t.Fatalf("%d rows of one server", len(rows))
	}
	want := []difference{
		{"fails", tally{1, 0}, tally{0, 1}, "expected to"},
		{"fewer", tally{2, 0}, tally{1, 0}, "why"},
		{"more", tally{1, 0}, tally{2, 0}, "the suite ran fewer of its checks without the gateway; all of them passed with it"},
		{"worse", tally{1, 0}, tally{1, 1}, ""},
	}
	got := rows[0].differences(map[string]string{"fewer": "why"})
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(difference{}, tally{})); diff != "" {
		t.Error(diff)
	}
}

// A difference without a reason fails each run, a reason without a difference a complete one.
func TestDifferenceFaults(t *testing.T) {
	differ := pair(map[string][]check{"ping": checksOf("a SUCCESS")}, map[string][]check{"ping": checksOf("a INFO")})
	for _, tt := range []struct {
		name     string
		reasons  map[string]string
		complete bool
		faults   []string // part of each
	}{
		{name: "no reason", faults: []string{"the checks of ping differ"}},
		{name: "a reason", reasons: map[string]string{"ping": "why"}, complete: true},
		{name: "a reason of no difference", reasons: map[string]string{"ping": "why", "tools-list": "why"}, complete: true, faults: []string{"names tools-list"}},
		{name: "the same in a part of the cells", reasons: map[string]string{"ping": "why", "tools-list": "why"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := differenceFaults(differ, tt.reasons, tt.complete)
			if len(got) != len(tt.faults) {
				t.Fatalf("faults: %q, want %q", got, tt.faults)
			}
			for i, part := range tt.faults {
				if !strings.Contains(got[i], part) {
					t.Errorf("fault %q does not contain %q", got[i], part)
				}
			}
		})
	}
}

// A cell that was not measured, or did not run, has no differences.
func TestDifferences_NotMeasured(t *testing.T) {
	outcomes := pair(map[string][]check{"ping": checksOf("a SUCCESS")}, nil)
	outcomes[1].runs = 0
	for _, o := range [][]outcome{outcomes, outcomes[:1], outcomes[1:]} {
		if got := differenceFaults(o, nil, true); got != nil {
			t.Errorf("faults: %q", got)
		}
	}
}

func TestDocument_CountsAndExplainsChecks(t *testing.T) {
	outcomes := pair(map[string][]check{"ping": checksOf("a SUCCESS", "b SUCCESS")}, map[string][]check{"ping": checksOf("a SUCCESS", "b INFO")})
	for i := range outcomes {
		outcomes[i].passed, outcomes[i].scored = 1, 1
	}
	got := string(document(outcomes, 1, map[string]string{"ping": "the reason\nin two lines"}))
	for _, part := range []string{
		"| 2025-11-25 | a server | 1/1 | 2/2 | 1/1 | 1/1 | - |",
		"2025-11-25, a server: direct 2/2, gateway 1/1",
		"- ping, direct 2/2, gateway 1/1: the reason in two lines",
	} {
		if !strings.Contains(got, part) {
			t.Errorf("the document does not contain %q:\n%s", part, got)
		}
	}
}

// The reasons of differences can be read.
func TestDifferencesFile(t *testing.T) {
	reasons, err := readReasons("differences.yaml")
	if err != nil || len(reasons) == 0 {
		t.Errorf("readReasons returned %v, %v", reasons, err)
	}
}
