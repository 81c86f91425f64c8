// Package settings is the tool's own configuration and where it keeps things:
// directories by the XDG Base Directory Specification, the configuration file,
// and writing files so that they are whole or not there.
package settings

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
)

// Dirs are the tool's directories. They are made when first needed, for this
// user only.
type Dirs struct {
	Config  string // config.yaml, thvignore
	State   string // workloads, logs, ports, secrets
	Runtime string // sockets whose path must be short
}

// Locate finds the directories: $XDG_CONFIG_HOME/thv, $XDG_STATE_HOME/thv and
// $XDG_RUNTIME_DIR/thv, with the specification's defaults, or the system's own
// places on macOS and Windows. env is os.Getenv.
func Locate(env func(string) string) (Dirs, error) {
	home := env("HOME")
	if runtime.GOOS == "windows" && home == "" {
		home = env("USERPROFILE")
	}
	config, state := env("XDG_CONFIG_HOME"), env("XDG_STATE_HOME")
	// Relative paths in these variables are to be ignored (the specification).
	if !filepath.IsAbs(config) {
		config = ""
	}
	if !filepath.IsAbs(state) {
		state = ""
	}
	if (config == "" || state == "") && home == "" {
		return Dirs{}, errors.New("HOME is not set, so there is no place for configuration and state; set it, or XDG_CONFIG_HOME and XDG_STATE_HOME")
	}
	if config == "" {
		config = defaultDir(env, home, ".config")
	}
	if state == "" {
		state = defaultDir(env, home, filepath.Join(".local", "state"))
	}
	run := env("XDG_RUNTIME_DIR")
	if !filepath.IsAbs(run) {
		run = filepath.Join(os.TempDir(), "thv-"+strconv.Itoa(os.Getuid()))
	} else {
		run = filepath.Join(run, "thv")
	}
	return Dirs{Config: filepath.Join(config, "thv"), State: filepath.Join(state, "thv"), Runtime: run}, nil
}

func defaultDir(env func(string) string, home, xdg string) string {
	switch runtime.GOOS {
	case "darwin":
		return filepath.Join(home, "Library", "Application Support")
	case "windows":
		if dir := env("LOCALAPPDATA"); dir != "" {
			return dir
		}
	}
	return filepath.Join(home, xdg)
}
