package source

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/runflag"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// Grant is something that an entry requests and a registry may not decide. What is a noun
// ("a privileged container"); Risk is what the server can do with it.
type Grant struct{ What, Risk string }

// grant returns nil if the person approves what an entry requests. instead is the flag by
// which the person can decide on it beforehand.
func (req *Request) grant(g Grant, instead string) error {
	if req.Approve != nil {
		approved, err := req.Approve(g)
		if err != nil || approved {
			return err
		}
	}
	return fmt.Errorf("its entry requests %s, which a registry may not decide; %s", g.What, instead)
}

func (req *Request) grantPrivileged(instead string) error {
	return req.grant(Grant{"a privileged container", "it can do whatever the administrator of this machine can"}, instead)
}

func (req *Request) grantNetwork(mode string) error {
	risk := "it can connect to whatever that network reaches"
	if mode == "host" {
		risk = "it can connect to every service of this machine, and others can connect to it"
	}
	return req.grant(Grant{fmt.Sprintf("the network %q", mode), risk}, fmt.Sprintf("if you need it, add --network %s", mode))
}

func (req *Request) grantMounts(mounts []workload.Mount, text string) error {
	readOnly := !slices.ContainsFunc(mounts, func(m workload.Mount) bool { return !m.ReadOnly })
	risk := "it can read and change what is in there"
	if readOnly {
		risk = "it can read what is in there"
	}
	return req.grant(Grant{text, risk}, "if you need it, give it yourself with -v HOST:CONTAINER")
}

// usePermissions takes over an entry's permission profile as far as it takes
// away; what it would add needs the person.
func (r *Resolution) usePermissions(req Request, raw json.RawMessage) error {
	if len(raw) == 0 || req.Permissions {
		return nil
	}
	var p workload.Permissions
	if err := runflag.DecodeStrict(raw, &p); err != nil {
		return fmt.Errorf("its permissions: %w", err)
	}
	if p.Privileged {
		if err := req.grantPrivileged("if you need it, give a --permission-profile FILE with it"); err != nil {
			return err
		}
	}
	p.Privileged = p.Privileged || r.Spec.Container.Permissions.Privileged
	if list := slices.Concat(p.Write, p.Read); len(list) > 0 {
		names := strings.Join(list, ", ")
		if req.Mounts {
			r.notice("the registry's own mounts (%s) are not made; yours are", names)
		} else if err := r.mountListed(req, p, names); err != nil {
			return err
		}
		p.Read, p.Write = nil, nil
	}
	if n := p.Network; n != nil {
		switch n.Mode {
		case "", "bridge", "default", "none":
		default:
			if !req.Network {
				if err := req.grantNetwork(n.Mode); err != nil {
					return err
				}
				r.Spec.Container.Network = n.Mode
			}
			n.Mode = ""
		}
	}
	r.Spec.Container.Permissions = p
	return nil
}

// mountListed makes the mounts of an entry's permissions, if the person approves them.
func (r *Resolution) mountListed(req Request, p workload.Permissions, names string) error {
	text := "the mounts " + names
	if req.Approve == nil {
		return req.grantMounts(nil, text)
	}
	mounts, err := runflag.ProfileMounts(p, "")
	if err != nil {
		return err
	}
	return r.mountAll(req, mounts, text)
}

// mountAll makes mounts of an entry, if the person approves them.
func (r *Resolution) mountAll(req Request, mounts []workload.Mount, text string) error {
	for _, m := range mounts {
		if !filepath.IsAbs(m.Host) {
			return fmt.Errorf("its entry requests the mount of a relative path, %s; give it yourself with -v HOST:CONTAINER", m.Host)
		}
	}
	if err := req.grantMounts(mounts, text); err != nil {
		return err
	}
	r.Spec.Container.Mounts = append(r.Spec.Container.Mounts, mounts...)
	return nil
}

// mountOf reads a value of docker's -v, or one of --mount that is a bind mount
// (docs.docker.com/engine/storage/bind-mounts).
func mountOf(flag, text string) (workload.Mount, error) {
	if flag != "--mount" {
		return runflag.ParseMount(text, "")
	}
	fields := map[string]string{}
	for field := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(field, "=")
		switch name {
		case "src":
			name = "source"
		case "dst", "destination":
			name = "target"
		case "ro":
			name = "readonly"
		case "type", "source", "target", "readonly":
		default:
			return workload.Mount{}, fmt.Errorf("the option %.50q of --mount is not understood", name)
		}
		fields[name] = value
	}
	if fields["type"] != "bind" || strings.Contains(fields["source"]+fields["target"], ":") {
		return workload.Mount{}, errors.New("it is not a bind mount")
	}
	value := fields["source"] + ":" + fields["target"]
	if readOnly, given := fields["readonly"]; given && readOnly != "false" && readOnly != "0" {
		value += ":ro"
	}
	return runflag.ParseMount(value, "")
}
