package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const preamble = `# Conformance

Written by ` + "`make conformance`" + `; do not edit. The official suite, npm
` + "`@modelcontextprotocol/conformance`" + ` at the version of test/conformance/package.json,
speaks one revision of the protocol (the harness) to a server, directly and through
the gateway of ` + "`thv run`" + `. The numbers are scored scenarios that passed, of those
that the revision requires; "headers" are the unscored scenarios about HTTP headers.
Runs of each cell in a row: %d. A scenario counts when it passed in all of them.
A dash is a cell that cannot be: the suite speaks streamable HTTP only, and of one era
at a time. npm's server-everything has other tools than the suite asks for: its rows say
only that the gateway changes nothing. It answers foreign Host headers; the gateway does not.
The TypeScript SDK's everything server is not on npm: the one measured here is ours, on the
SDK of npm, test/conformance/servers/typescript.mjs.

`

// document is docs/conformance.md.
func document(outcomes []outcome, repeat int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, preamble, repeat)
	b.WriteString("| harness | server | direct | gateway | headers, gateway |\n|---|---|---|---|---|\n")
	type row struct{ harness, backend string }
	at := map[row]map[bool]outcome{}
	var rows []row
	for _, o := range outcomes {
		r := row{o.cell.harness, o.cell.backend.name}
		if at[r] == nil {
			at[r] = map[bool]outcome{}
			rows = append(rows, r)
		}
		at[r][o.cell.gateway] = o
	}
	slices.SortStableFunc(rows, func(a, b row) int { return strings.Compare(a.harness, b.harness) })
	for _, r := range rows {
		direct, gateway := at[r][false], at[r][true]
		what := max(direct.cell.backend.what, gateway.cell.backend.what) // one of them may be absent
		headers := "-"
		if gateway.ofHeader > 0 {
			headers = fmt.Sprintf("%d/%d", gateway.headers, gateway.ofHeader)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.harness, what, score(direct), score(gateway), headers)
	}
	for _, o := range outcomes {
		notes(&b, o)
	}
	return b.Bytes()
}

func score(o outcome) string {
	if o.cell.harness == "" {
		return "-"
	}
	if o.runs == 0 {
		return "did not run"
	}
	return fmt.Sprintf("%d/%d", o.passed, o.scored)
}

// notes explains a cell in which something fails.
func notes(b *bytes.Buffer, o outcome) {
	if len(o.failed) == 0 && len(o.unscored) == 0 && o.runs > 0 {
		return
	}
	fmt.Fprintf(b, "\n## %s\n", o.cell.name())
	if o.runs == 0 {
		fmt.Fprintf(b, "\nThe servers of this cell did not start, or the suite did not end.\n")
	}
	if len(o.failed) > 0 {
		b.WriteString("\n")
	}
	for _, s := range slices.Sorted(maps.Keys(o.failed)) {
		reason := o.expected[s]
		if reason == "" {
			reason = fmt.Sprintf("**not expected**; failed in %d of %d runs", o.failed[s], o.runs)
		}
		fmt.Fprintf(b, "- %s: %s\n", s, strings.Join(strings.Fields(reason), " "))
	}
	if len(o.unscored) > 0 {
		fmt.Fprintf(b, "\nNot scored, and failing: %s.\n", strings.Join(o.unscored, ", "))
	}
}
