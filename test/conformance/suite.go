package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// result is the outcome of one run of the suite.
type result struct {
	scored   []string            // scenarios that count, in the suite's order
	unscored []string            // scenarios that do not count
	checks   map[string][]check  // of each scenario that ran
	failures map[string][]string // failing checks of scenarios that failed
}

// judged returns the scenarios whose failure fails a cell: the scored ones, those about
// the headers of 2026-07-28, which a gateway writes itself, and those about OAuth, where
// it is the client.
func (r result) judged() []string {
	all := slices.Clone(r.scored)
	for _, s := range r.unscored {
		if strings.HasPrefix(s, "http-") || strings.HasPrefix(s, oauthScenarios) {
			all = append(all, s)
		}
	}
	return all
}

// suite runs the scenarios that a revision requires on a server.
func (h *harness) suite(ctx context.Context, revision, url, dir string) (result, error) {
	r, err := h.required(revision, serverLeg)
	if err != nil {
		return r, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return r, err
	}
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, h.node, filepath.Join(h.packageDir(), "dist", "index.js"),
		"server", "--url", url, "--requirements", revision, "-o", dir)
	cmd.Env = append(os.Environ(), "NO_COLOR=1")
	cmd.Stdout, cmd.Stderr = &output, &output
	runErr := cmd.Run()
	if err := os.WriteFile(filepath.Join(dir, "suite.txt"), output.Bytes(), 0o644); err != nil {
		return r, err
	}
	if ctx.Err() != nil {
		return r, fmt.Errorf("the suite did not end: %w", ctx.Err())
	}
	if err := r.read(dir, "server-"); err != nil {
		return r, err
	}
	// The exit code of the suite must agree with its files: it is not zero when a
	// scored scenario fails.
	bad := slices.ContainsFunc(r.scored, func(s string) bool { return r.failures[s] != nil })
	if bad != (runErr != nil) {
		return r, fmt.Errorf("the suite ended with %v, which its files contradict; see %s", runErr, dir)
	}
	return r, r.write(filepath.Join(dir, "failures.txt"))
}

func (h *harness) packageDir() string {
	return filepath.Join(h.cache, "node_modules", "@modelcontextprotocol", "conformance")
}

// The legs of the suite: scenarios for servers, and scenarios for clients.
const (
	serverLeg = "server"
	clientLeg = "client"
)

// required reads the scenarios of a revision from the suite's own list.
func (h *harness) required(revision, leg string) (result, error) {
	b, err := os.ReadFile(filepath.Join(h.packageDir(), "requirements", revision+".yaml"))
	if err != nil {
		return result{}, fmt.Errorf("read the requirements of the revision: %w", err)
	}
	var list struct {
		Server, Client []string
		NotScored      []struct{ Scenario, Leg string } `yaml:"not_scored"`
	}
	if err := yaml.Unmarshal(b, &list); err != nil {
		return result{}, fmt.Errorf("read the requirements of %s: %w", revision, err)
	}
	r := result{scored: list.Server}
	if leg == clientLeg {
		r.scored = list.Client
	}
	for _, n := range list.NotScored {
		if n.Leg == leg {
			r.unscored = append(r.unscored, n.Scenario)
		}
	}
	if len(r.scored) == 0 {
		return r, errors.New("the suite's list of required scenarios is empty")
	}
	return r, nil
}

// check is an entry of a scenario's checks.json.
type check struct {
	ID, Description, Status, ErrorMessage string
	Details                               json.RawMessage
}

var resultDir = regexp.MustCompile(`^(.+)-\d{4}-\d\d-\d\dT[0-9-]+Z$`)

// read collects the scenarios' checks below dir, in folders that are named PREFIX, the
// scenario and the time. A scenario without a file of checks has failed: the suite
// writes one for each that it could run.
func (r *result) read(dir, prefix string) error {
	// The names of the scenarios about OAuth hold a slash.
	folders, err := fs.Glob(os.DirFS(dir), "*")
	if err != nil {
		return err
	}
	below, err := fs.Glob(os.DirFS(dir), oauthScenarios+"*")
	if err != nil {
		return err
	}
	folders = append(folders, below...)
	r.failures, r.checks = map[string][]string{}, map[string][]check{}
	for _, path := range folders {
		m := resultDir.FindStringSubmatch(path)
		if m == nil {
			continue
		}
		scenario := strings.TrimPrefix(m[1], prefix)
		b, err := os.ReadFile(filepath.Join(dir, path, "checks.json"))
		if err != nil {
			return err
		}
		var checks []check
		if err := json.Unmarshal(b, &checks); err != nil {
			return fmt.Errorf("read the checks of %s: %w", scenario, err)
		}
		r.checks[scenario] = checks
		if len(checks) == 0 {
			r.failures[scenario] = []string{"the scenario checked nothing"}
		}
		for _, c := range checks {
			if c.Status == failure {
				r.failures[scenario] = append(r.failures[scenario], c.String())
			}
		}
	}
	for _, s := range r.scored {
		if r.checks[s] == nil {
			r.failures[s] = []string{"the scenario left no result"}
		}
	}
	return nil
}

// Statuses of checks that the suite counts. It does not count INFO, WARNING and SKIPPED.
const (
	success = "SUCCESS"
	failure = "FAILURE"
)

// tally is a number of checks that passed and failed.
type tally struct{ passed, failed int }

func (t tally) String() string { return fmt.Sprintf("%d/%d", t.passed, t.passed+t.failed) }

// count returns the checks that passed and failed.
func count(checks []check) (t tally) {
	for _, c := range checks {
		switch c.Status {
		case success:
			t.passed++
		case failure:
			t.failed++
		}
	}
	return t
}

// maxDetails bounds the details of a check in an error, in bytes. The suite's own file
// holds all of them.
const maxDetails = 1500

func (c check) String() string {
	s := c.ID + ": " + c.ErrorMessage
	if c.ErrorMessage == "" {
		s = c.ID + ": " + c.Description
	}
	var flat bytes.Buffer
	if json.Compact(&flat, c.Details) == nil && flat.Len() > 0 {
		s += "\n      " + flat.String()[:min(flat.Len(), maxDetails)]
	}
	return s
}

// write writes the failing checks as text.
func (r *result) write(path string) error {
	var b strings.Builder
	for _, s := range slices.Concat(r.scored, r.unscored) {
		checks := r.failures[s]
		if checks == nil {
			continue
		}
		fmt.Fprintln(&b, s)
		for _, c := range checks {
			fmt.Fprintln(&b, "   ", c)
		}
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
