package source

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/registry/config"
)

// gitRepo is a repository made with the git program.
type gitRepo struct {
	t   *testing.T
	dir string
}

func newGitRepo(t *testing.T) *gitRepo {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git here")
	}
	r := &gitRepo{t, filepath.Join(t.TempDir(), "repo")}
	if err := os.Mkdir(r.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	r.git("init", "--quiet", "--initial-branch=main")
	return r
}

func (r *gitRepo) git(args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "git", args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+r.dir,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit writes a file and commits it; it returns the commit.
func (r *gitRepo) commit(path, content string) string {
	r.t.Helper()
	file := filepath.Join(r.dir, path)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		r.t.Fatal(err)
	}
	r.git("add", "--all")
	r.git("commit", "--quiet", "--message", "a change")
	return r.git("rev-parse", "HEAD")
}

// gitServer serves the repository over smart HTTP, as git's own program does it.
type gitServer struct {
	*httptest.Server
	refs, packs atomic.Int32 // requests
}

func (r *gitRepo) serve(before func(http.ResponseWriter, *http.Request) bool) *gitServer {
	r.t.Helper()
	s := &gitServer{}
	backend := &cgi.Handler{
		Path:   filepath.Join(r.git("--exec-path"), "git-http-backend"),
		Env:    []string{"GIT_PROJECT_ROOT=" + r.dir, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + r.dir},
		Stderr: io.Discard,
	}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.HasSuffix(req.URL.Path, "/info/refs") {
			s.refs.Add(1)
		} else {
			s.packs.Add(1)
		}
		if before == nil || before(w, req) {
			backend.ServeHTTP(w, req)
		}
	}))
	s.StartTLS()
	r.t.Cleanup(s.Close)
	return s
}

