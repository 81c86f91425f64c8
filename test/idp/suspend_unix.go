//go:build unix

package idp

import (
	"syscall"
	"testing"
)

// Suspend stops the process where it is: the system still accepts connections
// for it, and nothing answers.
func (p *Provider) Suspend(t testing.TB) { p.signal(t, syscall.SIGSTOP) }

// Resume lets it go on.
func (p *Provider) Resume(t testing.TB) { p.signal(t, syscall.SIGCONT) }

func (p *Provider) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.command == nil {
		t.Fatal("the identity provider is not running")
	}
	if err := p.command.Process.Signal(signal); err != nil {
		t.Fatalf("signal the identity provider: %v", err)
	}
}
