package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// maxConfig bounds a file of the docker CLI, in bytes.
const maxConfig = 4 << 20

// configDir is where the docker CLI keeps its files.
func configDir(env func(string) string) string {
	if dir := env("DOCKER_CONFIG"); dir != "" {
		return dir
	}
	home := env("HOME")
	if home == "" {
		home = env("USERPROFILE") // Windows
	}
	return filepath.Join(home, ".docker")
}

// readJSON reads a file of the docker CLI into v. One that is not there leaves v
// as it is; one that cannot be read is an error, since it may hold a choice.
func readJSON(path string, v any) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the docker configuration: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	switch {
	case err != nil:
		return fmt.Errorf("read the docker configuration: %w", err)
	case len(b) > maxConfig:
		return fmt.Errorf("read the docker configuration: %s is longer than %d bytes", path, maxConfig)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("read the docker configuration %s: not valid: %w", path, err)
	}
	return nil
}

// contextChoice is the engine of the docker CLI's current context, nil when
// none is set. The default context is no choice. A context that is named but
// cannot be read is a choice that fails.
func contextChoice(env func(string) string) *candidate {
	dir := configDir(env)
	name := env("DOCKER_CONTEXT")
	if name == "" {
		var cfg struct {
			CurrentContext string `json:"currentContext"`
		}
		path := filepath.Join(dir, "config.json")
		if err := readJSON(path, &cfg); err != nil {
			return &candidate{source: "docker configuration", address: path, explicit: true, broken: err}
		}
		name = cfg.CurrentContext
	}
	if name == "" || name == "default" {
		return nil
	}
	c := &candidate{source: "docker context " + strconv.Quote(name), explicit: true}
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	meta := filepath.Join(dir, "contexts", "meta", id, "meta.json")
	var stored struct {
		Endpoints map[string]struct {
			Host          string
			SkipTLSVerify bool
		}
	}
	if c.broken = readJSON(meta, &stored); c.broken != nil {
		c.address = meta
		return c
	}
	endpoint := stored.Endpoints["docker"]
	c.address = endpoint.Host
	switch {
	case endpoint.Host == "":
		c.address = meta
		c.broken = errors.New("the context does not exist or names no engine; choose another with `docker context use`")
	case endpoint.SkipTLSVerify:
		c.broken = errors.New("the context does not verify the engine's certificate, which Toolhaven insists on")
	default:
		tls := filepath.Join(dir, "contexts", "tls", id, "docker")
		if info, err := os.Stat(tls); err == nil && info.IsDir() {
			c.tlsDir = tls
		}
	}
	return c
}
