package runflag

import (
	"errors"
	"fmt"
	"strings"

	"github.com/toolhaven/toolhaven/internal/workload"
)

// maxProfile bounds a permission profile's file, in bytes.
const maxProfile = 1 << 20

// LoadPermissions reads a value of --permission-profile: none (alias stdio),
// network, or the path of a JSON file. Its mounts are returned apart, checked
// like those of -v; relative host paths are taken from cwd.
func LoadPermissions(value, cwd string) (workload.Permissions, []workload.Mount, error) {
	if p, ok := BuiltinPermissions(value); ok {
		return p, nil, nil
	}
	content, err := ReadFile(value, maxProfile)
	if err != nil {
		return workload.Permissions{}, nil, fmt.Errorf("permission profile %q is neither none, network nor a file that can be read: %w", value, err)
	}
	var p workload.Permissions
	if err := DecodeStrict(content, &p); err != nil {
		return workload.Permissions{}, nil, fmt.Errorf("permission profile %s: %w", value, err)
	}
	mounts, err := ProfileMounts(p, cwd)
	if err != nil {
		return workload.Permissions{}, nil, fmt.Errorf("permission profile %s: %w", value, err)
	}
	return p, mounts, nil
}

// BuiltinPermissions are the profiles that have a name.
func BuiltinPermissions(name string) (workload.Permissions, bool) {
	switch name {
	case "none", "stdio":
		return workload.Permissions{Name: "none", Network: &workload.Network{Outbound: &workload.Outbound{}}}, true
	case "network":
		return workload.Permissions{Name: "network", Network: &workload.Network{Outbound: &workload.Outbound{InsecureAllowAll: true}}}, true
	}
	return workload.Permissions{}, false
}

// ProfileMounts are the mounts of a profile: each entry is a path, the same on both
// sides, or host:container. One that is in both lists is writable.
func ProfileMounts(p workload.Permissions, cwd string) ([]workload.Mount, error) {
	var mounts []workload.Mount
	var errs []error
	at := map[string]bool{}
	for i, list := range [][]string{p.Write, p.Read} {
		readOnly := i == 1
		for _, entry := range list {
			if strings.Contains(entry, "://") {
				errs = append(errs, fmt.Errorf("%q: mounts of that kind are not supported; use paths", entry))
				continue
			}
			value := entry
			if !strings.Contains(entry, ":") {
				value = entry + ":" + entry
			}
			m, err := ParseMount(value, cwd)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			m.ReadOnly = readOnly
			if at[m.Container] {
				continue
			}
			at[m.Container] = true
			mounts = append(mounts, m)
		}
	}
	return mounts, errors.Join(errs...)
}
