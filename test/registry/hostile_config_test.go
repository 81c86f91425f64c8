//go:build integration

package registry

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func httpGet(url string) (int, error) {
	resp, err := http.Get(url)
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	return resp.StatusCode, nil
}

func TestHostileConfigurations(t *testing.T) {
	t.Parallel()
	bomb := "x: &a0 [lol,lol,lol,lol,lol,lol,lol,lol,lol]\n"
	for i := 1; i < 12; i++ {
		bomb += fmt.Sprintf("x%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), ","))
	}
	tests := []struct {
		name, config string
		words        []string
	}{
		{"aliases of aliases", bomb, nil},
		{"an alias of itself", "auth: &a\n  mode: *a\n", nil},
		{"10 MiB", "auth:\n  mode: anonymous\n# " + strings.Repeat("x", 10<<20), []string{"larger"}},
		{"deep", strings.Repeat("[", 20_000), nil},
		{"a list", "- a\n", nil},
		{"NUL", "auth:\n  mode: \"anon\x00ymous\"\n", nil},
		{"not UTF-8", "auth:\n  mode: \xff\xfe\n", nil},
		{"two documents", "auth:\n  mode: anonymous\n---\nauth:\n  mode: oauth\n", nil},
		{"nothing", "", []string{"resourceUrl", "providers", "anonymous"}},
		{
			"everything wrong at once", "auth:\n  mod: anonymous\n  oauth:\n    resourceUrl: x\n    leeway: soon\nsources:\n  - name: A B\ndatabase:\n  sqlite: {}\n  postgres: {}\nunknown: 1\n",
			[]string{"line 2", "mode", "line 5", "soon", "line 11", "unknown"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "c.yaml")
			write(t, path, test.config)
			start := time.Now()
			out, errOut, code := run(t, "", nil, "validate", "--config", path)
			said := out + errOut
			if code != 2 || strings.Contains(said, "goroutine") || len(said) > 10_000 {
				t.Errorf("exit %d: %.1000s", code, said)
			}
			for _, word := range test.words {
				if !strings.Contains(said, word) {
					t.Errorf("nothing of %q in %s", word, said)
				}
			}
			if took := time.Since(start); took > patience/2 {
				t.Errorf("it took %s", took)
			}
		})
	}
}
