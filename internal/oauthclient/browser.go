package oauthclient

import (
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"runtime"
)

// OpenBrowser shows a page in the person's browser, without a shell and without
// waiting for the browser to end (MCP security best practices, "Authorization
// URL"). An error says that there is no browser to open.
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
	go func() { _ = cmd.Wait() }() // so that it is no zombie
	return nil
}
