package build

import (
	"os/exec"
	"path/filepath"
	"slices"
)

// environment returns a variable of the user's environment, "" when it is not set.
type environment func(name string) string

// first returns the value of the first of the variables that is set, "" when none is.
func (e environment) first(names ...string) string {
	i := slices.IndexFunc(names, func(name string) bool { return e(name) != "" })
	if i < 0 {
		return ""
	}
	return e(names[i])
}

// goCommand returns the path of this machine's go command, "" when there is none.
func (e environment) goCommand() string {
	for _, dir := range filepath.SplitList(e("PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if path, err := exec.LookPath(filepath.Join(dir, "go")); err == nil {
			return path
		}
	}
	return ""
}

// entries returns those of the variables that are set, as NAME=VALUE.
func (e environment) entries(names ...string) (env []string) {
	for _, name := range names {
		if v := e(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}
