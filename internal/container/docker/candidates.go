package docker

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// EnvEngine names the environment variable that chooses the engine: the address
// of its socket, such as unix:///var/run/docker.sock.
const EnvEngine = "THV_ENGINE"

// candidate is an address to try. An explicit one was chosen by the person:
// if it fails, no other is tried.
type candidate struct {
	source, address string
	explicit        bool
	tlsDir          string // with ca.pem, cert.pem, key.pem; "" is no TLS
	broken          error  // why there is nothing to try
}

// candidates returns where engines may be, in the order of [Connect].
func candidates(env func(string) string) []candidate {
	for _, name := range []string{EnvEngine, "DOCKER_HOST"} {
		if address := env(name); address != "" {
			return []candidate{{source: name, address: withScheme(address), explicit: true, tlsDir: tlsDirFor(address, env)}}
		}
	}
	if c := contextChoice(env); c != nil {
		return []candidate{*c}
	}
	if runtime.GOOS == "windows" {
		return []candidate{
			{source: "Docker Desktop", address: "npipe:////./pipe/docker_engine"},
			{source: "Podman machine", address: "npipe:////./pipe/podman-machine-default"},
		}
	}
	return usualSockets(env)
}

// usualSockets is where engines listen on Linux and macOS.
func usualSockets(env func(string) string) []candidate {
	var all []candidate
	add := func(source, dir, path string) {
		address := "unix://" + filepath.Join(dir, path)
		listed := func(c candidate) bool { return c.address == address }
		if filepath.IsAbs(dir) && !slices.ContainsFunc(all, listed) {
			all = append(all, candidate{source: source, address: address})
		}
	}
	home := env("HOME")
	run := env("XDG_RUNTIME_DIR")
	if run == "" {
		run = "/run/user/" + strconv.Itoa(os.Getuid())
	}
	colima := env("COLIMA_HOME")
	if colima == "" && home != "" {
		colima = filepath.Join(home, ".colima")
	}
	add("Docker", "/var/run", "docker.sock")
	add("rootless Docker", run, "docker.sock")
	add("Docker Desktop", home, ".docker/run/docker.sock")
	add("Docker Desktop", home, ".docker/desktop/docker.sock")
	add("Podman", "/run/podman", "podman.sock")
	add("rootless Podman", run, "podman/podman.sock")
	add("Podman machine", home, ".local/share/containers/podman/machine/podman.sock")
	add("Podman machine", env("TMPDIR"), "podman/podman-machine-default-api.sock")
	add("Colima", colima, "default/docker.sock")
	add("Rancher Desktop", home, ".rd/docker.sock")
	add("OrbStack", home, ".orbstack/run/docker.sock")
	return all
}

// tlsDirFor is the directory of the certificates for an address from the environment.
// Either variable enables TLS, and TLS always verifies.
func tlsDirFor(address string, env func(string) string) string {
	if !strings.HasPrefix(address, "tcp://") || env("DOCKER_TLS_VERIFY") == "" && env("DOCKER_CERT_PATH") == "" {
		return ""
	}
	if dir := env("DOCKER_CERT_PATH"); dir != "" {
		return dir
	}
	return configDir(env)
}

func withScheme(address string) string {
	if strings.Contains(address, "://") {
		return address
	}
	return "unix://" + address
}
