package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/moby/moby/client"

	"github.com/toolhaven/toolhaven/internal/container"
)

// EnvEngine names the environment variable that chooses the engine: the address
// of its socket, such as unix:///var/run/docker.sock.
const EnvEngine = "THV_ENGINE"

// pingTimeout bounds one look at one socket.
const pingTimeout = 5 * time.Second

// Attempt is one look for an engine.
type Attempt struct {
	Source  string // where the address comes from, for a person
	Address string
	Err     error // nil: an engine answered
}

// candidate is an address to try. An explicit one is what the person asked for:
// if it fails, no other is tried.
type candidate struct {
	source, address string
	explicit        bool
}

// Connect finds the engine: THV_ENGINE, then DOCKER_HOST, then the current
// docker context, then the sockets where engines usually listen. What the
// person chose is never replaced by something else. The error wraps
// container.ErrUnavailable and lists each address tried and why it failed.
func Connect(ctx context.Context, env func(string) string) (*Engine, error) {
	var attempts []Attempt
	for _, c := range candidates(env) {
		e, err := open(ctx, c.address, env)
		if err == nil {
			return e, nil
		}
		attempts = append(attempts, Attempt{Source: c.source, Address: c.address, Err: err})
		if c.explicit {
			break
		}
	}
	return nil, unavailable(attempts)
}

// Probe looks at every address that Connect could use.
func Probe(ctx context.Context, env func(string) string) []Attempt {
	var attempts []Attempt
	for _, c := range candidates(env) {
		e, err := open(ctx, c.address, env)
		if err == nil {
			e.Close()
		}
		attempts = append(attempts, Attempt{Source: c.source, Address: c.address, Err: err})
	}
	return attempts
}

func open(ctx context.Context, address string, env func(string) string) (*Engine, error) {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if path, ok := strings.CutPrefix(address, "unix://"); ok {
		if _, err := os.Stat(path); err != nil {
			return nil, err
		}
	}
	opts := []client.Opt{client.WithHost(address)}
	if strings.HasPrefix(address, "tcp://") && env("DOCKER_TLS_VERIFY") != "" {
		dir := env("DOCKER_CERT_PATH")
		opts = append(opts, client.WithTLSClientConfig(filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")))
	}
	api, err := client.New(opts...)
	if err != nil {
		return nil, err
	}
	if _, err := api.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		api.Close()
		return nil, cause(err)
	}
	return &Engine{api: api, address: address, env: env}, nil
}

// cause digs out the operating system's word, which says more to a person.
func cause(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	if client.IsErrConnectionFailed(err) {
		return syscall.ECONNREFUSED
	}
	for text, errno := range map[string]syscall.Errno{
		"permission denied":  syscall.EACCES,
		"connection refused": syscall.ECONNREFUSED,
	} {
		if strings.Contains(err.Error(), text) {
			return errno
		}
	}
	if errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "deadline exceeded") {
		return fmt.Errorf("no answer within %s", pingTimeout)
	}
	return errors.New(message(err))
}

// Explain says in plain words why an address failed and what to do.
func (a Attempt) Explain() string {
	switch {
	case errors.Is(a.Err, fs.ErrNotExist):
		return "no such socket"
	case errors.Is(a.Err, fs.ErrPermission):
		return "permission denied: add yourself to the docker group (`sudo usermod -aG docker $USER`, then log in again), or use sudo"
	case errors.Is(a.Err, syscall.ECONNREFUSED):
		return "nothing listens there: the engine is not running"
	default:
		return a.Err.Error()
	}
}

func unavailable(attempts []Attempt) error {
	var b strings.Builder
	for _, a := range attempts {
		fmt.Fprintf(&b, "\n  %s (%s): %s", a.Address, a.Source, a.Explain())
	}
	return fmt.Errorf("%w: install and start Docker or Podman, or name its socket in %s; tried:%s", container.ErrUnavailable, EnvEngine, b.String())
}

func candidates(env func(string) string) []candidate {
	if a := env(EnvEngine); a != "" {
		return []candidate{{EnvEngine, withScheme(a), true}}
	}
	if a := env("DOCKER_HOST"); a != "" {
		return []candidate{{"DOCKER_HOST", withScheme(a), true}}
	}
	if name, address := currentContext(env); address != "" {
		return []candidate{{"docker context " + strconv.Quote(name), address, true}}
	}
	if runtime.GOOS == "windows" {
		return []candidate{
			{"Docker Desktop", "npipe:////./pipe/docker_engine", false},
			{"Podman", "npipe:////./pipe/podman-machine-default", false},
		}
	}
	home := env("HOME")
	run := env("XDG_RUNTIME_DIR")
	if run == "" {
		run = "/run/user/" + strconv.Itoa(os.Getuid())
	}
	unix := func(source string, parts ...string) candidate {
		return candidate{source, "unix://" + filepath.Join(parts...), false}
	}
	return []candidate{
		unix("Docker", "/var/run/docker.sock"),
		unix("rootless Docker", run, "docker.sock"),
		unix("Docker Desktop", home, ".docker/run/docker.sock"),
		unix("Docker Desktop", home, ".docker/desktop/docker.sock"),
		unix("Podman", "/run/podman/podman.sock"),
		unix("rootless Podman", run, "podman/podman.sock"),
		unix("Podman machine", home, ".local/share/containers/podman/machine/podman.sock"),
		unix("Colima", home, ".colima/default/docker.sock"),
		unix("Rancher Desktop", home, ".rd/docker.sock"),
		unix("OrbStack", home, ".orbstack/run/docker.sock"),
	}
}

func withScheme(address string) string {
	if strings.Contains(address, "://") {
		return address
	}
	return "unix://" + address
}

// currentContext reads the docker CLI's own choice (~/.docker/config.json and
// contexts/meta). The default context is no choice.
func currentContext(env func(string) string) (name, address string) {
	dir := configDir(env)
	name = env("DOCKER_CONTEXT")
	if name == "" {
		var cfg struct {
			CurrentContext string `json:"currentContext"`
		}
		if !readJSON(filepath.Join(dir, "config.json"), &cfg) {
			return "", ""
		}
		name = cfg.CurrentContext
	}
	if name == "" || name == "default" {
		return "", ""
	}
	sum := sha256.Sum256([]byte(name))
	var meta struct {
		Endpoints map[string]struct{ Host string }
	}
	readJSON(filepath.Join(dir, "contexts", "meta", hex.EncodeToString(sum[:]), "meta.json"), &meta)
	return name, meta.Endpoints["docker"].Host
}

func configDir(env func(string) string) string {
	if dir := env("DOCKER_CONFIG"); dir != "" {
		return dir
	}
	return filepath.Join(env("HOME"), ".docker")
}

// readJSON reads a file of the docker CLI; one that is not there or not readable
// is no choice.
func readJSON(path string, v any) bool {
	b, err := os.ReadFile(path)
	return err == nil && json.Unmarshal(b, v) == nil
}
