package build

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// hostCommand is this machine's go command with the environment it compiles in.
type hostCommand struct {
	path    string
	env     []string
	program string
}

// goSettings are the variables, beside goWays, that a compilation on this machine
// inherits: those by which the toolchain and its caches are found, and none that
// changes the program. Secrets in other variables are not passed on.
var goSettings = [...]string{
	"PATH", "HOME", "USER", "TMPDIR", "LANG", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "SSH_AUTH_SOCK",
	"USERPROFILE", "APPDATA", "LOCALAPPDATA", "SYSTEMROOT", "TEMP", "TMP",
	"GOROOT", "GOPATH", "GOCACHE", "GOMODCACHE", "GOENV", "GOWORK", "NETRC",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSH_COMMAND", "GIT_CONFIG_GLOBAL",
}

// goWays are the settings by which modules are fetched. They apply in a container too.
var goWays = [...]string{
	"GOTOOLCHAIN", "GOPROXY", "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOSUMDB", "GOINSECURE", "GOVCS", "GOAUTH",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
}

// goTarget are the variables of the target platform. GOFLAGS is cleared, because it
// would change the program.
func goTarget(arch string) []string {
	return []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + arch, "GOFLAGS=", "GIT_TERMINAL_PROMPT=0"}
}

func (b goBuilder) hostToolchain(path string, r Request, arch, work string, certs []byte) (*toolchain, error) {
	c := &hostCommand{path: path, program: filepath.Join(work, "program")}
	c.env = append(b.env().entries(goSettings[:]...), b.env().entries(goWays[:]...)...)
	c.env = append(c.env, goTarget(arch)...)
	if r.Dir == "" {
		c.env = append(c.env, "GOWORK=off")
	}
	if r.CACert != "" {
		// The go command then trusts exactly these authorities.
		file := filepath.Join(work, "ca.crt")
		if err := os.WriteFile(file, certs, 0o600); err != nil {
			return nil, fmt.Errorf("write the CA certificates: %w", err)
		}
		c.env = append(c.env, "SSL_CERT_FILE="+file, "GIT_SSL_CAINFO="+file)
	}
	module, temp := filepath.Join(work, "module"), filepath.Join(work, "tmp")
	for _, dir := range []string{module, temp} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make a directory to build in: %w", err)
		}
	}
	c.env = append(c.env, "GOTMPDIR="+temp)
	return &toolchain{goCommand: c, source: r.Dir, module: module, program: c.program}, nil
}

func (c *hostCommand) run(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.path, args...)
	cmd.Dir, cmd.Env = dir, c.env
	killTogether(cmd)
	var stdout, stderr tail
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctxErr := context.Cause(ctx); err != nil && ctxErr != nil {
		return "", fmt.Errorf("go %s was stopped: %w", args[0], ctxErr)
	}
	if err != nil {
		if stderr.String() == "" {
			return "", fmt.Errorf("go %s: %w", args[0], err)
		}
		return "", &goError{err: err, output: stderr.String()}
	}
	return stdout.String(), nil
}

func (c *hostCommand) fetch(_ context.Context, path string) error {
	if err := os.Rename(c.program, path); err != nil {
		return fmt.Errorf("take the compiled program: %w", err)
	}
	return nil
}

func (c *hostCommand) close() {}
