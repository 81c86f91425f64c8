package entrypoint

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/toolhaven/toolhaven/internal/netguard"
)

// maxSecret bounds one file of a Secret, in bytes: a Secret has at most 1 MiB.
const maxSecret = 1 << 20

// loginsFor returns the logins of pull secrets for an image, the most specific first, as the
// kubelet tries them (Kubernetes documentation, "Interpretation of config.json").
func loginsFor(dir string, ref name.Reference) ([]authn.Authenticator, error) {
	if dir == "" {
		return nil, nil
	}
	secrets, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("the pull secrets: %w", err)
	}
	type candidate struct {
		length int
		login  authn.Authenticator
	}
	var candidates []candidate
	for _, secret := range secrets {
		all, err := readLogins(filepath.Join(dir, secret.Name()))
		if err != nil {
			return nil, fmt.Errorf("the pull secret %s %w", secret.Name(), err)
		}
		for pattern, config := range all {
			if length := matches(pattern, ref.Context().RegistryStr(), ref.Context().RepositoryStr()); length >= 0 {
				candidates = append(candidates, candidate{length, authn.FromConfig(config)})
			}
		}
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int { return cmp.Compare(b.length, a.length) })
	logins := make([]authn.Authenticator, len(candidates))
	for i, c := range candidates {
		logins[i] = c.login
	}
	return logins, nil
}

var errNotLogins = errors.New("is not a configuration of Docker with passwords")

// readLogins reads the logins of one Secret by registry; none when it is not there. Its errors
// do not repeat the content.
func readLogins(dir string) (map[string]authn.AuthConfig, error) {
	read := func(key string) ([]byte, error) {
		f, err := os.Open(filepath.Join(dir, key))
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return netguard.ReadBounded(f, maxSecret)
	}
	content, err := read(".dockerconfigjson")
	if err == nil {
		var config struct {
			Auths map[string]authn.AuthConfig `json:"auths"`
		}
		if json.Unmarshal(content, &config) != nil {
			return nil, errNotLogins
		}
		return config.Auths, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	content, err = read(".dockercfg")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	var all map[string]authn.AuthConfig
	if json.Unmarshal(content, &all) != nil {
		return nil, errNotLogins
	}
	return all, nil
}

// matches returns how long the path of a pattern is if it is one of an image, else -1. Each
// part of the host may have an asterisk; the path is a prefix.
func matches(pattern, registry, repository string) int {
	_, rest, found := strings.Cut(pattern, "://")
	if !found {
		rest = pattern
	}
	host, prefix, _ := strings.Cut(rest, "/")
	prefix = strings.Trim(prefix, "/")
	if prefix == "v1" || prefix == "v2" { // of an API, and not of a repository
		prefix = ""
	}
	if host == "docker.io" || host == "registry-1.docker.io" {
		host = name.DefaultRegistry
	}
	want, have := strings.Split(host, "."), strings.Split(registry, ".")
	if len(want) != len(have) {
		return -1
	}
	for i := range want {
		if ok, err := path.Match(want[i], have[i]); !ok || err != nil {
			return -1
		}
	}
	if prefix != "" && repository != prefix && !strings.HasPrefix(repository, prefix+"/") {
		return -1
	}
	return len(prefix)
}
