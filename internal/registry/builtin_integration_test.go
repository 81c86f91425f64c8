//go:build integration

package registry

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Every npm and PyPI package of the built-in catalog exists in its version.
func TestBuiltIn_PackagesExist(t *testing.T) {
	list, err := open(t, "").List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	clients := map[string]func(context.Context, *Package) (string, error){
		"npm": func(ctx context.Context, p *Package) (string, error) {
			out, err := exec.CommandContext(ctx, "npm", "view", p.Identifier+"@"+p.Version, "version").CombinedOutput()
			return string(out), err
		},
		"pypi": func(ctx context.Context, p *Package) (string, error) {
			out, err := exec.CommandContext(ctx, "pip", "index", "versions", "--pre", "--only-binary=:all:", "--python-version=3.13", p.Identifier).CombinedOutput()
			return string(out), err
		},
	}
	for kind, known := range map[string]string{"npm": "@modelcontextprotocol/server-everything", "pypi": "mcp-server-fetch"} {
		if out, err := clients[kind](t.Context(), &Package{Identifier: known, Version: "*"}); err != nil {
			t.Logf("SKIPPED: packages of %s: its registry cannot be reached: %v: %.200s", kind, err, out)
			delete(clients, kind)
		}
	}
	slots := make(chan struct{}, 4)
	var all sync.WaitGroup
	for _, e := range list.Entries {
		for i := range e.Packages {
			p := &e.Packages[i]
			client := clients[p.RegistryType]
			if client == nil {
				continue
			}
			all.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				out, err := client(ctx, p)
				words := strings.FieldsFunc(out, func(r rune) bool { return strings.ContainsRune(" ,\n()", r) })
				if err != nil || !slices.Contains(words, p.Version) {
					t.Errorf("%s: %s %s is not there: %v: %.300s", e.Name, p.Identifier, p.Version, err, out)
				}
			})
		}
	}
	all.Wait()
}
