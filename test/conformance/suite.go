package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// result is what one run of the suite found.
type result struct {
	scored    []string            // scenarios that count, in the suite's order
	unscored  []string            // that do not
	failures  map[string][]string // failing checks of scenarios that failed
	scenarios map[string]bool     // that were run
}

// judged are the scenarios that a cell is judged by: beside the scored ones
// those about the headers of 2026-07-28, which are a gateway's own business.
func (r result) judged() []string {
	all := slices.Clone(r.scored)
	for _, s := range r.unscored {
		if strings.HasPrefix(s, "http-") {
			all = append(all, s)
		}
	}
	return all
}

// suite runs the scenarios that a revision requires on a server.
func (h *harness) suite(ctx context.Context, revision, url, dir string) (result, error) {
	r, err := h.required(revision)
	if err != nil {
		return r, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return r, err
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, h.node, filepath.Join(h.packageDir(), "dist", "index.js"),
		"server", "--url", url, "--requirements", revision, "-o", dir)
	cmd.Env = append(os.Environ(), "NO_COLOR=1")
	cmd.Stdout, cmd.Stderr = &said, &said
	runErr := cmd.Run()
	if err := os.WriteFile(filepath.Join(dir, "suite.txt"), said.Bytes(), 0o644); err != nil {
		return r, err
	}
	if ctx.Err() != nil {
		return r, fmt.Errorf("the suite did not end: %w", ctx.Err())
	}
	if err := r.read(dir); err != nil {
		return r, err
	}
	// The suite's own verdict must be what we read: it fails when a scored
	// scenario does.
	bad := slices.ContainsFunc(r.scored, func(s string) bool { return r.failures[s] != nil })
	if bad != (runErr != nil) {
		return r, fmt.Errorf("the suite ended with %v, and its files say otherwise; see %s", runErr, dir)
	}
	return r, r.write(filepath.Join(dir, "failures.txt"))
}

func (h *harness) packageDir() string {
	return filepath.Join(h.cache, "node_modules", "@modelcontextprotocol", "conformance")
}

// required reads the scenarios of a revision from the suite's own list.
func (h *harness) required(revision string) (result, error) {
	b, err := os.ReadFile(filepath.Join(h.packageDir(), "requirements", revision+".yaml"))
	if err != nil {
		return result{}, fmt.Errorf("read what the revision requires: %w", err)
	}
	var list struct {
		Server    []string
		NotScored []struct{ Scenario, Leg string } `yaml:"not_scored"`
	}
	if err := yaml.Unmarshal(b, &list); err != nil {
		return result{}, fmt.Errorf("read what %s requires: %w", revision, err)
	}
	r := result{scored: list.Server}
	for _, n := range list.NotScored {
		if n.Leg == "server" {
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

var resultDir = regexp.MustCompile(`^server-(.+)-\d{4}-\d\d-\d\dT[0-9-]+Z$`)

// read collects the scenarios' checks below dir. A scenario without a file of
// checks has failed: the suite writes one for each that it could run.
func (r *result) read(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	r.failures, r.scenarios = map[string][]string{}, map[string]bool{}
	for _, e := range entries {
		m := resultDir.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name(), "checks.json"))
		if err != nil {
			return err
		}
		var checks []check
		if err := json.Unmarshal(b, &checks); err != nil {
			return fmt.Errorf("read the checks of %s: %w", m[1], err)
		}
		r.scenarios[m[1]] = true
		if len(checks) == 0 {
			r.failures[m[1]] = []string{"the scenario checked nothing"}
		}
		for _, c := range checks {
			if c.Status == "FAILURE" {
				r.failures[m[1]] = append(r.failures[m[1]], c.String())
			}
		}
	}
	for _, s := range r.scored {
		if !r.scenarios[s] {
			r.failures[s] = []string{"the scenario left no result"}
		}
	}
	return nil
}

// maxDetails bounds what is shown of a check's details; all of it is in the
// suite's own file.
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

// write keeps the failing checks as text.
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
