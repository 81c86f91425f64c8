// Package local has helpers for tests that start programs: the repository's path, an
// address that other machines could reach, free ports, and a buffer for output.
package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// Root returns the repository's path, from the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", errors.New("the working directory is not in the repository")
		}
		dir = filepath.Dir(dir)
	}
}

// PrivateAddress returns an address of this machine that is neither loopback nor public.
// Without one the test is skipped.
func PrivateAddress(t testing.TB) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsPrivate() {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no private address but loopback")
	return ""
}

// FreePort returns a port of this machine's loopback on which no process listens. It stays
// reserved until the caller's process ends, whether it listens there or not: the system
// assigns ports from 32768 on, thv uses the 10,000 before 30000, and FreePort returns each
// port to one process only.
func FreePort() (int, error) {
	const first, count = 10_000, 10_000
	var lc net.ListenConfig
	var last error
	for range 100 {
		port := first + rand.IntN(count)
		if err := reserve(port); err != nil {
			last = err
			continue
		}
		l, err := lc.Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
		last = err
	}
	return 0, fmt.Errorf("find a free port: %w", last)
}

// Output collects what a program writes. It may be read at the same time.
type Output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}
