package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry/runline"
)

// clientMetadata is the URL of the client id metadata document that the suite expects. Its
// authorization servers do not read it.
const clientMetadata = "https://conformance-test.local/client-metadata.json"

// prepareLogin puts the program browse before the machine's browser, for this process and
// those that it starts, and adds the flags that the scenario requires: it has given the
// client's credentials in a variable.
func (h *harness) prepareLogin(b *backend) (remove func(), err error) {
	var given struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := json.Unmarshal([]byte(text), &given); err != nil {
			return nil, fmt.Errorf("read MCP_CONFORMANCE_CONTEXT: %w", err)
		}
	}
	// Not the default one: two cells may log in at the same time.
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	b.run = append(b.run, "--remote-auth-callback-port", port)
	if given.ID != "" {
		b.run = append(b.run, "--remote-auth-client-id", given.ID)
	}
	if given.Secret != "" {
		b.run = append(b.run, "--remote-auth-client-secret", given.Secret)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	line, ok := runline.Quote([]string{self, "browse"})
	if !ok {
		return nil, fmt.Errorf("the path %q cannot be quoted for a shell", self)
	}
	dir, err := os.MkdirTemp("", "thv-browser")
	if err != nil {
		return nil, fmt.Errorf("make a place for the browser: %w", err)
	}
	remove = func() { os.RemoveAll(dir) }
	for _, name := range []string{"xdg-open", "open"} { // of Linux and macOS
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\nexec "+line+" \"$1\"\n"), 0o700); err != nil {
			remove()
			return nil, fmt.Errorf("write the browser: %w", err)
		}
	}
	for name, value := range map[string]string{
		"PATH":                    dir + string(os.PathListSeparator) + os.Getenv("PATH"),
		"THV_CLIENT_METADATA_URL": clientMetadata,
	} {
		if err := os.Setenv(name, value); err != nil {
			remove()
			return nil, err
		}
	}
	return remove, nil
}

// login runs `thv login`, which opens the browser.
func (g *gateway) login(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, g.thv, "login", g.workload)
	cmd.Env = g.env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("thv login: %w: %s", err, out)
	}
	return nil
}

// browse is the command `conformance browse URL`: a browser whose user consents at once, as
// the suite's authorization servers do. It follows redirects, the last one to the client.
func browse(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("browse takes one argument, a URL")
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, args[0], nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	return err
}
