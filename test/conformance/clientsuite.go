package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry/runline"
)

// oauthScenarios is the prefix of the scenarios about OAuth, which are cells of their own.
// The gateway is the OAuth client of their servers; the client that calls it has no token.
const oauthScenarios = "auth/"

// Bounds of one scenario for clients. The command ends before the suite kills it, so
// that it can remove its workload.
const (
	clientTime  = 90 * time.Second
	commandTime = 3 * time.Minute
)

// runClientSuite runs the scenarios for clients that a revision requires. For each, the
// suite starts a server and runs a command with the server's URL as last argument. The
// command is go-sdk's client, or behind, which runs that client with a gateway's URL. In a
// cell about OAuth, only the scenarios of that are run, and in the others only the rest.
func (h *harness) runClientSuite(ctx context.Context, c cell, dir string) (result, error) {
	r, err := h.required(c.harness, clientLeg)
	if err != nil {
		return r, err
	}
	another := func(scenario string) bool {
		return strings.HasPrefix(scenario, oauthScenarios) != c.backend.oauth
	}
	r.scored = slices.DeleteFunc(r.scored, another)
	r.unscored = slices.DeleteFunc(r.unscored, another)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return r, err
	}
	failed := map[string]error{}
	for _, scenario := range slices.Concat(r.scored, r.unscored) {
		if err := h.runClientScenario(ctx, c, scenario, dir); err != nil {
			failed[scenario] = err
		}
		if ctx.Err() != nil {
			return r, fmt.Errorf("the suite did not end: %w", ctx.Err())
		}
	}
	if err := r.read(dir, ""); err != nil {
		return r, err
	}
	// The suite exits with an error for warnings and for a client that fails, too.
	for scenario, err := range failed {
		if r.failures[scenario] == nil {
			r.failures[scenario] = []string{err.Error()}
		}
	}
	return r, r.write(filepath.Join(dir, "failures.txt"))
}

// runClientScenario runs one scenario. Its output is kept in dir.
func (h *harness) runClientScenario(ctx context.Context, c cell, scenario, dir string) error {
	file := filepath.Join(dir, strings.ReplaceAll(scenario, "/", "-"))
	command, err := h.clientCommand(c, file+".gateway.log")
	if err != nil {
		return err
	}
	args := []string{
		filepath.Join(h.packageDir(), "dist", "index.js"),
		"client", "--scenario", scenario, "--spec-version", c.harness, "--command", command,
		"--timeout", fmt.Sprint(commandTime.Milliseconds()), "-o", dir,
	}
	if c.backend.oauth {
		args = append(args, "--force") // extensions belong to no revision
	}
	cmd := exec.CommandContext(ctx, h.node, args...)
	cmd.Env = append(os.Environ(), "NO_COLOR=1")
	out, runErr := cmd.CombinedOutput()
	log := file + ".txt"
	if err := os.WriteFile(log, out, 0o644); err != nil {
		return err
	}
	if runErr != nil {
		return fmt.Errorf("the suite ended with %w; see %s", runErr, log)
	}
	return nil
}

// clientCommand returns the command line that the suite passes to a shell.
func (h *harness) clientCommand(c cell, log string) (string, error) {
	words := []string{h.client()}
	if c.gateway {
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		words = []string{self, "behind", "-thv", h.thv, "-client", h.client(), "-log", log}
		if c.backend.oauth {
			words = append(words, "-oauth")
		}
	}
	line, ok := runline.Quote(words)
	if !ok {
		return "", fmt.Errorf("the paths %q cannot be quoted for a shell", words)
	}
	return line, nil
}

// behind is the command `conformance behind -thv THV -client CLIENT -log FILE URL`: it
// starts `thv run URL` in a state directory of its own, runs CLIENT with the gateway's
// URL, and removes the workload. The gateway's log is written to FILE. With -oauth, a
// browser that consents to everything is there for the login.
func behind(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("conformance behind", flag.ContinueOnError)
	thv := flags.String("thv", "", "the program under test")
	client := flags.String("client", "", "the client to run with the gateway's URL")
	log := flags.String("log", "", "the file for the gateway's log")
	oauth := flags.Bool("oauth", false, "the server requires a login")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("behind takes one argument, the URL of a server")
	}
	ctx, cancel := context.WithTimeout(ctx, clientTime)
	defer cancel()
	h := &harness{thv: *thv}
	var b backend
	if *oauth {
		remove, err := h.prepareLogin(&b)
		if err != nil {
			return err
		}
		defer remove()
	}
	g, err := h.startGateway(ctx, flags.Arg(0), b, *log)
	if err != nil && strings.Contains(err.Error(), "the login at the server has ended") {
		// The server changed its authorization server since: a person runs it again.
		g, err = h.startGateway(ctx, flags.Arg(0), b, *log)
	}
	if err != nil {
		return err
	}
	defer g.stop()
	call := func() error {
		cmd := exec.CommandContext(ctx, *client, g.url)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("run the client: %w", err)
		}
		return nil
	}
	if err = call(); err == nil || !*oauth {
		return err
	}
	// The error may name `thv login`, for more scopes: a person runs it, and calls again.
	if again := g.login(ctx); again != nil {
		return errors.Join(err, again)
	}
	return call()
}
