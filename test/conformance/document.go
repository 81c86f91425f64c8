package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const preamble = `# Conformance

Written by ` + "`make conformance`" + `; do not edit. The official suite, npm
` + "`@modelcontextprotocol/conformance`" + ` at the version of test/conformance/package.json,
sends requests of one revision of the protocol to a server, directly and through the
gateway of ` + "`thv run`" + `.

- Scenarios: the scored ones that passed, of those that the revision requires. Runs of
  each cell in a row: %d. A scenario counts if it passed in all of them.
- Checks: a scenario consists of several. The number is of the checks that passed, of
  those that passed or failed, in all scenarios, scored or not, as the suite counts them.
  Most checks that fail are of the scenarios tasks-*, an extension that no measured server
  implements. Below the table is a reason for each scenario whose checks differ between
  direct and gateway.
- Headers: the unscored scenarios about HTTP headers.
- A dash is a cell that cannot exist: the suite supports only streamable HTTP, and one era
  per run.
- npm's server-everything lacks most of the tools that the suite calls. Its rows show only
  that the gateway makes no result worse.
- The TypeScript SDK's everything server is not on npm. The one measured here is ours, on
  the SDK of npm: test/conformance/servers/typescript.mjs.
- That server's gateway over streamable HTTP runs with every optional stage but access
  tokens, which the suite cannot send: an override of tools, policies, audit and a webhook
  change no result.
- Client suite: for each of its scenarios for clients, the suite starts a server and runs a
  client with the server's URL. The client is go-sdk's everything-client. In the column
  "gateway", it gets the URL of ` + "`thv run URL`" + ` instead, and the suite checks what the gateway
  sends.
- OAuth: in the scenarios auth/*, the server requires a token. ` + "`thv run URL`" + ` logs in, with a
  browser whose user consents at once, and go-sdk's client calls the gateway, without a token. If
  the call fails for missing scopes, ` + "`thv login`" + ` follows, and a second call. The
  extensions, which are not scored, are in the table below.

`

// document returns docs/conformance.md.
func document(outcomes []outcome, repeat int, reasons map[string]string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, preamble, repeat)
	b.WriteString("| revision | server | direct: scenarios | checks | gateway: scenarios | checks | headers |\n" +
		"|---|---|---|---|---|---|---|\n")
	rows := rowsOf(outcomes)
	for _, r := range rows {
		cell := r.measured().cell
		headers := "-"
		if r.gateway.ofHeader > 0 && !cell.backend.oauth {
			headers = fmt.Sprintf("%d/%d", r.gateway.headers, r.gateway.ofHeader)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n",
			cell.harness, cell.backend.what, score(r.direct), score(r.gateway), headers)
	}
	writeOAuth(&b, outcomes)
	writeDifferences(&b, rows, reasons)
	for _, o := range outcomes {
		if !o.cell.backend.oauth || o.runs == 0 {
			writeFailures(&b, o)
		}
	}
	return b.Bytes()
}

// score returns two columns of the table, the scenarios and the checks.
func score(o outcome) string {
	switch {
	case o.cell.harness == "":
		return "- | -"
	case o.runs == 0:
		return "did not run | -"
	}
	return fmt.Sprintf("%d/%d | %s", o.passed, o.scored, o.tally())
}

// writeOAuth lists every scenario about OAuth, with its result in each revision and the
// reason of an expected failure.
func writeOAuth(b *bytes.Buffer, outcomes []outcome) {
	measured := map[string]outcome{} // by revision
	scenarios := map[string]bool{}
	for _, o := range outcomes {
		if !o.cell.backend.oauth {
			continue
		}
		measured[o.cell.harness] = o
		for s := range o.checks {
			scenarios[s] = true
		}
	}
	if len(scenarios) == 0 {
		return
	}
	revisions := slices.Sorted(maps.Keys(measured))
	fmt.Fprintf(b, "\n## OAuth\n\n| scenario | %s | reason of a failure |\n|---|%s---|\n", strings.Join(revisions, " | "), strings.Repeat("---|", len(revisions)))
	for _, s := range slices.Sorted(maps.Keys(scenarios)) {
		var results []string
		reason := ""
		for _, r := range revisions {
			result, why := measured[r].result(s)
			results = append(results, result)
			reason = cmp.Or(reason, why)
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", strings.TrimPrefix(s, oauthScenarios), strings.Join(results, " | "), oneLine(reason))
	}
}

// result returns the entry of a scenario in the table, and the reason of a failure.
func (o outcome) result(scenario string) (result, reason string) {
	checks := o.checks[scenario]
	switch {
	case checks == nil:
		return "-", ""
	case o.failed[scenario] == 0:
		return fmt.Sprintf("passes, %s checks", count(checks)), ""
	case o.expected[scenario] == "":
		return "**fails**", "**not expected**"
	}
	return "expected failure", o.expected[scenario]
}

// writeDifferences explains each row whose checks differ between direct and gateway.
func writeDifferences(b *bytes.Buffer, rows []row, reasons map[string]string) {
	title := "\n## Checks that differ behind the gateway\n"
	for _, r := range rows {
		all := r.differences(reasons)
		if len(all) == 0 {
			continue
		}
		cell := r.gateway.cell
		fmt.Fprintf(b, "%s\n%s, %s: direct %s, gateway %s\n\n", title, cell.harness, cell.backend.what, r.direct.tally(), r.gateway.tally())
		title = ""
		for _, d := range all {
			reason := d.reason
			if reason == "" {
				reason = "**no reason is recorded**"
			}
			fmt.Fprintf(b, "- %s, direct %s, gateway %s: %s\n", d.scenario, d.direct, d.gateway, oneLine(reason))
		}
	}
}

// writeFailures explains a cell in which a scenario fails.
func writeFailures(b *bytes.Buffer, o outcome) {
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
		fmt.Fprintf(b, "- %s: %s\n", s, oneLine(reason))
	}
	if len(o.unscored) > 0 {
		fmt.Fprintf(b, "\nNot scored, and failing: %s.\n", strings.Join(o.unscored, ", "))
	}
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
