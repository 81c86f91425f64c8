package source

import (
	"fmt"
	"strings"

	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/runflag"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// What the flags of `docker run` that entries carry mean here.
type runtimeFlag int

const (
	unknownFlag   runtimeFlag = iota
	idleFlag                  // has no bearing on how we run containers
	idleValueFlag             // the same, and takes a value
	envFlag
	mountFlag
	networkFlag
	privilegedFlag
)

func runtimeFlagOf(name string) runtimeFlag {
	switch name {
	case "-i", "--interactive", "-t", "--tty", "-it", "-ti", "--rm", "--init", "-d", "--detach", "-q", "--quiet":
		return idleFlag
	case "--name", "--pull", "--restart", "-p", "--publish", "-l", "--label":
		return idleValueFlag
	case "-e", "--env":
		return envFlag
	case "-v", "--volume", "--mount":
		return mountFlag
	case "--network", "--net":
		return networkFlag
	case "--privileged":
		return privilegedFlag
	}
	return unknownFlag
}

// useRuntimeArguments reads the arguments an entry has for the program that
// starts the server. For an image it is `docker run`, of which variables are
// taken over; what would open the host is refused unless the person decides on it.
func (r *Resolution) useRuntimeArguments(req Request, p *registry.Package) error {
	if p.RegistryType != "oci" {
		return checkRunner(p)
	}
	for i := 0; i < len(p.RuntimeArguments); i++ {
		a := p.RuntimeArguments[i]
		flag, value, hasValue := a.Name, a.Input, a.Value != "" || a.Default != ""
		if a.Type != "named" {
			word := a.Value
			if word == "" {
				word = a.Default
			}
			if word == "run" || word == "docker" || word == p.Identifier || word == "" {
				continue
			}
			// Some entries write a flag and its value as two positional arguments.
			flag, value.Value, hasValue = strings.Cut(word, "=")
			if takesValue(runtimeFlagOf(flag)) && !hasValue && i+1 < len(p.RuntimeArguments) {
				i++
				value, hasValue = p.RuntimeArguments[i].Input, true
			}
		}
		if err := r.useRuntimeFlag(req, flag, value, hasValue); err != nil {
			return err
		}
	}
	return nil
}

func takesValue(f runtimeFlag) bool {
	return f == idleValueFlag || f == envFlag || f == mountFlag || f == networkFlag
}

func (r *Resolution) useRuntimeFlag(req Request, flag string, value registry.Input, hasValue bool) error {
	text := value.Value
	if text == "" {
		text = value.Default
	}
	switch runtimeFlagOf(flag) {
	case idleFlag, idleValueFlag:
		return nil
	case envFlag:
		name, template, _ := strings.Cut(text, "=")
		if !hasValue || name == "" {
			return fmt.Errorf("its runtime argument %s names no variable", flag)
		}
		kv := registry.KeyValue{Name: name, Input: value}
		kv.Value, kv.Default = template, ""
		r.take(kv, false, r.Spec.Env)
		return nil
	case mountFlag:
		if req.Mounts {
			r.notice("the registry's own mount (%s %s) is not made; yours are", flag, text)
			return nil
		}
		what := fmt.Sprintf("a mount (%s %s)", flag, text)
		if req.Approve == nil {
			return req.grantMounts(nil, what)
		}
		m, err := mountOf(flag, text)
		if err != nil {
			return fmt.Errorf("its entry requests %s: %w; give it yourself with -v HOST:CONTAINER", what, err)
		}
		return r.mountAll(req, []workload.Mount{m}, what)
	case networkFlag:
		if req.Network || text == "bridge" || text == "default" {
			return nil
		}
		if err := req.grantNetwork(text); err != nil {
			return err
		}
		r.Spec.Container.Network = text
		return nil
	case privilegedFlag:
		if req.Permissions {
			return nil
		}
		if err := req.grantPrivileged(`if you need it, give a --permission-profile FILE that holds {"privileged": true}`); err != nil {
			return err
		}
		p, _ := runflag.BuiltinPermissions("network")
		p.Privileged = true
		r.Spec.Container.Permissions = p
		return nil
	}
	return fmt.Errorf("its runtime argument %.100q is not understood, so it might do more than you expect; `thv run %s` runs the image without it", strings.TrimSpace(flag+" "+text), r.Spec.Image)
}

// checkRunner: packages are installed into an image, so the flags of npx and uvx
// have nothing to act on; those that change which program runs are refused.
func checkRunner(p *registry.Package) error {
	for _, a := range p.RuntimeArguments {
		word := a.Name
		if word == "" {
			word = a.Value
		}
		switch word {
		case "-y", "--yes", "-q", "--quiet", "npx", "uvx", "", p.Identifier:
		default:
			return fmt.Errorf("its runtime argument %.100q cannot be carried out on a package that is built into an image", word)
		}
	}
	return nil
}
