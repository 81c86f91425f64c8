package runflag

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/workload"
)

func TestEnvironmentValues(t *testing.T) {
	lookup := func(k string) (string, bool) { return "from here", k == "SET" }
	got, err := ParseEnv([]string{"A=1", "B=", "C=a=b", "A=2", "SET"}, lookup)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"A": "2", "B": "", "C": "a=b", "SET": "from here"}, got); diff != "" {
		t.Error(diff)
	}
	_, err = ParseEnv([]string{"1A=x", "=x", "UNSET", "A-B=1", "A=\x00"}, lookup)
	for _, want := range []string{"1A", `""`, "UNSET", "A-B", "NUL"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not mention %s", err, want)
		}
	}
}

func TestEnvFiles(t *testing.T) {
	got, err := ParseEnvFile([]byte("\xef\xbb\xbf# comment\n\nA=1\r\nexport B='two words'\nC=\"x\"\nD=a # not a comment\n  E=5  \nF=\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"A": "1", "B": "two words", "C": "x", "D": "a # not a comment", "E": "5", "F": `"`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	_, err = ParseEnvFile([]byte("A=1\nnonsense\n2B=x\n"))
	for _, part := range []string{"line 2", "line 3", "2B"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not mention %s", err, part)
		}
	}
	if _, err := ParseEnvFile([]byte("A=\xff")); err == nil {
		t.Error("bytes that are no text were read")
	}
}

func TestAnEnvDirectoryIsReadInOrder(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"1.env": "A=1\nB=1", "2.env": "A=2", ".hidden": "A=3"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	got, err := LoadEnvDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"A": "2", "B": "1"}, got); diff != "" {
		t.Error(diff)
	}
	if _, err := LoadEnvDir(filepath.Join(dir, "none")); err == nil {
		t.Error("a directory that is not there was read")
	}
	if err := os.WriteFile(filepath.Join(dir, "3.env"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadEnvDir(dir); err == nil || !strings.Contains(err.Error(), "3.env") {
		t.Errorf("got %v", err)
	}
}

func TestMounts(t *testing.T) {
	for value, want := range map[string]workload.Mount{
		"/a:/b":        {Host: "/a", Container: "/b"},
		"/a:/b:ro":     {Host: "/a", Container: "/b", ReadOnly: true},
		"/a:/b:ro,Z":   {Host: "/a", Container: "/b", ReadOnly: true, Relabel: "Z"},
		"x/../y:/b/./": {Host: "/cwd/y", Container: "/b"},
	} {
		got, err := parseMount(value, "/cwd", false)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", value, got, err)
		}
	}
	if got, err := parseMount(`C:\data:/b`, "/cwd", true); err != nil || got.Container != "/b" || !strings.HasPrefix(got.Host, `C:`) {
		t.Errorf("a drive: %+v, %v", got, err)
	}
	for _, bad := range []string{"", "/a", ":/b", "/a:", "/a:b", "/a:/b:xx", "/a:/b:ro:z", "/a:/", "/a:/..", "/a\x00:/b", "/a:/.thv", "/a:/.thv/guest"} {
		if got, err := parseMount(bad, "/cwd", false); err == nil {
			t.Errorf("%q was read as %+v", bad, got)
		}
	}
	if _, err := ParseMount("/no/such/path:/b", "/"); err == nil {
		t.Error("a path that is not there was mounted")
	}
}

func TestPorts(t *testing.T) {
	for value, want := range map[string]workload.Port{
		"80:8080": {Host: 80, Container: 8080}, "8080": {Container: 8080},
		"0.0.0.0:80:8080": {Address: "0.0.0.0", Host: 80, Container: 8080}, "[::1]:80:8080": {Address: "::1", Host: 80, Container: 8080}, "127.0.0.2:0:8080": {Address: "127.0.0.2", Container: 8080},
	} {
		if got, err := ParsePort(value); err != nil || got != want {
			t.Errorf("%s: %+v, %v", value, got, err)
		}
	}
	for _, bad := range []string{"", "a", "1:", ":1", "1:0", "70000:1", "1:70000", "-1:1", "1:2:3", "1:2/udp", "host:1:2", "[fe80::1%eth0]:1:2", "[::1]:1-3:2", "127.0.0.1::2"} {
		if got, err := ParsePort(bad); err == nil {
			t.Errorf("%q was read as %+v", bad, got)
		}
	}
}

func TestLabels(t *testing.T) {
	got, err := ParseLabels([]string{"team=x", "a.b/c-d_e=1=2", "empty=", "team=y"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"team": "y", "a.b/c-d_e": "1=2", "empty": ""}, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"", "a", "=x", "-a=x", "a-=x", "a b=x", "a=x\ny", "a=\x00", "dev.toolhaven.workload=x", strings.Repeat("a", 254) + "=x"} {
		if got, err := ParseLabels([]string{bad}); err == nil {
			t.Errorf("%q was read as %v", bad, got)
		}
	}
	_, err = ParseLabels([]string{"one", "dev.toolhaven.store=x"})
	for _, want := range []string{"-l one", "are ours"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not mention %s", err, want)
		}
	}
}