// caFile is the server's certificate as a file.
func caFile(t *testing.T, s *httptest.Server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func fetch(t *testing.T, cfg config.Source, previous string) (Fetched, error) {
	t.Helper()
	src, err := Open(cfg, Access{TempDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return src.Fetch(t.Context(), previous)
}

func entryNames(f Fetched) []string {
	out := []string{}
	for _, e := range f.Entries {
		out = append(out, e.Name+"@"+e.Version)
	}
	return out
}

func TestGit_References(t *testing.T) {
	repo := newGitRepo(t)
	first := repo.commit("registry.json", registryFile(server("io.example/first", "1.0.0", "x")))
	repo.git("tag", "light")
	second := repo.commit("registry.json", registryFile(server("io.example/second", "1.0.0", "x")))
	repo.git("tag", "--annotate", "--message", "signed off", "annotated")
	repo.commit("deep/er/servers.json", registryFile(server("io.example/deep", "1.0.0", "x")))
	repo.git("checkout", "--quiet", "-b", "feature/x", first)
	repo.commit("registry.json", registryFile(server("io.example/feature", "1.0.0", "x")))
	repo.git("checkout", "--quiet", "main")
	served := repo.serve(nil)
	ca := caFile(t, served.Server)

	for _, row := range []struct {
		name string
		git  config.Git
		want string
	}{
		{"the default branch", config.Git{}, "io.example/second"},
		{"a branch", config.Git{Branch: "feature/x"}, "io.example/feature"},
		{"a light tag", config.Git{Tag: "light"}, "io.example/first"},
		{"an annotated tag", config.Git{Tag: "annotated"}, "io.example/second"},
		{"a commit at a tip", config.Git{Commit: repo.git("rev-parse", "main")}, "io.example/second"},
		{"a commit that is no tip", config.Git{Commit: second}, "io.example/second"},
		{"a path", config.Git{Path: "deep/er/servers.json"}, "io.example/deep"},
	} {
		for _, where := range []string{"file", "https"} {
			t.Run(row.name+" over "+where, func(t *testing.T) {
				cfg := row.git
				if cfg.Repository = "file://" + repo.dir; where == "https" {
					cfg.Repository, cfg.CACertPath, cfg.AllowPrivateIP = served.URL+"/.git", ca, true
				}
				got, err := fetch(t, config.Source{Git: &cfg}, "")
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]string{row.want + "@1.0.0"}, entryNames(got)); diff != "" {
					t.Error(diff)
				}
				packs := served.packs.Load()
				again, err := fetch(t, config.Source{Git: &cfg}, got.Digest)
				if err != nil || !again.Unchanged || again.Digest != got.Digest || len(again.Entries) > 0 {
					t.Errorf("fetched again: %+v, %v", again, err)
				}
				if served.packs.Load() != packs {
					t.Error("what is known was fetched again")
				}
			})
		}
	}
	t.Run("a new commit is fetched", func(t *testing.T) {
		cfg := config.Source{Git: &config.Git{Repository: served.URL + "/.git", CACertPath: ca, AllowPrivateIP: true}}
		before, err := fetch(t, cfg, "")
		if err != nil {
			t.Fatal(err)
		}
		repo.commit("registry.json", registryFile(server("io.example/third", "1.0.0", "x")))
		after, err := fetch(t, cfg, before.Digest)
		if err != nil || after.Unchanged {
			t.Fatalf("%+v, %v", after, err)
		}
		if diff := cmp.Diff([]string{"io.example/third@1.0.0"}, entryNames(after)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a bare repository with packed objects", func(t *testing.T) {
		bare := filepath.Join(t.TempDir(), "bare.git")
		repo.git("clone", "--quiet", "--bare", repo.dir, bare)
		got, err := fetch(t, config.Source{Git: &config.Git{Repository: "file://" + bare, Tag: "light"}}, "")
		if diff := cmp.Diff([]string{"io.example/first@1.0.0"}, entryNames(got)); diff != "" || err != nil {
			t.Error(diff, err)
		}
	})
	t.Run("a commit that the server gives out by name", func(t *testing.T) {
		repo.git("config", "uploadpack.allowReachableSHA1InWant", "true")
		got, err := fetch(t, config.Source{Git: &config.Git{Repository: served.URL + "/.git", CACertPath: ca, AllowPrivateIP: true, Commit: second}}, "")
		if diff := cmp.Diff([]string{"io.example/second@1.0.0"}, entryNames(got)); diff != "" || err != nil {
			t.Error(diff, err)
		}
	})
}

func TestGit_Errors(t *testing.T) {
	repo := newGitRepo(t)
	repo.commit("registry.json", registryFile(server("io.example/a", "1.0.0", "x")))
	repo.commit("dir/broken.json", `{"data":`)
	if err := os.Symlink("registry.json", filepath.Join(repo.dir, "link.json")); err != nil {
		t.Fatal(err)
	}
	repo.commit("empty", "")
	served := repo.serve(nil)
	empty := newGitRepo(t)
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>hello") }))
	defer plain.Close()
	ca := caFile(t, served.Server)
	for _, row := range []struct {
		name string
		git  config.Git
		want string
	}{
		{"no such branch", config.Git{Branch: "nope"}, `no branch "nope"`},
		{"no such tag", config.Git{Tag: "nope"}, `no tag "nope"`},
		{"no such commit", config.Git{Commit: strings.Repeat("ab", 20)}, "does not have it"},
		{"a commit of a SHA-256 repository", config.Git{Commit: strings.Repeat("ab", 32)}, "not supported"},
		{"no such file", config.Git{Path: "nope.json"}, "there is no nope.json"},
		{"no such directory", config.Git{Path: "nope/registry.json"}, "there is no nope"},
		{"a directory", config.Git{Path: "dir"}, "is a directory"},
		{"a file in a file", config.Git{Path: "registry.json/x"}, "is not a directory"},
		{"a link", config.Git{Path: "link.json"}, "is a link"},
		{"a path that leads out", config.Git{Path: "../registry.json"}, "there is no .."},
		{"a broken file", config.Git{Path: "dir/broken.json"}, "dir/broken.json in commit"},
	} {
		for _, where := range []string{"file", "https"} {
			t.Run(row.name+" over "+where, func(t *testing.T) {
				cfg := row.git
				if cfg.Repository = "file://" + repo.dir; where == "https" {
					cfg.Repository, cfg.CACertPath, cfg.AllowPrivateIP = served.URL+"/.git", ca, true
				}
				_, err := fetch(t, config.Source{Git: &cfg}, "")
				if err == nil || !strings.Contains(err.Error(), row.want) {
					t.Errorf("got %v, want %q in it", err, row.want)
				}
			})
		}
	}
	for _, row := range []struct {
		name, url string
		private   bool
		want      string
	}{
		{"no repository", "file:///nowhere", false, "there is no git repository"},
		{"an empty repository", "file://" + empty.dir, false, "no default branch"},
		{"no repository over HTTPS", served.URL + "/other.git", true, "there is no git repository"},
		{"a private address", "https://10.255.255.1/r.git", false, "not a public one"},
		{"a page that is no repository", plain.URL, true, "repository http://127.0.0.1"},
		{"another scheme", "ftp://example.com/x", false, "none of https"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := fetch(t, config.Source{Git: &config.Git{Repository: row.url, CACertPath: ca, AllowPrivateIP: row.private}}, "")
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %q in it", err, row.want)
			}
		})
	}
}

