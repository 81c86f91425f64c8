package runflag

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/workload"
)

// ParseMount reads a value of -v, host-path:container-path[:options]. The options,
// separated by commas, are ro, rw, and z or Z (SELinux labels). A relative host
// path is taken from cwd, and ~/ from the home directory; it must exist. On
// Windows the host path may have a drive.
func ParseMount(value, cwd string) (workload.Mount, error) {
	m, err := parseMount(value, cwd, runtime.GOOS == "windows")
	if err != nil {
		return workload.Mount{}, fmt.Errorf("-v %s: %w", value, err)
	}
	switch _, err := os.Stat(m.Host); {
	case errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(strings.SplitN(value, ":", 2)[0], `./\~`):
		return workload.Mount{}, fmt.Errorf("-v %s: there is no folder %s, and named volumes are not supported; make the folder first, or write another path", value, m.Host)
	case errors.Is(err, fs.ErrNotExist):
		return workload.Mount{}, fmt.Errorf("-v %s: there is no such file or directory: %s; make the folder first", value, m.Host)
	case err != nil:
		return workload.Mount{}, fmt.Errorf("-v %s: %w", value, err)
	}
	return m, nil
}

func parseMount(value, cwd string, windows bool) (workload.Mount, error) {
	if strings.ContainsRune(value, 0) {
		return workload.Mount{}, errors.New("a path cannot hold a NUL byte")
	}
	rest, drive := value, ""
	if windows && len(value) > 2 && value[1] == ':' && (value[2] == '\\' || value[2] == '/') {
		drive, rest = value[:2], value[2:]
	}
	parts := strings.Split(rest, ":")
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" || parts[1] == "" {
		return workload.Mount{}, errors.New("write host-path:container-path or host-path:container-path:ro")
	}
	m := workload.Mount{Host: drive + parts[0], Container: parts[1]}
	if home, ok := strings.CutPrefix(m.Host, "~/"); ok {
		dir, err := os.UserHomeDir()
		if err != nil {
			return workload.Mount{}, err
		}
		m.Host = filepath.Join(dir, home)
	}
	if drive == "" && !filepath.IsAbs(m.Host) {
		m.Host = filepath.Join(cwd, m.Host)
	}
	m.Host = filepath.Clean(m.Host)
	if path.IsAbs(m.Container) {
		m.Container = path.Clean(m.Container)
	}
	if err := workload.ValidMountTarget(m.Container); err != nil {
		return workload.Mount{}, err
	}
	if len(parts) == 3 {
		for option := range strings.SplitSeq(parts[2], ",") {
			switch option {
			case "ro":
				m.ReadOnly = true
			case "rw":
				m.ReadOnly = false
			case "z", "Z":
				m.Relabel = option
			default:
				return workload.Mount{}, fmt.Errorf("the option %q is not known; use ro, rw, z or Z", option)
			}
		}
	}
	return m, nil
}

// MergeMounts puts the person's mounts over the profile's: at one container path
// the person's counts.
func MergeMounts(profile, own []workload.Mount) []workload.Mount {
	merged := slices.Clone(own)
	for _, m := range profile {
		if !slices.ContainsFunc(own, func(o workload.Mount) bool { return o.Container == m.Container }) {
			merged = append(merged, m)
		}
	}
	return merged
}
