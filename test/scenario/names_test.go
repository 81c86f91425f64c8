//go:build integration

package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A workload's port comes from its name. Scripts have stores of their own, so two
// that use one name would take the port from each other between a stop and a
// start: such scripts do not run at the same time.

// workloadName matches where a script, or a configuration in it, names a workload.
var workloadName = regexp.MustCompile(`--name[ =]([a-z][\w-]*)|\bthv run ([a-z][\w-]*)(?:\s|$)|"name": *"([a-z][\w-]*)"`)

// namesIn returns the names of the workloads of a script, sorted.
func namesIn(script string) []string {
	var names []string
	for _, match := range workloadName.FindAllStringSubmatch(script, -1) {
		names = append(names, strings.Join(match[1:], ""))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// nameLocks has one lock for each name of a workload.
type nameLocks struct {
	mu    sync.Mutex
	locks map[string]*sync.Mutex
}

// lock locks the names, which are sorted: the order prevents deadlocks.
func (l *nameLocks) lock(names []string) (unlock func()) {
	var held []*sync.Mutex
	for _, name := range names {
		l.mu.Lock()
		if l.locks[name] == nil {
			l.locks[name] = &sync.Mutex{}
		}
		lock := l.locks[name]
		l.mu.Unlock()
		lock.Lock()
		held = append(held, lock)
	}
	return func() {
		for _, lock := range held {
			lock.Unlock()
		}
	}
}

// lockScript locks the names of the script of a test, "TestScripts/NAME".
func (l *nameLocks) lockScript(test string) (unlock func(), err error) {
	file := filepath.Join("testdata", filepath.Base(test)+".txtar")
	script, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("find the script of %s: %w", test, err)
	}
	return l.lock(namesIn(string(script))), nil
}

func TestNamesIn(t *testing.T) {
	got := namesIn("thv run go://$SERVERS/probe --name two\nthv run listed -p 9000\nthv run needy\n{\"name\": \"mine\"}\nthv run x --name=one --name two\n! thv run\n")
	if diff := cmp.Diff([]string{"listed", "mine", "needy", "one", "two", "x"}, got); diff != "" {
		t.Error(diff)
	}
}
