package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/moby/moby/client"

	"github.com/toolhaven/toolhaven/internal/container"
)

// answerTime bounds one look at one address.
const answerTime = 10 * time.Second

// Attempt is one look for an engine.
type Attempt struct {
	Source  string // where the address comes from, for a person
	Address string
	Err     error          // nil: an engine answered
	Info    container.Info // what it reported; only from Probe
}

// Connect finds the engine and pings it once: THV_ENGINE, then DOCKER_HOST, then
// the current docker context, then the sockets where engines usually listen, of
// which the first that answers is taken:
//
//	Docker            /var/run/docker.sock
//	rootless Docker   $XDG_RUNTIME_DIR/docker.sock
//	Docker Desktop    ~/.docker/run/docker.sock, ~/.docker/desktop/docker.sock
//	Podman            /run/podman/podman.sock
//	rootless Podman   $XDG_RUNTIME_DIR/podman/podman.sock
//	Podman machine    ~/.local/share/containers/podman/machine/podman.sock,
//	                  $TMPDIR/podman/podman-machine-default-api.sock
//	Colima            $COLIMA_HOME or ~/.colima, default/docker.sock
//	Rancher Desktop   ~/.rd/docker.sock
//	OrbStack          ~/.orbstack/run/docker.sock
//
// and on Windows the named pipes docker_engine and podman-machine-default. What
// the person chose is never replaced by something else. The error wraps
// container.ErrUnavailable and lists each address tried and why it failed.
func Connect(ctx context.Context, env func(string) string) (*Engine, error) {
	var attempts []Attempt
	for _, c := range candidates(env) {
		e, err := open(ctx, c, env)
		if err == nil {
			return e, nil
		}
		attempts = append(attempts, Attempt{Source: c.source, Address: c.address, Err: err})
		if ctx.Err() != nil {
			break
		}
	}
	return nil, unavailable(attempts)
}

// Probe tries every address that Connect could use, and describes each engine that
// answers.
func Probe(ctx context.Context, env func(string) string) []Attempt {
	var attempts []Attempt
	for _, c := range candidates(env) {
		a := Attempt{Source: c.source, Address: c.address}
		var e *Engine
		if e, a.Err = open(ctx, c, env); a.Err == nil {
			short, cancel := context.WithTimeout(ctx, answerTime)
			a.Info, a.Err = e.Info(short)
			cancel()
			e.Close()
		}
		attempts = append(attempts, a)
	}
	return attempts
}

func open(ctx context.Context, c candidate, env func(string) string) (*Engine, error) {
	if c.broken != nil {
		return nil, c.broken
	}
	short, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if err := dial(short, c.address); err != nil {
		return nil, err
	}
	conn := &connection{address: c.address, env: env}
	opts := []client.Opt{client.WithHTTPClient(connecting()), client.WithHost(c.address), client.WithHTTPResponseHook(conn.notice)}
	if c.tlsDir != "" {
		opts = append(opts, client.WithTLSClientConfig(pem(c.tlsDir, "ca"), pem(c.tlsDir, "cert"), pem(c.tlsDir, "key")))
	}
	api, err := client.New(opts...)
	if err != nil {
		return nil, err
	}
	conn.api = api
	ping, err := api.Ping(short, client.PingOptions{NegotiateAPIVersion: true})
	switch {
	case err == nil && ping.APIVersion != "":
		return newEngine(conn), nil
	case err == nil:
		err = errors.New("something answers there, but it is not a container engine")
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		err = fmt.Errorf("no answer within %s", answerTime)
	default:
		err = errors.New(message(err))
	}
	api.Close()
	return nil, err
}

// connecting is an HTTP client that opens a connection for every request. An engine
// that shuts down takes no more of them, but goes on serving those that are open: what
// it was to begin so, it would leave half done. A mount that Docker makes to copy
// files into a container stays, and the container can never be removed.
func connecting() *http.Client {
	var http1 http.Protocols // a transport made for HTTP/2 too looks as if it had TLS
	http1.SetHTTP1(true)
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, Protocols: &http1, TLSHandshakeTimeout: answerTime},
		CheckRedirect: client.CheckRedirect,
	}
}

// pem is a file of a certificate directory; "" when it is not there, which the
// client takes as none.
func pem(dir, name string) string {
	path := filepath.Join(dir, name+".pem")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return path
}

// dial tries the bare connection first: the client hides the operating system's
// reason, which is the most useful one.
func dial(ctx context.Context, address string) error {
	network, host, _ := strings.Cut(address, "://")
	switch network {
	case "unix":
	case "tcp":
		u, err := url.Parse(address)
		if err != nil || u.Port() == "" {
			return errors.New("not an address; it should look like tcp://host:2376")
		}
		host = u.Host
	case "npipe":
		return nil
	case "ssh":
		return errors.New("engines over ssh are not supported; forward the socket (`ssh -L /tmp/docker.sock:/var/run/docker.sock HOST`) and name it in " + EnvEngine)
	default:
		return errors.New("not an engine's address; use unix://, tcp:// or npipe://")
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, host)
	if err == nil {
		return conn.Close()
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// Explain is why an address failed and what to do, for a person.
func (a Attempt) Explain() string {
	switch {
	case a.Err == nil:
		return "answers"
	case !strings.Contains(a.Address, "://"): // a file that could not be read
		return a.Err.Error()
	case errors.Is(a.Err, syscall.ENOENT):
		return "no such socket"
	case errors.Is(a.Err, syscall.EACCES) && strings.Contains(a.Address, "podman"):
		return "permission denied: start Podman's socket for yourself (`systemctl --user start podman.socket`), or use sudo"
	case errors.Is(a.Err, syscall.EACCES):
		return "permission denied: add yourself to the docker group (`sudo usermod -aG docker $USER`, then log in again), or use sudo"
	case errors.Is(a.Err, syscall.ECONNREFUSED):
		return "connection refused: the engine is not running; start it"
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
