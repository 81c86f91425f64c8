package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/container"
)

func envOf(vars map[string]string) func(string) string {
	return func(k string) string { return vars[k] }
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// context writes a docker context as the docker CLI does, and returns its id.
func writeContext(t *testing.T, dir, name, endpoint string) string {
	t.Helper()
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	write(t, filepath.Join(dir, ".docker/contexts/meta", id, "meta.json"), `{"Name":"`+name+`","Endpoints":{"docker":`+endpoint+`}}`)
	return id
}

func TestWhatThePersonChoseIsTriedAlone(t *testing.T) {
	dir := t.TempDir()
	writeContext(t, dir, "desk", `{"Host":"unix:///desk.sock"}`)
	far := writeContext(t, dir, "far", `{"Host":"tcp://far:2376"}`)
	write(t, filepath.Join(dir, ".docker/contexts/tls", far, "docker", "ca.pem"), "x")
	for name, c := range map[string]struct {
		env    map[string]string
		config string // ~/.docker/config.json
		want   candidate
	}{
		"THV_ENGINE first": {
			env:  map[string]string{"THV_ENGINE": "/my.sock", "DOCKER_HOST": "tcp://host:1", "DOCKER_CONTEXT": "desk"},
			want: candidate{source: "THV_ENGINE", address: "unix:///my.sock"},
		},
		"then DOCKER_HOST": {
			env:  map[string]string{"DOCKER_HOST": "tcp://host:1", "DOCKER_CONTEXT": "desk"},
			want: candidate{source: "DOCKER_HOST", address: "tcp://host:1"},
		},
		"DOCKER_HOST with TLS": {
			env:  map[string]string{"DOCKER_HOST": "tcp://host:1", "DOCKER_TLS_VERIFY": "1"},
			want: candidate{source: "DOCKER_HOST", address: "tcp://host:1", tlsDir: filepath.Join(dir, ".docker")},
		},
		"then DOCKER_CONTEXT": {
			env: map[string]string{"DOCKER_CONTEXT": "desk"}, config: `{"currentContext":"far"}`,
			want: candidate{source: `docker context "desk"`, address: "unix:///desk.sock"},
		},
		"then the current context, with its certificates": {
			config: `{"currentContext":"far"}`,
			want:   candidate{source: `docker context "far"`, address: "tcp://far:2376", tlsDir: filepath.Join(dir, ".docker/contexts/tls", far, "docker")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			vars := map[string]string{"HOME": dir}
			for k, v := range c.env {
				vars[k] = v
			}
			write(t, filepath.Join(dir, ".docker/config.json"), c.config+" ")
			if c.config == "" {
				write(t, filepath.Join(dir, ".docker/config.json"), "{}")
			}
			c.want.explicit = true
			if diff := cmp.Diff([]candidate{c.want}, candidates(envOf(vars)), cmp.AllowUnexported(candidate{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAChoiceThatCannotBeReadIsAnErrorAndNotIgnored(t *testing.T) {
	for name, c := range map[string]struct{ config, want string }{
		"the configuration is broken":       {`{"currentContext":`, "not valid"},
		"the context does not exist":        {`{"currentContext":"none"}`, "does not exist"},
		"the context is broken":             {`{"currentContext":"broken"}`, "not valid"},
		"the context verifies nothing":      {`{"currentContext":"lax"}`, "verify"},
		"the context's engine is over ssh":  {`{"currentContext":"ssh"}`, "ssh -L"},
		"the context's address is nonsense": {`{"currentContext":"odd"}`, "not an engine's address"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeContext(t, dir, "broken", `{`)
			writeContext(t, dir, "lax", `{"Host":"tcp://far:2376","SkipTLSVerify":true}`)
			writeContext(t, dir, "ssh", `{"Host":"ssh://far"}`)
			writeContext(t, dir, "odd", `{"Host":"gopher://far"}`)
			write(t, filepath.Join(dir, ".docker/config.json"), c.config)
			_, err := Connect(t.Context(), envOf(map[string]string{"HOME": dir}))
			if !errors.Is(err, container.ErrUnavailable) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "/var/run/docker.sock (") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestUsualSocketsAreTriedInOrder(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has named pipes")
	}
	var got []string
	for _, c := range candidates(envOf(map[string]string{"HOME": "/h", "XDG_RUNTIME_DIR": "/r", "TMPDIR": "/t", "DOCKER_CONTEXT": "default"})) {
		if c.explicit {
			t.Errorf("%s was not chosen by anybody", c.address)
		}
		got = append(got, strings.TrimPrefix(c.address, "unix://"))
	}
	want := []string{
		"/var/run/docker.sock", "/r/docker.sock", "/h/.docker/run/docker.sock", "/h/.docker/desktop/docker.sock",
		"/run/podman/podman.sock", "/r/podman/podman.sock", "/h/.local/share/containers/podman/machine/podman.sock",
		"/t/podman/podman-machine-default-api.sock", "/h/.colima/default/docker.sock", "/h/.rd/docker.sock", "/h/.orbstack/run/docker.sock",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, c := range candidates(envOf(nil)) {
		if !strings.HasPrefix(c.address, "unix:///") {
			t.Errorf("without a home, %s depends on the working directory", c.address)
		}
	}
}

func TestWithoutAnEngineEachAddressHasAReason(t *testing.T) {
	dir := socketDir(t)
	dead := filepath.Join(dir, "dead.sock")
	l, err := net.Listen("unix", dead)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	stranger := filepath.Join(dir, "stranger.sock")
	listen(t, stranger, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	old := filepath.Join(dir, "old.sock")
	listen(t, old, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Api-Version", "1.24") }))

	for address, want := range map[string]string{
		dead:                       "not running",
		filepath.Join(dir, "none"): "no such socket",
		stranger:                   "not a container engine",
		old:                        "minimum supported API version",
		"tcp://no-port":            "not an address",
	} {
		_, err := Connect(t.Context(), envOf(map[string]string{"THV_ENGINE": address}))
		if !errors.Is(err, container.ErrUnavailable) || !strings.Contains(err.Error(), address) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
		}
		attempts := Probe(t.Context(), envOf(map[string]string{"THV_ENGINE": address}))
		if len(attempts) != 1 || attempts[0].Source != EnvEngine || !strings.Contains(attempts[0].Explain(), want) {
			t.Errorf("probe of %s: %+v", address, attempts)
		}
	}
}

// Root may open every socket, so the system's answer is made here.
func TestASocketWithoutPermissionHasAHint(t *testing.T) {
	for address, want := range map[string]string{
		"unix:///var/run/docker.sock":     "docker group",
		"unix:///run/podman/podman.sock":  "systemctl --user",
		"/home/jo/.docker/config.json":    "permission denied",
		"unix:///h/.orbstack/docker.sock": "sudo",
	} {
		got := Attempt{Address: address, Err: syscall.EACCES}.Explain()
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s", address, got)
		}
	}
}
