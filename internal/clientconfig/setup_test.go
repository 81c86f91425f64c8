package clientconfig

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// house is a home directory with a Setup.
type house struct {
	t    *testing.T
	home string
	*Setup
}

func newHouse(t *testing.T) *house {
	t.Helper()
	home := t.TempDir()
	env := map[string]string{"HOME": home}
	system := System{OS: "linux", Env: func(k string) string { return env[k] }}
	return &house{t, home, Open(system, filepath.Join(home, "thv"), "/opt/thv")}
}

func (h *house) path(name string) string { return filepath.Join(h.home, filepath.FromSlash(name)) }

func (h *house) write(name, content string) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Dir(h.path(name)), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(h.path(name), []byte(content), 0o640); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) read(name string) string {
	h.t.Helper()
	b, err := os.ReadFile(h.path(name))
	if err != nil {
		h.t.Fatal(err)
	}
	return string(b)
}

// did returns changes as lines "client workload action".
func (h *house) did(changes []Change, err error) string {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
	var lines []string
	for _, c := range changes {
		lines = append(lines, strings.TrimSpace(c.Client+" "+c.Workload)+" "+string(c.Action))
	}
	return strings.Join(lines, ", ")
}

func (h *house) expect(want, got string) {
	h.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		h.t.Error(diff)
	}
}

func demo() *Workload {
	return &Workload{Name: "demo", Group: "default", URL: "http://127.0.0.1:1/mcp", State: "running"}
}

func TestEveryClientGetsAnEntryAndLosesIt(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	all := Names()
	if len(all) < 20 {
		t.Errorf("only %d clients are known", len(all))
	}
	sse := &Workload{Name: "events", Group: "default", URL: "http://127.0.0.1:2/sse", SSE: true, State: "stopped"}
	changes, err := h.Add(t.Context(), all, "", []*Workload{demo(), sse})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		if c.Action != Added {
			t.Errorf("%+v", c)
		}
	}
	status, err := h.Status([]*Workload{demo(), sse})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range status {
		stdio := "/opt/thv connect "
		for i, want := range []string{"http://127.0.0.1:1/mcp", "http://127.0.0.1:2/sse"} {
			if len(c.Entries) != 2 {
				t.Fatalf("%s: %+v", c.Name, c)
			}
			e := c.Entries[i]
			client := Find(c.Name)
			if i == 0 && client.http.url == "" || i == 1 && client.sse.url == "" {
				want = stdio + e.Name
			}
			if e.State != Good || e.Address != want {
				t.Errorf("%s: %+v", c.Name, e)
			}
		}
		if !c.Installed || !c.SetUp {
			t.Errorf("%+v", c)
		}
	}
	if _, err := h.Remove(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	for _, c := range Clients() {
		content, err := os.ReadFile(c.File(h.system))
		if err != nil || strings.Contains(string(content), "demo") {
			t.Errorf("%s: %q, %v", c.Name, content, err)
		}
	}
	if names, err := h.Enabled(); err != nil || len(names) > 0 {
		t.Errorf("%v, %v", names, err)
	}
}

func TestEntryFollowsItsWorkload(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	const before = "// mine\n{\n  \"mcpServers\": {\n    \"mine\": {\"url\": \"https://example.com\"},\n  },\n}\n"
	h.write(".cursor/mcp.json", before)
	h.expect("", h.did(h.Sync(t.Context(), demo())))
	h.expect("cursor demo added", h.did(h.Add(t.Context(), []string{"cursor"}, "", []*Workload{demo()})))
	h.expect("cursor demo kept", h.did(h.Sync(t.Context(), demo())))
	moved := demo()
	moved.URL = "http://127.0.0.1:9/mcp"
	status, err := h.Status([]*Workload{moved})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range status {
		if c.Name == "cursor" && (len(c.Entries) != 1 || c.Entries[0].State != Stale) {
			t.Errorf("%+v", c)
		}
	}
	h.expect("cursor demo changed", h.did(h.Sync(t.Context(), moved)))
	if !strings.Contains(h.read(".cursor/mcp.json"), moved.URL) {
		t.Error(h.read(".cursor/mcp.json"))
	}
	h.expect("cursor demo removed", h.did(h.Forget(t.Context(), "demo")))
	h.expect(before, h.read(".cursor/mcp.json"))
	h.expect(before, h.read(".cursor/mcp.json.thv-backup"))
	info, err := os.Stat(h.path(".cursor/mcp.json"))
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	h.expect("", h.did(h.Forget(t.Context(), "demo")))

	// The only one in a file of which nothing else is left.
	h.expect("codex demo added", h.did(h.Add(t.Context(), []string{"codex"}, "", []*Workload{demo()})))
	h.expect("codex demo removed", h.did(h.Forget(t.Context(), "demo")))
	h.expect("", h.read(".codex/config.toml"))
}