func TestAFileIsReadUpToItsBound(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadFile(file, 5); err != nil || string(got) != "12345" {
		t.Errorf("%q, %v", got, err)
	}
	for _, endless := range []string{file, "/dev/zero"} {
		if _, err := ReadFile(endless, 4); err == nil {
			t.Errorf("%s was read past the bound", endless)
		}
	}
}

func TestPermissionProfiles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "p.json")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"name":"x","read":["` + dir + `","` + file + `:/f"],"write":["` + dir + `"],"network":{"outbound":{"allow_host":["a.example"],"allow_port":[443]}}}`)
	p, mounts, err := LoadPermissions(file, "/")
	if err != nil {
		t.Fatal(err)
	}
	want := []workload.Mount{{Host: dir, Container: dir}, {Host: file, Container: "/f", ReadOnly: true}}
	if diff := cmp.Diff(want, mounts); diff != "" {
		t.Error(diff)
	}
	if p.Network.Outbound.AllowHost[0] != "a.example" {
		t.Errorf("%+v", p)
	}
	for content, part := range map[string]string{
		"{\n\"netwrok\":{}}":        `line 2: unknown key "netwrok"; did you mean "network"?`,
		`{"network":[]}`:            "network",
		`{"read":["a;b://c:/d"]}`:   "not supported",
		`{"read":["/no/such/dir"]}`: "no such file",
		`{} {}`:                     "after the document",
		`{"read":[],"read":[]}`:     "twice",
		`{`:                         "ends too early",
		"":                          "ends too early",
	} {
		write(content)
		if _, _, err := LoadPermissions(file, "/"); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v, want %q", content, err, part)
		}
	}
	for _, name := range []string{"none", "stdio", "network"} {
		if _, _, err := LoadPermissions(name, "/"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Strict decoding is never more lenient than the standard one, and reads nothing
// differently.
func FuzzDecodeStrict(f *testing.F) {
	f.Add([]byte(`{"name":"x","network":{"outbound":{"allow_port":[1]}}}`))
	f.Add([]byte(`{"a":{"a":1,"a":[{"a":1}]}}`))
	f.Add([]byte("[[[}"))
	f.Fuzz(func(t *testing.T, content []byte) {
		var strict, lenient workload.Permissions
		if err := DecodeStrict(content, &strict); err != nil {
			return
		}
		if err := json.Unmarshal(content, &lenient); err != nil {
			t.Fatalf("%q was read, though it is not JSON: %v", content, err)
		}
		if diff := cmp.Diff(lenient, strict); diff != "" {
			t.Errorf("%q: %s", content, diff)
		}
	})
}

func FuzzParseEnvFile(f *testing.F) {
	f.Add([]byte("A=1\nexport B='x'\n#c\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		env, err := ParseEnvFile(content)
		if err != nil {
			return
		}
		for name, value := range env {
			if workload.ValidEnvName(name) != nil || workload.ValidEnvValue(value) != nil || strings.ContainsAny(value, "\n") {
				t.Errorf("%q was read as %q=%q", content, name, value)
			}
		}
	})
}

func FuzzParseMount(f *testing.F) {
	f.Add("/a:/b:ro", false)
	f.Add(`C:\a:/b`, true)
	f.Fuzz(func(t *testing.T, value string, windows bool) {
		m, err := parseMount(value, "/cwd", windows)
		if err != nil {
			return
		}
		if !strings.HasPrefix(m.Container, "/") || m.Container == "/" || strings.Contains(m.Container, "/../") || strings.ContainsRune(m.Host+m.Container, 0) || m.Host == "" {
			t.Errorf("%q was read as %+v", value, m)
		}
	})
}

func TestAFaultHasOneHint(t *testing.T) {
	for _, c := range []struct{ flag, value, hint string }{
		{"v", "data:/data", "named volumes are not supported"},
		{"v", "./no-such:/data", "make the folder first"},
		{"v", "/no/such:/data", "no such file or directory: /no/such; make the folder first"},
		{"p", "localhost:80:8080", "is not an IP address"},
		{"p", "53:53/udp", "a protocol cannot be chosen"},
		{"p", "80:web", `"web" is not a port`},
	} {
		var err error
		if c.flag == "v" {
			_, err = ParseMount(c.value, t.TempDir())
		} else {
			_, err = ParsePort(c.value)
		}
		if err == nil || !strings.Contains(err.Error(), c.hint) || !strings.HasPrefix(err.Error(), "-"+c.flag+" "+c.value) || strings.Count(err.Error(), ";") > 1 {
			t.Errorf("-%s %s: %v", c.flag, c.value, err)
		}
	}
}
