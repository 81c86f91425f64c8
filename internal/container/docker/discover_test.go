package docker

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/jsonstream"

	"github.com/toolhaven/toolhaven/internal/container"
)

func envOf(vars map[string]string) func(string) string {
	return func(k string) string { return vars[k] }
}

func TestWhatThePersonChoseIsTriedAlone(t *testing.T) {
	dir := t.TempDir()
	write := func(path, content string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sum := sha256.Sum256([]byte("desk"))
	write(filepath.Join(dir, ".docker/contexts/meta", hex.EncodeToString(sum[:]), "meta.json"), `{"Name":"desk","Endpoints":{"docker":{"Host":"unix:///desk.sock"}}}`)
	home := map[string]string{"HOME": dir}
	with := func(k, v string) map[string]string {
		m := map[string]string{"HOME": dir, "DOCKER_HOST": "tcp://host:1"}
		m[k] = v
		return m
	}
	for name, c := range map[string]struct {
		env  map[string]string
		want string
	}{
		"THV_ENGINE first":      {with("THV_ENGINE", "/my.sock"), "unix:///my.sock"},
		"then DOCKER_HOST":      {with("X", ""), "tcp://host:1"},
		"then a docker context": {map[string]string{"HOME": dir, "DOCKER_CONTEXT": "desk"}, "unix:///desk.sock"},
	} {
		got := candidates(envOf(c.env))
		if len(got) != 1 || got[0].address != c.want || !got[0].explicit {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := candidates(envOf(home)); len(got) < 8 || got[0].explicit {
		t.Errorf("without a choice: %+v", got)
	}
	write(filepath.Join(dir, ".docker/config.json"), `{"currentContext":"desk"}`)
	if got := candidates(envOf(home)); len(got) != 1 || got[0].address != "unix:///desk.sock" {
		t.Errorf("with a current context: %+v", got)
	}
	write(filepath.Join(dir, ".docker/config.json"), `{"currentContext":"default"}`)
	if got := candidates(envOf(home)); len(got) < 8 {
		t.Errorf("the default context is no choice: %+v", got)
	}
}

func TestWithoutAnEngineEachAddressSaysWhy(t *testing.T) {
	dir := t.TempDir()
	dead := filepath.Join(dir, "dead.sock")
	l, err := net.Listen("unix", dead)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	for address, want := range map[string]string{dead: "not running", filepath.Join(dir, "none"): "no such socket"} {
		_, err := Connect(t.Context(), envOf(map[string]string{"THV_ENGINE": address}))
		if !errors.Is(err, container.ErrUnavailable) || !strings.Contains(err.Error(), address) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestCredentialsComeFromDockerLogin(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, ".docker"), 0o700); err != nil {
		t.Fatal(err)
	}
	secret := base64.StdEncoding.EncodeToString([]byte("jo:pass:word"))
	config := `{"auths":{"r.example":{"auth":"` + secret + `"},"https://index.docker.io/v1/":{"auth":"` + secret + `"},"bad.example":{"auth":"!"}},"credHelpers":{"h.example":"../../bin/sh"}}`
	if err := os.WriteFile(filepath.Join(dir, ".docker/config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	env := envOf(map[string]string{"HOME": dir})
	for ref, want := range map[string]string{"r.example/a:1": "jo", "alpine": "jo", "other.example/a:1": ""} {
		got, err := registryAuth(t.Context(), ref, env)
		if err != nil {
			t.Fatal(err)
		}
		plain, _ := base64.URLEncoding.DecodeString(got)
		var auth struct{ Username, Password string }
		if got != "" && json.Unmarshal(plain, &auth) != nil {
			t.Fatalf("%s: %s", ref, plain)
		}
		if auth.Username != want || want != "" && auth.Password != "pass:word" {
			t.Errorf("%s: %+v", ref, auth)
		}
	}
	for _, ref := range []string{"bad.example/a:1", "h.example/a:1", "NOT AN IMAGE"} {
		if got, err := registryAuth(t.Context(), ref, env); err == nil {
			t.Errorf("%s: %q", ref, got)
		}
	}
}

func TestAnEnginesMessagesAreBoundedAndTheirErrorsSurface(t *testing.T) {
	var lines []string
	each := func(m jsonstream.Message) { lines = append(lines, m.Stream) }
	last, err := messages(strings.NewReader(`{"stream":"Step 1\n"}{"stream":"boom\n"}{"error":"x","errorDetail":{"message":"it failed"}}`), each)
	if err == nil || err.Error() != "it failed" || !strings.Contains(last, "boom") || len(lines) != 2 {
		t.Errorf("%q, %v, %q", last, err, lines)
	}
	for _, hostile := range []string{"not json", `{"stream":`, `{"stream":"` + strings.Repeat("x", maxMessage) + `"}`} {
		if _, err := messages(strings.NewReader(hostile), each); err == nil {
			t.Errorf("%.20s was read", hostile)
		}
	}
	if _, err := messages(strings.NewReader(""), each); err != nil {
		t.Error(err)
	}
}