func TestEntriesOfOthersAreNotTouched(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	mine := `{"mcpServers": {"demo": {"url": "https://example.com/mine"}}}`
	h.write(".cursor/mcp.json", mine)
	same := `{"mcpServers": {"demo": {"url": "http://127.0.0.1:1/mcp"}}}`
	h.write(".kiro/settings/mcp.json", same)
	h.expect("cursor demo not ours, kiro demo kept", h.did(h.Add(t.Context(), []string{"cursor", "kiro"}, "", []*Workload{demo()})))
	h.expect("", h.did(h.Forget(t.Context(), "demo")))
	h.expect(mine, h.read(".cursor/mcp.json"))
	h.expect(same, h.read(".kiro/settings/mcp.json"))

	// One that was ours and was changed since.
	h.write(".cursor/mcp.json", "{}")
	h.expect("cursor demo added, kiro demo kept", h.did(h.Sync(t.Context(), demo())))
	h.write(".cursor/mcp.json", mine)
	h.expect("cursor demo not ours", h.did(h.Forget(t.Context(), "demo")))
	h.expect(mine, h.read(".cursor/mcp.json"))
	if exists(h.path(".kiro/settings/mcp.json.thv-backup")) {
		t.Error("a file that was not edited has a backup")
	}
}

func TestGroupsAndClientsOfAWorkload(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	work := demo()
	work.Name, work.Group = "work", "work"
	only := demo()
	only.Name, only.Clients = "only", []string{"cursor"}
	none := demo()
	none.Name, none.Clients = "none", []string{"none"}
	all := []*Workload{demo(), work, only, none}
	h.expect("codex work added", h.did(h.Add(t.Context(), []string{"codex"}, "work", all)))
	h.expect("cursor demo added, cursor only added, cursor work added", h.did(h.Add(t.Context(), []string{"cursor"}, "", all)))
	// Another group, and back to all.
	h.expect("codex demo added, codex work removed", h.did(h.Add(t.Context(), []string{"codex"}, "default", all)))
	h.expect("codex demo kept, codex work added", h.did(h.Add(t.Context(), []string{"codex"}, "", all)))
	// A workload that changes its clients.
	only.Clients = []string{"codex"}
	h.expect("codex only added, cursor only removed", h.did(h.Sync(t.Context(), only)))
}

func TestFilesThatAreLeftAsTheyAre(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(h *house, path string)
		reason  string
	}{
		"not valid":     {func(h *house, _ string) { h.write(".cursor/mcp.json", `{"mcpServers": `) }, "it is not valid: "},
		"read-only":     {func(h *house, path string) { h.write(".cursor/mcp.json", "{}"); h.must(os.Chmod(path, 0o440)) }, "it is read-only"},
		"a directory":   {func(h *house, path string) { h.must(os.MkdirAll(path, 0o700)) }, "it is not a regular file"},
		"a lost link":   {func(h *house, path string) { h.write(".cursor/x", ""); h.must(os.Symlink("nowhere", path)) }, "it is a symlink that leads to no file"},
		"a far link":    {func(h *house, path string) { h.write(".cursor/x", ""); h.must(os.Symlink(h.outside(), path)) }, "which is not in your home directory"},
		"much too long": {func(h *house, path string) { h.write(".cursor/mcp.json", "{}"); h.must(os.Truncate(path, maxFile+1)) }, "it is larger than 64 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			path := h.path(".cursor/mcp.json")
			c.prepare(h, path)
			before, beforeErr := os.ReadFile(path)
			// Setup finds the fault without any workload, too.
			h.expect("cursor failed", h.did(h.Add(t.Context(), []string{"cursor", "kiro"}, "", nil)))
			changes, err := h.Add(t.Context(), []string{"cursor", "kiro"}, "", []*Workload{demo()})
			h.expect("cursor failed, kiro demo added", h.did(changes, err))
			if problem := changes[0].Problem(); !strings.Contains(problem, path+" of Cursor was left as it was: ") || !strings.Contains(problem, c.reason) {
				t.Error(problem)
			}
			after, afterErr := os.ReadFile(path)
			if string(before) != string(after) || (beforeErr == nil) != (afterErr == nil) || exists(path+backupSuffix) {
				t.Errorf("%q became %q (%v)", before, after, afterErr)
			}
		})
	}
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// outside returns a file outside of the home directory.
func (h *house) outside() string {
	path := filepath.Join(h.t.TempDir(), "mcp.json")
	h.must(os.WriteFile(path, []byte("{}"), 0o600))
	return path
}

