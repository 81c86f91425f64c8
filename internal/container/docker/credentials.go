package docker

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
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

// cliConfig is what we read of the docker CLI's configuration.
type cliConfig struct {
	Auths map[string]struct {
		Auth          string `json:"auth"`
		IdentityToken string `json:"identitytoken"`
	} `json:"auths"`
	CredHelpers map[string]string `json:"credHelpers"`
	CredsStore  string            `json:"credsStore"`
}

// registryAuth is the credential that `docker login` stored for the image's
// registry, encoded for the engine; "" when there is none.
func registryAuth(ctx context.Context, ref string, env func(string) string) (string, error) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return "", fmt.Errorf("not an image reference: %w", err)
	}
	server := reference.Domain(named)
	if server == "docker.io" {
		server = hubServer
	}
	var cfg cliConfig
	if !readJSON(filepath.Join(configDir(env), "config.json"), &cfg) {
		return "", nil
	}
	helper := cfg.CredHelpers[server]
	if helper == "" {
		helper = cfg.CredsStore
	}
	auth := registry.AuthConfig{ServerAddress: server}
	if stored, ok := cfg.Auths[server]; ok && stored.Auth != "" {
		plain, err := base64.StdEncoding.DecodeString(stored.Auth)
		user, password, found := strings.Cut(strings.TrimRight(string(plain), "\x00"), ":")
		if err != nil || !found {
			return "", fmt.Errorf("the stored login for %s cannot be read; log in again", server)
		}
		auth.Username, auth.Password, auth.IdentityToken = user, password, stored.IdentityToken
	} else if helper != "" {
		if ok, err := askHelper(ctx, helper, server, &auth); err != nil || !ok {
			return "", err
		}
	} else {
		return "", nil
	}
	b, err := json.Marshal(auth)
	if err != nil {
		return "", err
	}
	return base64.URLEncoding.EncodeToString(b), nil
}

var helperName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// askHelper runs docker-credential-NAME get, as the docker CLI does. A helper
// that knows nothing of the server is no error: the image may be public.
func askHelper(ctx context.Context, helper, server string, auth *registry.AuthConfig) (bool, error) {
	if !helperName.MatchString(helper) {
		return false, fmt.Errorf("the credential helper's name %q is not valid", helper)
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "docker-credential-"+helper, "get")
	cmd.Stdin = strings.NewReader(server)
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return false, nil
	}
	var got struct{ Username, Secret string }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		return false, fmt.Errorf("the credential helper %s answered something else than a credential", helper)
	}
	if got.Username == "<token>" {
		auth.IdentityToken = got.Secret
		return true, nil
	}
	auth.Username, auth.Password = got.Username, got.Secret
	return true, nil
}
