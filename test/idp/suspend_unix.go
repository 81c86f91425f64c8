//go:build unix

package idp

import (
	"syscall"
	"testing"

	"github.com/toolhaven/toolhaven/test/local"
)

// Suspend stops the process where it is: the system still accepts connections
// for it, and nothing answers.
func (p *Provider) Suspend(t testing.TB) {
	t.Helper()
	local.Freeze(t, p.pid(t))
}

// Resume lets it go on.
func (p *Provider) Resume(t testing.TB) {
	t.Helper()
	if err := syscall.Kill(p.pid(t), syscall.SIGCONT); err != nil {
		t.Fatalf("resume the identity provider: %v", err)
	}
}

func (p *Provider) pid(t testing.TB) int {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.command == nil {
		t.Fatal("the identity provider is not running")
	}
	return p.command.Process.Pid
}
