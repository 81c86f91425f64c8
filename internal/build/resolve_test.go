package build

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// registry answers paths, as they are on the wire, with JSON.
func registry(t *testing.T, answers map[string]string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := answers[r.URL.EscapedPath()]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func withEnv(env map[string]string) *Builder {
	return New(Config{Env: func(k string) string { return env[k] }})
}

// resolve resolves the version of an npm or PyPI package.
func resolve(t *testing.T, b *Builder, r Request) (resolved, error) {
	t.Helper()
	return installBuilder{b.common}.resolve(t.Context(), r)
}

func TestNPMVersionsAreResolved(t *testing.T) {
	url := registry(t, map[string]string{
		"/npm/@scope%2Fpkg": `{"dist-tags":{"latest":"1.10.0","next":"2.0.0-rc.1","bad":"9.9.9","evil":"-x"},
			"versions":{"1.2.0":{},"1.2.9":{},"1.2.10":{},"1.10.0":{"dist":{"integrity":"sha512-x"}},"2.0.0-rc.1":{},"-x":{}}}`,
		"/npm/broken": `{"dist-tags":`,
	})
	b := withEnv(map[string]string{"NPM_CONFIG_REGISTRY": url + "/npm/"})
	for wanted, want := range map[string]string{
		"": "1.10.0", "latest": "1.10.0", "next": "2.0.0-rc.1", "1.2.0": "1.2.0", "1.2": "1.2.10", "1.2.x": "1.2.10", "1": "1.10.0",
		"2": "", "3.0.0": "", "bad": "", "1.2.3.4": "",
	} {
		got, err := resolve(t, b, Request{Scheme: "npx", Name: "@scope/pkg", Version: wanted})
		switch {
		case want == "" && !errors.Is(err, ErrNotFound):
			t.Errorf("%q: %+v, %v", wanted, got, err)
		case want != "" && (err != nil || got.version != want || got.registry == ""):
			t.Errorf("%q: %+v, %v; want %s", wanted, got, err, want)
		}
	}
	if _, err := resolve(t, b, Request{Scheme: "npx", Name: "other"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("a package that is not there: %v", err)
	}
	for _, r := range []Request{{Scheme: "npx", Name: "broken"}, {Scheme: "npx", Name: "@scope/pkg", Version: "evil"}} {
		if got, err := resolve(t, b, r); err == nil || errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %+v, %v", r, got, err)
		}
	}
}

func TestPythonVersionsAreResolvedByAnIndex(t *testing.T) {
	url := registry(t, map[string]string{
		"/simple/my-pkg/":  `{"versions":["1.9","1.10.0","1.10.0.post1","2.0rc1"],"files":[]}`,
		"/simple/by-file/": `{"files":[{"filename":"by_file-0.9-py3-none-any.whl"},{"filename":"by_file-0.10.tar.gz"},{"filename":"by_file-0.10.zip.sig"}]}`,
	})
	b := withEnv(map[string]string{"PIP_INDEX_URL": url + "/simple"})
	for _, c := range []struct{ name, wanted, want string }{
		{"My.Pkg", "", "1.10.0.post1"}, {"my_pkg", "1.9.0", "1.9"}, {"my-pkg", "2.0rc1", "2.0rc1"}, {"my-pkg", "3", ""},
		{"by-file", "latest", "0.10"}, {"by-file", "0.9", "0.9"}, {"absent", "", ""},
	} {
		got, err := resolve(t, b, Request{Scheme: "uvx", Name: c.name, Version: c.wanted})
		switch {
		case c.want == "" && !errors.Is(err, ErrNotFound):
			t.Errorf("%+v: %+v, %v", c, got, err)
		case c.want != "" && (err != nil || got.version != c.want):
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
	}
}

func TestARegistryMustBeAURLAndItsPasswordIsNotShown(t *testing.T) {
	for _, text := range []string{"file:///etc", "registry", "https://", "https://x/?a=b", "ftp://x"} {
		if _, err := resolve(t, withEnv(map[string]string{"NPM_CONFIG_REGISTRY": text}), Request{Scheme: "npx", Name: "x"}); err == nil {
			t.Errorf("%q was taken for a registry", text)
		}
	}
	_, err := resolve(t, withEnv(map[string]string{"PIP_INDEX_URL": "http://me:verysecret@127.0.0.1:1/simple"}), Request{Scheme: "uvx", Name: "x"})
	if err == nil || strings.Contains(err.Error(), "verysecret") {
		t.Errorf("%v", err)
	}
}

// A name is resolved again without an image, a record, or an engine.
func TestAVersionIsLookedUpWithoutABuild(t *testing.T) {
	h := newHouse(t)
	for _, row := range []struct{ version, want string }{{"", "1.0.1"}, {"latest", "1.0.1"}, {"1.0", "1.0.1"}, {"1.0.0", "1.0.0"}} {
		got, err := h.Resolve(t.Context(), Request{Scheme: "npx", Name: "pkg", Version: row.version})
		if err != nil || got != row.want {
			t.Errorf("%q: got %q, %v", row.version, got, err)
		}
	}
	if got, err := h.Resolve(t.Context(), Request{Scheme: "npx", Name: "pkg", Version: "2"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %q, %v", got, err)
	}
	if h.engine.builds != 0 {
		t.Error("something was built")
	}
}
