package mcpcmd_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/clitest"
)

func TestTokenFile(t *testing.T) {
	file := func(content string) string {
		path := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// guarded requires a token; stray is another origin.
	var strayed atomic.Value
	stray := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		strayed.Store(r.Header.Get("Authorization"))
		http.NotFound(w, r)
	}))
	defer stray.Close()
	echo := echoServer(t, false)
	guarded := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer t0k.en":
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "who is it", http.StatusUnauthorized)
		case r.URL.Path == "/elsewhere":
			http.Redirect(w, r, stray.URL, http.StatusTemporaryRedirect)
		default:
			r.Header.Del("Authorization")
			http.Redirect(w, r, echo, http.StatusTemporaryRedirect)
		}
	}))
	defer guarded.Close()

	good := file("t0k.en\n")
	if got := clitest.Must(t, clitest.App(t), "mcp", "call", guarded.URL, "say", "--arg", "s=x", "--token-file", good, "--protocol", "session"); got != "{\"s\":\"x\"}\n" {
		t.Errorf("got %q", got)
	}
	_, _, _ = clitest.Run(t, clitest.App(t), "mcp", "tools", guarded.URL+"/elsewhere", "--token-file", good)
	if got := strayed.Load(); got != "" {
		t.Errorf("another origin received %v", got)
	}
	for name, row := range map[string]struct {
		url, file string
		code      int
		want      string
	}{
		"no token":                {guarded.URL, "", base.ExitFailure, "401 Unauthorized: who is it; --token-file names a file with an access token"},
		"another token":           {guarded.URL, file("other"), base.ExitFailure, "401 Unauthorized"},
		"no file":                 {guarded.URL, "/no/such/file", base.ExitUsage, "--token-file: open /no/such/file"},
		"an empty file":           {guarded.URL, file("\n"), base.ExitUsage, "is empty"},
		"a file that has a break": {guarded.URL, file("a\nHost: b"), base.ExitUsage, "characters that no access token has"},
		"a server without TLS":    {"http://192.0.2.1/mcp", good, base.ExitFailure, "not sent to 192.0.2.1 without TLS"},
	} {
		args := []string{"mcp", "tools", row.url}
		if row.file != "" {
			args = append(args, "--token-file", row.file)
		}
		_, stderr, code := clitest.Run(t, clitest.App(t), args...)
		if code != row.code || !strings.Contains(stderr, row.want) || strings.Contains(stderr, "t0k.en") {
			t.Errorf("%s: exit code %d, %s", name, code, stderr)
		}
	}
}
