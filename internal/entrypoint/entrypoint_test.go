package entrypoint

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// login is the user and the password that images below private/ require.
const login = "robot:p4ssw0rd"

// served is a registry with images, and how many requests it received.
func served(t *testing.T, images map[string]v1.Config) (host string, requests *atomic.Int64) {
	t.Helper()
	requests = &atomic.Int64{}
	handler := registry.New()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if user, password, _ := r.BasicAuth(); strings.Contains(r.URL.Path, "/private/") && user+":"+password != login {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	host = strings.TrimPrefix(server.URL, "http://")
	for path, config := range images {
		img, err := mutate.Config(empty.Image, config)
		if err != nil {
			t.Fatal(err)
		}
		ref, err := name.ParseReference(host + "/" + path)
		if err != nil {
			t.Fatal(err)
		}
		user, password, _ := strings.Cut(login, ":")
		if err := remote.Write(ref, img, remote.WithAuth(&authn.Basic{Username: user, Password: password})); err != nil {
			t.Fatal(err)
		}
	}
	return host, requests
}

func TestEntryPoint(t *testing.T) {
	t.Parallel()
	host, _ := served(t, map[string]v1.Config{
		"both:1":  {Entrypoint: []string{"/server"}, Cmd: []string{"--serve"}},
		"cmd:1":   {Cmd: []string{"node", "index.js"}},
		"none:1":  {},
		"entry:1": {Entrypoint: []string{"/server"}},
	})
	r, err := New(Options{AllowLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		image   string
		hasArgs bool
		want    []string
		err     string
	}{
		{"both:1", false, []string{"/server", "--serve"}, ""},
		{"both:1", true, []string{"/server"}, ""}, // arguments of one's own replace the image's
		{"entry:1", true, []string{"/server"}, ""},
		{"cmd:1", false, []string{"node", "index.js"}, ""},
		{"cmd:1", true, []string{"node", "index.js"}, ""},
		{"none:1", false, nil, "names no program"},
		{"missing:1", false, nil, "status 404"},
		{"private/x:1", false, nil, "requires a login"},
	} {
		got, err := r.EntryPoint(t.Context(), host+"/"+row.image, row.hasArgs)
		if !slices.Equal(got, row.want) || (err == nil) != (row.err == "") || err != nil && !strings.Contains(err.Error(), row.err) {
			t.Errorf("EntryPoint(%s, %t) = %q, %v", row.image, row.hasArgs, got, err)
		}
	}
	if _, err := r.EntryPoint(t.Context(), "A B", false); err == nil {
		t.Error("a reference that is none is looked up")
	}
}

// A result is used again for an hour, an error for a minute.
func TestEntryPoint_Kept(t *testing.T) {
	t.Parallel()
	host, requests := served(t, map[string]v1.Config{"a:1": {Entrypoint: []string{"/a"}}})
	r, err := New(Options{AllowLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	r.now = func() time.Time { return now }
	ask := func(image string) int64 {
		before := requests.Load()
		_, _ = r.EntryPoint(t.Context(), host+"/"+image, false)
		return requests.Load() - before
	}
	for _, row := range []struct {
		image  string
		after  time.Duration
		asking bool
	}{{"a:1", 0, true}, {"a:1", 59 * time.Minute, false}, {"a:1", 2 * time.Minute, true}, {"b:1", 0, true}, {"b:1", 59 * time.Second, false}, {"b:1", 2 * time.Second, true}} {
		now = now.Add(row.after)
		if n := ask(row.image); (n > 0) != row.asking {
			t.Errorf("%s, %s later: %d requests", row.image, row.after, n)
		}
	}
}

// A user of the cluster must not make the operator connect to this machine.
func TestEntryPoint_Private(t *testing.T) {
	t.Parallel()
	host, requests := served(t, nil)
	r, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	before := requests.Load()
	_, err = r.EntryPoint(t.Context(), host+"/a:1", false)
	if err == nil || errors.Is(err, ErrNoProgram) || requests.Load() != before {
		t.Errorf("the operator connects to a loopback address: %v", err)
	}
}

// Passwords are those of pull secrets, whatever else these have. The first that the registry
// accepts counts.
func TestEntryPoint_PullSecrets(t *testing.T) {
	t.Parallel()
	host, _ := served(t, map[string]v1.Config{"private/team/a:1": {Entrypoint: []string{"/a"}}, "open:1": {Entrypoint: []string{"/open"}}})
	const right, wrong = `{"username":"robot","password":"p4ssw0rd"}`, `{"username":"robot","password":"no"}`
	const encoded = `{"auth":"cm9ib3Q6cDRzc3cwcmQ="}`
	auths := func(entries ...string) string { return `{"auths":{` + strings.Join(entries, ",") + `}}` }
	for name, row := range map[string]struct {
		files map[string]string
		err   string // "" is success
	}{
		"a host":                     {map[string]string{"a/.dockerconfigjson": auths(`"` + host + `":` + right)}, ""},
		"an encoded pair":            {map[string]string{"a/.dockerconfigjson": auths(`"` + host + `":` + encoded)}, ""},
		"a URL":                      {map[string]string{"a/.dockerconfigjson": auths(`"http://` + host + `/v2/":` + right)}, ""},
		"a path":                     {map[string]string{"a/.dockerconfigjson": auths(`"` + host + `/private/team":` + right)}, ""},
		"the older format":           {map[string]string{"a/.dockercfg": `{"` + host + `":` + right + `}`}, ""},
		"the longer path first":      {map[string]string{"a/.dockerconfigjson": auths(`"`+host+`":`+wrong, `"`+host+`/private":`+right)}, ""},
		"a second Secret":            {map[string]string{"a/.dockerconfigjson": auths(`"` + host + `":` + wrong), "b/.dockerconfigjson": auths(`"` + host + `":` + right)}, ""},
		"a wrong password":           {map[string]string{"a/.dockerconfigjson": auths(`"` + host + `":` + wrong)}, "refuses the passwords of imagePullSecrets"},
		"another path":               {map[string]string{"a/.dockerconfigjson": auths(`"` + host + `/private/te":` + right)}, "requires a login"},
		"another host":               {map[string]string{"a/.dockerconfigjson": auths(`"registry.example":` + right)}, "requires a login"},
		"a Secret that is not there": {map[string]string{"a/other": ""}, "requires a login"},
		"no JSON":                    {map[string]string{"a/.dockerconfigjson": right + "{"}, "the pull secret a is not"},
		"too large":                  {map[string]string{"a/.dockerconfigjson": strings.Repeat(" ", maxSecret+1)}, "the pull secret a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, content := range row.files {
				path := filepath.Join(dir, filepath.FromSlash(file))
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			r, err := New(Options{AllowLoopback: true, PullSecrets: dir})
			if err != nil {
				t.Fatal(err)
			}
			got, err := r.EntryPoint(t.Context(), host+"/private/team/a:1", false)
			if (err == nil) != (row.err == "") || err != nil && (!strings.Contains(err.Error(), row.err) || strings.Contains(err.Error(), "p4ssw0rd")) {
				t.Fatalf("%q, %v", got, err)
			}
			if err == nil && !slices.Equal(got, []string{"/a"}) {
				t.Errorf("the program is %q", got)
			}
			if strings.HasPrefix(row.err, "the pull secret") {
				return
			}
			// An image that needs no password is read with a wrong one too.
			if got, err := r.EntryPoint(t.Context(), host+"/open:1", false); err != nil || got[0] != "/open" {
				t.Errorf("an open image: %q, %v", got, err)
			}
		})
	}
}

func TestMatches(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]bool{
		"registry.example": true, "registry.example:443": false, "*.example": true, "*.other": false, "*": false, "reg*.example": true,
		"registry.example/team": true, "registry.example/team/": true, "registry.example/tea": false, "https://registry.example/v1/": true, "example": false, "": false,
	} {
		if got := matches(pattern, "registry.example", "team/app"); (got >= 0) != want {
			t.Errorf("matches(%q) = %d", pattern, got)
		}
	}
	if matches("https://index.docker.io/v1/", "index.docker.io", "library/a") < 0 || matches("docker.io", "index.docker.io", "library/a") < 0 {
		t.Error("Docker Hub has other names")
	}
}
