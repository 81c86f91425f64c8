package oauthclient

import (
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"runtime"
)

// OpenBrowser opens a page in the user's browser, without a shell (MCP security best
// practices, "Authorization URL"). It does not wait for the browser to exit. The
// error is that no browser can be opened.
func OpenBrowser(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
		return errors.New("only web pages are opened in a browser")
	}
	program, args := "xdg-open", []string{u.String()}
	switch runtime.GOOS {
	case "darwin":
		program = "open"
	case "windows":
		program, args = "rundll32", []string{"url.dll,FileProtocolHandler", u.String()}
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return fmt.Errorf("no browser can be opened: %w", err)
	}
	cmd := exec.Command(path, args...) //nolint:noctx // the browser outlives the command
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("no browser can be opened: %w", err)
	}
	go func() { _ = cmd.Wait() }() // reap the process
	return nil
}
