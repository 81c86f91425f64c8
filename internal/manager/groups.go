package manager

import (
	"fmt"
	"slices"
)

// DefaultGroup is the group of a workload that names none. It always exists.
const DefaultGroup = "default"

// groups are the groups of a store, a list in one file.
type groups struct{ file string }

// Groups lists the groups, sorted.
func (g groups) Groups() ([]string, error) {
	var all []string
	if err := readJSON(g.file, &all); err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	if !slices.Contains(all, DefaultGroup) {
		all = append(all, DefaultGroup)
	}
	slices.Sort(all)
	return all, nil
}

// CreateGroup makes a group. ErrGroupExists when there is one.
func (g groups) CreateGroup(name string) error {
	return update(g.file, func(all *[]string) error {
		if name == DefaultGroup || slices.Contains(*all, name) {
			return fmt.Errorf("%w: %q", ErrGroupExists, name)
		}
		*all = append(*all, name)
		slices.Sort(*all)
		return nil
	})
}

// RemoveGroup removes a group and leaves its workloads as they are. ErrGroupNotFound
// when there is none.
func (g groups) RemoveGroup(name string) error {
	if name == DefaultGroup {
		return fmt.Errorf("the group %q cannot be removed", DefaultGroup)
	}
	return update(g.file, func(all *[]string) error {
		i := slices.Index(*all, name)
		if i < 0 {
			return fmt.Errorf("%w: %q", ErrGroupNotFound, name)
		}
		*all = slices.Delete(*all, i, i+1)
		return nil
	})
}
