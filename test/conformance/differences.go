package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// row is a revision and a server: what was measured directly and through the gateway.
// An outcome without a cell was not measured.
type row struct{ direct, gateway outcome }

// measured returns an outcome that has a cell.
func (r row) measured() outcome {
	if r.gateway.cell.harness != "" {
		return r.gateway
	}
	return r.direct
}

// rowsOf pairs outcomes, in the order of the revisions and then of the cells.
func rowsOf(outcomes []outcome) []row {
	type key struct{ harness, backend string }
	at := map[key]int{}
	var rows []row
	for _, o := range outcomes {
		k := key{o.cell.harness, o.cell.backend.name}
		i, ok := at[k]
		if !ok {
			i = len(rows)
			at[k] = i
			rows = append(rows, row{})
		}
		if o.cell.gateway {
			rows[i].gateway = o
		} else {
			rows[i].direct = o
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		return strings.Compare(a.measured().cell.harness, b.measured().cell.harness)
	})
	return rows
}

// difference is a scenario whose checks have other results behind the gateway.
type difference struct {
	scenario        string
	direct, gateway tally
	reason          string // empty if none is recorded
}

// differences returns the scenarios of a row whose checks that passed or failed are not
// the same. Its reason is that of reasons, by scenario, or of an expected failure.
func (r row) differences(reasons map[string]string) (all []difference) {
	if r.direct.runs == 0 || r.gateway.runs == 0 {
		return nil
	}
	scenarios := maps.Clone(r.direct.checks)
	maps.Copy(scenarios, r.gateway.checks)
	for _, s := range slices.Sorted(maps.Keys(scenarios)) {
		direct, gateway := r.direct.checks[s], r.gateway.checks[s]
		if !maps.Equal(results(direct), results(gateway)) {
			reason := cmp.Or(reasons[s], r.gateway.expected[s], r.direct.expected[s])
			if reason == "" && passesMore(results(gateway), results(direct)) {
				reason = "the suite ran fewer of its checks without the gateway; all of them passed with it"
			}
			all = append(all, difference{s, count(direct), count(gateway), reason})
		}
	}
	return all
}

// results counts the checks that passed or failed, by id and status.
func results(checks []check) map[[2]string]int {
	by := map[[2]string]int{}
	for _, c := range checks {
		if c.Status == success || c.Status == failure {
			by[[2]string{c.ID, c.Status}]++
		}
	}
	return by
}

// passesMore reports whether the checks behind the gateway are those of the direct run and
// more that passed. Some checks of the suite depend on how fast a server is.
func passesMore(gateway, direct map[[2]string]int) bool {
	for result, n := range direct {
		if gateway[result] < n {
			return false
		}
	}
	for result, n := range gateway {
		if result[1] == failure && n > direct[result] {
			return false
		}
	}
	return true
}

// differencesFile holds the reasons of differences, by scenario.
const differencesFile = "test/conformance/differences.yaml"

// differenceFaults returns the differences without a recorded reason and, of a complete
// run, the recorded reasons without a difference.
func differenceFaults(outcomes []outcome, reasons map[string]string, complete bool) (faults []string) {
	unused := maps.Clone(reasons)
	for _, r := range rowsOf(outcomes) {
		for _, d := range r.differences(reasons) {
			delete(unused, d.scenario)
			if d.reason == "" {
				faults = append(faults, fmt.Sprintf("%s: the checks of %s differ from the direct run (%s, direct %s), and %s gives no reason",
					r.gateway.cell.name(), d.scenario, d.gateway, d.direct, differencesFile))
			}
		}
	}
	if complete {
		for _, s := range slices.Sorted(maps.Keys(unused)) {
			faults = append(faults, fmt.Sprintf("%s names %s, whose checks do not differ; remove it", differencesFile, s))
		}
	}
	return faults
}