func TestSymlinkWithinTheHomeStays(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.write("dotfiles/cursor.json", "{}\n")
	h.write(".cursor/x", "")
	h.must(os.Symlink("../dotfiles/cursor.json", h.path(".cursor/mcp.json")))
	h.expect("cursor demo added", h.did(h.Add(t.Context(), []string{"cursor"}, "", []*Workload{demo()})))
	if link, err := os.Readlink(h.path(".cursor/mcp.json")); err != nil || link != "../dotfiles/cursor.json" {
		t.Error(link, err)
	}
	if !strings.Contains(h.read("dotfiles/cursor.json"), "demo") {
		t.Error(h.read("dotfiles/cursor.json"))
	}
}

func TestFileThatChangesMeanwhileIsReadAgain(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.write(".cursor/mcp.json", `{"a": 1}`)
	c := &clientRecord{Entries: map[string]*entryRecord{}}
	j := jobsOf(Find("cursor"), c, h.path(".cursor/mcp.json"), []edit{h.Setup.write("cursor", demo())})[0]
	j.prepare(h.home)
	j.intend()
	h.write(".cursor/mcp.json", `{"b": 2}`)
	j.commit(h.home)
	if got := h.read(".cursor/mcp.json"); !strings.Contains(got, `"b": 2`) || !strings.Contains(got, "demo") {
		t.Error(got)
	}
	h.expect("cursor demo added", h.did(j.changes, nil))
}

