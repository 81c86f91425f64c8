package source

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// fromEntry makes the beginning of a Spec from a registry's entry. What runs
// here is preferred to what runs elsewhere, because it can be isolated.
func fromEntry(req Request, location string, e *registry.Entry) (*Resolution, error) {
	name, _ := registry.SplitVersion(req.Arg)
	r := &Resolution{
		Entry: e,
		Name:  validName(name),
		Spec: workload.Spec{
			Source: workload.Source{Kind: KindRegistry, Ref: req.Arg, Registry: location, Version: e.Version},
		},
	}
	switch e.Status {
	case registry.Deleted:
		return nil, fmt.Errorf("the registry %s has deleted %s%s", location, e.Name, because(e.StatusMessage))
	case registry.Deprecated:
		r.notice("the registry calls %s deprecated%s", e.Name, because(e.StatusMessage))
	}
	var err error
	if p := choosePackage(e.Packages, req.Transport); p != nil {
		err = r.usePackage(req, p)
	} else if m := chooseRemote(e.Remotes, req.Transport); m != nil {
		err = r.useRemote(req, m)
	} else {
		err = cannotRun(e)
	}
	if err != nil {
		return nil, fmt.Errorf("%s in the registry %s: %w", e.Name, location, err)
	}
	return r, nil
}

func (r *Resolution) notice(format string, args ...any) {
	r.Notices = append(r.Notices, fmt.Sprintf(format, args...))
}

func because(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}

// runnable are the registry types that have a way to run here.
var runnable = [...]string{"npm", "pypi", "oci", "go"}

// choosePackage is the first package that can be run, and that has the transport if
// one is requested. If none has it, it is the first all the same,
// since the server may learn it by an argument.
func choosePackage(packages []registry.Package, transport workload.Transport) *registry.Package {
	var first *registry.Package
	for i := range packages {
		p := &packages[i]
		if !slices.Contains(runnable[:], p.RegistryType) {
			continue
		}
		if transport == "" || string(transport) == p.Transport.Type {
			return p
		}
		if first == nil {
			first = p
		}
	}
	return first
}

func chooseRemote(remotes []registry.Remote, transport workload.Transport) *registry.Remote {
	for i := range remotes {
		if transport == "" || string(transport) == remotes[i].Type {
			return &remotes[i]
		}
	}
	if len(remotes) > 0 {
		return &remotes[0]
	}
	return nil
}

func cannotRun(e *registry.Entry) error {
	var types []string
	for _, p := range e.Packages {
		if !slices.Contains(types, p.RegistryType) {
			types = append(types, p.RegistryType)
		}
	}
	if len(types) == 0 {
		return errors.New("the entry has neither a package to run nor a remote URL")
	}
	return fmt.Errorf("it comes as %s only, which thv cannot run; it runs npm, pypi, oci (container image) and Go packages, and remote servers", strings.Join(types, " and "))
}
