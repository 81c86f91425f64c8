package workload

import (
	"errors"
	"fmt"
	"strings"
)

// maxProfile bounds a permission profile's file, in bytes.
const maxProfile = 1 << 20

// LoadPermissions reads a value of --permission-profile: none (alias stdio),
// network, or the path of a JSON file. Its mounts are returned apart, checked
// like those of -v; relative host paths are taken from cwd.
func LoadPermissions(value, cwd string) (Permissions, []Mount, error) {
	if p, ok := BuiltinPermissions(value); ok {
		return p, nil, nil
	}
	content, err := ReadFile(value, maxProfile)
	if err != nil {
		return Permissions{}, nil, fmt.Errorf("permission profile %q is neither none, network nor a file that can be read: %w", value, err)
	}
	var p Permissions
	if err := DecodeStrict(content, &p); err != nil {
		return Permissions{}, nil, fmt.Errorf("permission profile %s: %w", value, err)
	}
	mounts, err := p.Mounts(cwd)
	if err != nil {
		return Permissions{}, nil, fmt.Errorf("permission profile %s: %w", value, err)
	}
	return p, mounts, nil
}

// BuiltinPermissions are the profiles that have a name.
func BuiltinPermissions(name string) (Permissions, bool) {
	switch name {
	case "none", "stdio":
		return Permissions{Name: "none", Network: &Network{Outbound: &Outbound{}}}, true
	case "network":
		return Permissions{Name: "network", Network: &Network{Outbound: &Outbound{InsecureAllowAll: true}}}, true
	}
	return Permissions{}, false
}

// Mounts are the profile's mounts: each entry is a path, the same on both
// sides, or host:container. One that is in both lists is writable.
func (p *Permissions) Mounts(cwd string) ([]Mount, error) {
	var mounts []Mount
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