func TestProcessesEditAtTheSameTime(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.did(h.Add(t.Context(), []string{"cursor", "codex", "goose"}, "", nil))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			w := demo()
			w.Name = "w" + string(rune('a'+i))
			other := Open(h.system, h.dir, h.program)
			if _, err := other.Sync(t.Context(), w); err != nil {
				t.Error(err)
			}
			if i%2 == 1 {
				if _, err := other.Forget(t.Context(), w.Name); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	r, err := h.load()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range r.Clients {
		content, err := os.ReadFile(Find(name).File(h.system))
		if err != nil || len(c.Entries) != 4 || strings.Count(string(content), "http://") != 4 {
			t.Errorf("%s: %d entries: %s", name, len(c.Entries), content)
		}
	}
}

// A process that is killed between the two saves of the record leaves an entry that is ours.
func TestEntryOfAKilledProcessIsOurs(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.did(h.Add(t.Context(), []string{"cursor"}, "", []*Workload{demo()}))
	moved := demo()
	moved.URL = "http://127.0.0.1:9/mcp"
	r, err := h.load()
	h.must(err)
	j := jobsOf(Find("cursor"), r.Clients["cursor"], h.path(".cursor/mcp.json"), []edit{h.Setup.write("cursor", moved)})[0]
	j.prepare(h.home)
	j.intend()
	h.must(h.save(r))
	h.expect("cursor demo kept", h.did(h.Sync(t.Context(), demo()))) // not written yet
	h.must(j.file.write(j.content))
	h.must(h.save(r))
	h.expect("cursor demo removed", h.did(h.Forget(t.Context(), "demo")))
}

func TestRecordHoldsNoURLButOurs(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.write(".cursor/mcp.json", `{"mcpServers": {"x": {"url": "https://u:secret@h/", "headers": {"A": "secret"}}}}`)
	h.did(h.Add(t.Context(), []string{"cursor"}, "", []*Workload{demo()}))
	content, err := os.ReadFile(h.recordFile())
	if err != nil || strings.Contains(string(content), "secret") || !json.Valid(content) {
		t.Errorf("%s, %v", content, err)
	}
	info, err := os.Stat(h.path(".cursor/mcp.json" + backupSuffix))
	if err != nil || info.Mode().Perm() != fs.FileMode(0o640) {
		t.Error(info.Mode(), err)
	}
	h.must(os.WriteFile(h.recordFile(), []byte("{"), 0o600))
	if _, err := h.Sync(t.Context(), demo()); err == nil || !strings.Contains(err.Error(), "clients.json is damaged") {
		t.Error(err)
	}
}

func TestNoHome(t *testing.T) {
	t.Parallel()
	s := Open(System{OS: "linux", Env: func(string) string { return "" }}, t.TempDir(), "/opt/thv")
	if _, err := s.Add(t.Context(), []string{"cursor"}, "", []*Workload{demo()}); err == nil || !strings.Contains(err.Error(), "HOME is not set") {
		t.Error(err)
	}
	if changes, err := s.Sync(t.Context(), demo()); err != nil || changes != nil {
		t.Error(changes, err)
	}
	if names := s.Installed(); names != nil {
		t.Error(names)
	}
}

func TestPlacesOfFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		os, client string
		env        map[string]string
		want       string
	}{
		{"linux", "vscode", nil, "/home/jo/.config/Code/User/mcp.json"},
		{"linux", "vscode", map[string]string{"XDG_CONFIG_HOME": "/c"}, "/c/Code/User/mcp.json"},
		{"darwin", "vscode", nil, "/home/jo/Library/Application Support/Code/User/mcp.json"},
		{"darwin", "claude-desktop", nil, "/home/jo/Library/Application Support/Claude/claude_desktop_config.json"},
		{"darwin", "zed", nil, "/home/jo/.config/zed/settings.json"},
		{"windows", "vscode", map[string]string{"APPDATA": "/r"}, "/r/Code/User/mcp.json"},
		{"windows", "goose", map[string]string{"APPDATA": "/r"}, "/r/Block/goose/config/config.yaml"},
		{"windows", "cursor", map[string]string{"USERPROFILE": "/u"}, "/u/.cursor/mcp.json"},
		{"windows", "opencode", nil, "/home/jo/.config/opencode/opencode.json"},
		{"linux", "codex", map[string]string{"CODEX_HOME": "/x"}, "/x/config.toml"},
		{"linux", "claude-code", map[string]string{"CLAUDE_CONFIG_DIR": "/x"}, "/x/.claude.json"},
		{"linux", "claude-code", map[string]string{"CLAUDE_CONFIG_DIR": "relative"}, "/home/jo/.claude.json"},
	} {
		s := System{OS: c.os, Env: func(k string) string {
			if k == "HOME" {
				return "/home/jo"
			}
			return c.env[k]
		}}
		if got := filepath.ToSlash(Find(c.client).File(s)); got != c.want {
			t.Errorf("%s on %s: %s", c.client, c.os, got)
		}
	}
}

func TestKnownClientsAreSorted(t *testing.T) {
	t.Parallel()
	for i, c := range known[1:] {
		if known[i].Name >= c.Name {
			t.Errorf("%s is not after %s", c.Name, known[i].Name)
		}
	}
}

func BenchmarkSetupOf20Clients(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		home := b.TempDir()
		system := System{OS: "linux", Env: func(k string) string {
			if k == "HOME" {
				return home
			}
			return ""
		}}
		for _, c := range known[:20] {
			path := c.File(system)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				b.Fatal(err)
			}
			content := "{}"
			if c.place.Format != 0 {
				content = "# mine\n"
			}
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				b.Fatal(err)
			}
		}
		s := Open(system, filepath.Join(home, "thv"), "/opt/thv")
		b.StartTimer()
		if _, err := s.Add(b.Context(), Names()[:20], "", []*Workload{demo()}); err != nil {
			b.Fatal(err)
		}
	}
}
