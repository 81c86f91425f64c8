package runflag

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestLoadWebhooks(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	first := file("a.yaml", "validating:\n  - name: check\n    url: https://a.example/x\n    failure_policy: fail\n    timeout: 5s\nmutating:\n  - {name: change, url: https://b.example/, failure_policy: ignore, timeout: 2000000000}\n")
	second := file("b.json", `{"validating":[{"name":"check","url":"https://c.example/","failure_policy":"fail"}]}`)
	cfg, err := LoadWebhooks([]string{first, second})
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Validating) != 1 || cfg.Validating[0].URL != "https://c.example/" || len(cfg.Mutating) != 1 || time.Duration(cfg.Mutating[0].Timeout) != 2*time.Second {
		t.Errorf("%+v", cfg)
	}
	for content, want := range map[string]string{
		`{"validating":[{"name":"a","uri":"x"}]}`:                                   `unknown key "uri"`,
		`{"validating":[{"name":"a","url":"https://a/","failure_policy":"maybe"}]}`: `failure_policy "maybe"`,
		`{}`: "it has no webhook",
		`{"validating":[{"name":"a","url":"https://a/","failure_policy":"fail","timeout":"soon"}]}`: "soon",
	} {
		if _, err := LoadWebhooks([]string{file("bad.json", content)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := LoadWebhooks([]string{file("bad.yaml", "validatin: []\n")}); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Error(err)
	}
}
