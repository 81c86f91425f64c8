package docker

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/moby/moby/api/types/registry"
)

// hubServer is Docker Hub's key in the docker CLI's configuration.
const hubServer = "https://index.docker.io/v1/"

// login is what we found to show a registry.
type login struct {
	header  string // for the engine; "" is none
	auth    registry.AuthConfig
	host    string // as `docker login` takes it
	trouble string // why a stored login could not be had
}

// storedLogin is an entry of "auths".
type storedLogin struct {
	Auth          string `json:"auth"`
	IdentityToken string `json:"identitytoken"`
}

// logins is what we read of the docker CLI's configuration.
type logins struct {
	Auths       map[string]storedLogin `json:"auths"`
	CredHelpers map[string]string      `json:"credHelpers"`
	CredsStore  string                 `json:"credsStore"`
}

// registryLogin finds the credential that `docker login` stored for the image's
// registry: in a credential helper if one is set, else in the configuration
// file. A helper that fails is trouble but no error, since the image may be
// public.
func registryLogin(ctx context.Context, ref string, env func(string) string) (login, error) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return login{}, fmt.Errorf("not an image reference: %w", err)
	}
	host := reference.Domain(named)
	server := host
	if host == "docker.io" {
		server = hubServer
	}
	found := login{host: host}
	var cfg logins
	if err := readJSON(filepath.Join(configDir(env), "config.json"), &cfg); err != nil {
		return login{}, err
	}
	auth := registry.AuthConfig{ServerAddress: server}
	helper := cfg.CredHelpers[server]
	if helper == "" {
		helper = cfg.CredsStore
	}
	have := false
	if helper != "" {
		if !helperName.MatchString(helper) {
			return login{}, fmt.Errorf("the credential helper's name %q in the docker configuration is not valid", helper)
		}
		if have, err = runHelper(ctx, helper, server, &auth); err != nil {
			found.trouble = message(err)
		}
	}
	if !have {
		if have, err = cfg.stored(host, server, &auth); err != nil {
			return login{}, err
		}
	}
	if !have {
		return found, nil
	}
	b, err := json.Marshal(auth)
	if err != nil {
		return login{}, err
	}
	found.header, found.auth = base64.URLEncoding.EncodeToString(b), auth
	return found, nil
}

// Login is a credential for a registry; the zero value is none.
type Login struct{ Username, Password, IdentityToken string }

// RegistryLogin returns the credential that `docker login` stored for the registry of an
// image, for requests that the engine does not make. A credential helper that fails gives
// none, since the image may be public.
func RegistryLogin(ctx context.Context, ref string, env func(string) string) (Login, error) {
	found, err := registryLogin(ctx, ref, env)
	return Login{found.auth.Username, found.auth.Password, found.auth.IdentityToken}, err
}

// stored looks in the file itself.
func (l logins) stored(host, server string, auth *registry.AuthConfig) (bool, error) {
	entry, ok := l.Auths[server]
	for key, other := range l.Auths {
		if !ok && bareHost(key) == host { // older docker wrote addresses
			entry, ok = other, true
		}
	}
	if entry.Auth == "" {
		return false, nil // a helper keeps it, or there is none
	}
	plain, err := base64.StdEncoding.DecodeString(entry.Auth)
	user, password, found := strings.Cut(strings.TrimRight(string(plain), "\x00"), ":")
	if err != nil || !found {
		return false, fmt.Errorf("the stored login for %s cannot be read; log in again with `docker login %s`", host, host)
	}
	auth.Username, auth.Password, auth.IdentityToken = user, password, entry.IdentityToken
	return true, nil
}

func bareHost(key string) string {
	key = strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
	host, _, _ := strings.Cut(key, "/")
	if host == "index.docker.io" {
		return "docker.io"
	}
	return host
}

var helperName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

const (
	helperTime = 20 * time.Second
	maxHelper  = 1 << 20 // bytes of a helper's output
)

// runHelper runs docker-credential-NAME get, as the docker CLI does: the server
// on standard input, JSON on standard output, or there the text "credentials
// not found" and an exit status.
func runHelper(ctx context.Context, helper, server string, auth *registry.AuthConfig) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, helperTime)
	defer cancel()
	program := "docker-credential-" + helper
	cmd := exec.CommandContext(ctx, program, "get")
	cmd.WaitDelay = time.Second
	cmd.Stdin = strings.NewReader(server)
	var out bytes.Buffer
	cmd.Stdout = &atMost{w: &out, left: maxHelper}
	if err := cmd.Run(); err != nil {
		// Its output on success is a secret; its output on failure is not.
		text := strings.TrimSpace(out.String())
		if strings.Contains(strings.ToLower(text), "credentials not found") {
			return false, nil
		}
		var exit *exec.ExitError
		if errors.As(err, &exit) && text != "" {
			return false, fmt.Errorf("%s: %s", program, text)
		}
		return false, fmt.Errorf("%s: %w", program, err)
	}
	var got struct{ Username, Secret string }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Secret == "" {
		return false, fmt.Errorf("%s printed something other than a credential", program)
	}
	if got.Username == "<token>" {
		auth.IdentityToken = got.Secret
		return true, nil
	}
	auth.Username, auth.Password = got.Username, got.Secret
	return true, nil
}

// atMost refuses what is past its bound.
type atMost struct {
	w    io.Writer
	left int
}

func (a *atMost) Write(p []byte) (int, error) {
	if len(p) > a.left {
		return 0, errors.New("its answer is too long")
	}
	a.left -= len(p)
	return a.w.Write(p)
}
