package secret

import (
	"strings"
	"testing"
)

func TestLooks(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{"GITHUB_TOKEN": "x", "api_key": "x", "DB_PASSWORD": "", "X": "ghp_abc", "Y": "sk-abc", "OPENAI_API_KEY": "x", "Z": "eyJhbGciOi.eyJpc3Mi.x", "AUTHORIZATION": "x", "H": "Bearer abc"} {
		if !Looks(name, value) {
			t.Errorf("%s=%s does not look secret", name, value)
		}
	}
	for name, value := range map[string]string{"PATH": "/bin", "LOG_LEVEL": "debug", "KEYBOARD": "de", "PORT": "8080", "AUTHOR": "jo", "NOTE": "Basically"} {
		if Looks(name, value) {
			t.Errorf("%s=%s looks secret", name, value)
		}
	}
}

func TestCheckKey(t *testing.T) {
	t.Parallel()
	for _, key := range []string{Ref("a", "B"), UserKey("github"), "oauth/0123abcd", "oauth/client/0123"} {
		if err := CheckKey(key); err != nil {
			t.Error(err)
		}
	}
	for _, key := range []string{"", "A", "workload", "workload/../x/A", "workload/a/../../A", "workload/a/b/c/d", "workload//A", "workload/a..b/A", "user/a b", "secret/op://v/i/f"} {
		if CheckKey(key) == nil {
			t.Errorf("%q is accepted", key)
		}
	}
}

func TestCheckName(t *testing.T) {
	t.Parallel()
	for name, plain := range map[string]bool{"github": true, "GITHUB_TOKEN": true, "a.b-c": true, "github/client-secret": true, "a/b/c": false, "a/": false, "op://My vault/item/field": false, "team/github#token": false} {
		if err := CheckName(name); err != nil {
			t.Error(err)
		}
		if err := CheckPlainName(name); (err == nil) != plain {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", "-x", "/x", "a,b", "a\nb", " a", "a/../b", "\xff", strings.Repeat("a", 257)} {
		if CheckName(name) == nil || CheckPlainName(name) == nil {
			t.Errorf("%q is accepted", name)
		}
	}
}
