package build

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func npmrc(t *testing.T, text string, env map[string]string) *Builder {
	t.Helper()
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, ".npmrc"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{"HOME": home}
	for k, v := range env {
		all[k] = v
	}
	return withEnv(all)
}

func TestOnlyWhatLeadsToPackagesIsTakenFromNpmrc(t *testing.T) {
	b := npmrc(t, `
# a comment
; another
registry = https://me:pw@npm.example.com/all
@own:registry="https://own.example.com/"
//own.example.com/:_authToken=${TOKEN}
ignore-scripts=true
script-shell=/bin/evil
cafile=/etc/x
`, map[string]string{"TOKEN": "t0k=n"})
	got, err := npm{b.env()}.settings()
	if err != nil {
		t.Fatal(err)
	}
	want := npmSettings{
		"registry":                      "https://npm.example.com/all",
		"//npm.example.com/all/:_auth":  "bWU6cHc=",
		"@own:registry":                 "https://own.example.com/",
		"//own.example.com/:_authToken": "t0k=n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{"@own/pkg": "https://own.example.com/", "@other/pkg": want["registry"], "pkg": want["registry"]} {
		if got := got.registry(name); got != want {
			t.Errorf("%s comes from %s, not %s", name, got, want)
		}
	}
	b = npmrc(t, "registry=https://a.example.com/\n", map[string]string{"NPM_CONFIG_REGISTRY": "https://b.example.com/"})
	if got, err := (npm{b.env()}).settings(); err != nil || got["registry"] != "https://b.example.com/" {
		t.Errorf("the environment does not come first: %v, %v", got, err)
	}
}

func TestSettingsThatCannotBeMeantAreRefused(t *testing.T) {
	for _, text := range []string{"registry=${NOT_SET}", "registry=file:///etc", "//x/:_authToken=", "//x/:_authToken=a\x01b"} {
		if got, err := (npm{npmrc(t, text, nil).env()}).settings(); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

func TestACredentialIsForItsRegistryAlone(t *testing.T) {
	s := npmSettings{"//x.example/a/:_authToken": "T", "//x.example/:_auth": "QQ==", "//y.example/:username": "u", "//y.example/:_password": "cHc="}
	for address, want := range map[string]string{
		"https://x.example/a": "Bearer T", "https://x.example/a/b/": "Bearer T", "https://x.example/": "Basic QQ==", "https://x.example/ab": "Basic QQ==",
		"https://y.example": "Basic dTpwdw==", "https://z.example/": "", "https://x.example.evil/": "", "https://x.example:8443/": "",
	} {
		u, err := registryURL(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.authorization(u); got != want {
			t.Errorf("%s is given %q, not %q", address, got, want)
		}
	}
}

// The password is used, and is neither in a command, nor in the image's own
// stage, nor in the error.
func TestAPasswordIsUsedAndNotShown(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "me" || password != "verysecret" {
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if strings.HasPrefix(r.URL.Path, "/simple/") {
			_, _ = w.Write([]byte(`{"versions":["1.0"],"files":[]}`))
			return
		}
		_, _ = w.Write([]byte(`{"dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{}}}`))
	}))
	t.Cleanup(s.Close)
	address := strings.Replace(s.URL, "http://", "http://me:verysecret@", 1)
	b := withEnv(map[string]string{"NPM_CONFIG_REGISTRY": address, "PIP_INDEX_URL": address + "/simple"})
	for _, scheme := range []string{schemeNPX, schemeUVX} {
		found, err := resolve(t, b, Request{Scheme: scheme, Name: "pkg"})
		if err != nil {
			t.Fatal(err)
		}
		if len(found.settings) == 0 {
			t.Errorf("%s: the installer is not let in", scheme)
		}
		first, second := installation{scheme: scheme, name: "pkg", version: found.version, base: "b", registry: found.registry, settings: found.settings}.dockerfiles("stage:1")
		if text := first + second; strings.Contains(text, "verysecret") || strings.Contains(text, "bWU6dmVyeXNlY3JldA==") {
			t.Errorf("%s: the password is in a command:\n%s", scheme, text)
		}
		if !strings.Contains(first, "/settings/config") || strings.Contains(second, "settings") {
			t.Errorf("%s: the settings are not in the installation alone:\n%s\n%s", scheme, first, second)
		}
	}
}