func TestGit_Password(t *testing.T) {
	repo := newGitRepo(t)
	repo.commit("registry.json", registryFile(server("io.example/a", "1.0.0", "x")))
	var want atomic.Value
	want.Store("s3cret/+ one")
	served := repo.serve(func(w http.ResponseWriter, req *http.Request) bool {
		if user, password, _ := req.BasicAuth(); user == "bot" && password == want.Load() {
			return true
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, "wrong: %s", req.Header.Get("Authorization"))
		return false
	})
	file := filepath.Join(t.TempDir(), "password")
	writeFile(t, file, "s3cret/+ one\n")
	cfg := config.Source{Git: &config.Git{
		Repository: served.URL + "/.git", CACertPath: caFile(t, served.Server), AllowPrivateIP: true, Username: "bot", PasswordFile: file,
	}}
	src, err := Open(cfg, Access{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := src.Fetch(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	want.Store("another")
	_, err = src.Fetch(t.Context(), "")
	if err == nil || !strings.Contains(err.Error(), "not accepted") {
		t.Errorf("got %v", err)
	}
	if text := fmt.Sprintf("%v %+v", err, err); strings.Contains(text, "s3cret") || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte("bot:s3cret/+ one"))) {
		t.Errorf("the password is in %s", text)
	}
	writeFile(t, file, "another\n")
	if _, err := src.Fetch(t.Context(), ""); err != nil {
		t.Errorf("after the file changed: %v", err)
	}
	writeFile(t, file, "\n")
	if _, err := src.Fetch(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("got %v", err)
	}
}

func TestGit_RedirectWithoutPassword(t *testing.T) {
	repo := newGitRepo(t)
	repo.commit("registry.json", registryFile(server("io.example/a", "1.0.0", "x")))
	var hits atomic.Int32
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer elsewhere.Close()
	served := repo.serve(func(w http.ResponseWriter, req *http.Request) bool {
		http.Redirect(w, req, elsewhere.URL+req.URL.RequestURI(), http.StatusFound)
		return false
	})
	file := filepath.Join(t.TempDir(), "password")
	writeFile(t, file, "s3cret")
	_, err := fetch(t, config.Source{Git: &config.Git{
		Repository: served.URL + "/.git", CACertPath: caFile(t, served.Server), AllowPrivateIP: true, Username: "bot", PasswordFile: file,
	}}, "")
	if err == nil || !strings.Contains(err.Error(), "another host") || hits.Load() != 0 {
		t.Errorf("%v, %d requests", err, hits.Load())
	}
}

func TestGit_Timeout(t *testing.T) {
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		fmt.Fprint(w, "001e# service=git-upload-pack\n0000")
		w.(http.Flusher).Flush()
		<-req.Context().Done()
	}))
	defer served.Close()
	src, err := Open(config.Source{Git: &config.Git{Repository: served.URL, AllowPrivateIP: true}}, Access{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := src.Fetch(ctx, "")
		ended <- err
	}()
	cancel()
	if err := <-ended; err == nil {
		t.Error("it was taken for an answer")
	}
}

func TestGit_Bounds(t *testing.T) {
	ref := []byte("0043" + strings.Repeat("a", 40) + " refs/heads/")
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		fmt.Fprint(w, "001e# service=git-upload-pack\n0000003a"+strings.Repeat("a", 40)+" HEAD\x00shallow\n")
		for n := 0; req.Context().Err() == nil; n++ {
			if _, err := fmt.Fprintf(w, "%s%010d\n", ref, n); err != nil {
				return
			}
		}
	}))
	defer served.Close()
	_, err := fetch(t, config.Source{Git: &config.Git{Repository: served.URL, AllowPrivateIP: true}}, "")
	if err == nil || !strings.Contains(err.Error(), "branches and tags") {
		t.Errorf("got %v", err)
	}
}
