package runcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/secret"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// draft is a Spec on its way to being stored, with the values of its secrets apart.
type draft struct {
	spec    *workload.Spec
	secrets map[string]string // by key of the workload's secrets
	notices []string
	origin  string // of the permissions: "the registry" or "the permission profile"
	// dry is for --dry-run: asked are the values that run would prompt for.
	dry   bool
	asked []string
}

// secretOf returns a function for the values of the secrets of a draft, which is not stored
// yet, and of those that the user named.
func (o *options) secretOf(ctx context.Context, d *draft) func(ref string) (string, error) {
	return func(ref string) (string, error) {
		if _, shared := secret.SharedName(ref); !shared {
			return d.secret(ref)
		}
		secrets, err := o.app.AllSecrets()
		if err != nil {
			return "", err
		}
		return secrets.Resolve(ctx, ref)
	}
}

// secret returns the value of a secret of the draft.
func (d *draft) secret(ref string) (string, error) {
	for key, value := range d.secrets {
		if ref == secret.Ref(d.spec.Name, key) {
			return value, nil
		}
	}
	return "", fmt.Errorf("%w: %s", secret.ErrNotFound, ref)
}

// read makes the Spec that the command line or the exported file describes, and checks it.
// Only a registry is contacted.
func read(ctx context.Context, o *options) (*draft, error) {
	if o.fromConfig != "" {
		return importFile(ctx, o)
	}
	return compile(ctx, o)
}

// prepare reads the Spec, and makes its image present.
func prepare(ctx context.Context, o *options) (*draft, error) {
	d, err := read(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := o.choosePort(ctx, d.spec); err != nil {
		return nil, err
	}
	d.notices = append(d.notices, d.spec.Cautions(d.origin)...)
	if d.spec.Remote != nil {
		err = o.settleRemote(ctx, d)
	} else {
		if _, err = resolveOverlays(ctx, o, d); err == nil {
			err = o.settleImage(ctx, d)
		}
	}
	if err != nil {
		return nil, err
	}
	return d, base.AsUsage(workload.Validate(d.spec))
}

// check validates a Spec that is not complete yet. What is determined later (name, image,
// transport, ports) is filled in with a valid value.
func check(s workload.Spec) error {
	if s.Transport == "" {
		s.Container.MaxProcesses = 0 // whether it is a stdio server is not known
	}
	s.Name = cmp.Or(s.Name, "server")
	s.Transport = cmp.Or(s.Transport, workload.StreamableHTTP)
	s.Proxy.Port = cmp.Or(s.Proxy.Port, 1)
	if s.Remote == nil {
		s.Image = cmp.Or(s.Image, "image")
	}
	if s.Transport != workload.Stdio {
		s.TargetHost = cmp.Or(s.TargetHost, "127.0.0.1")
		if s.TargetPort == 0 {
			s.TargetPort = 1
			s.Container.Publish = nil // whether one is the server's own port is not known
		}
	}
	return workload.Validate(&s)
}

// checkName reports a name that is taken or a group that does not exist, before anything
// is fetched. An empty name or group is not checked. Manager.Create decides in the end.
func checkName(ctx context.Context, app *base.App, name, group string) error {
	if group != "" {
		err := base.GroupExists(app, group)
		if errors.Is(err, manager.ErrGroupNotFound) {
			err = fmt.Errorf("%w; make it with `thv group create %s`", err, group)
		}
		if err != nil {
			return err
		}
	}
	if name == "" {
		return nil
	}
	if err := workload.ValidName(name); err != nil {
		return base.AsUsage(err)
	}
	store, err := app.Store()
	if err != nil {
		return err
	}
	if _, err := store.Get(name); !errors.Is(err, manager.ErrNotFound) {
		return nameTaken(ctx, app, name)
	}
	owner, err := store.Owner(name)
	if err != nil {
		return err
	}
	if owner != nil {
		return fmt.Errorf("%w: %q runs, though its configuration is lost; `thv restart %s` restores it, `thv rm %s` removes it", manager.ErrExists, name, name, name)
	}
	// A gateway of that name that lost its state would keep the workload's port.
	_, err = store.EndStrayOwners(ctx, name)
	return err
}

// nameTaken returns an error with the state of the workload that has the name.
func nameTaken(ctx context.Context, app *base.App, name string) error {
	m, err := app.Manager()
	if err != nil {
		return err
	}
	st, err := m.Status(ctx, name)
	if errors.Is(err, manager.ErrNotFound) {
		return nil // removed meanwhile
	}
	if err != nil {
		return err
	}
	if base.Lost(st) {
		return fmt.Errorf("%w: %q, which is %s; %s", manager.ErrExists, name, st.State, base.Advice(st))
	}
	then := ""
	if !base.Serves(st) {
		then = base.Advice(st) + "; "
	}
	return fmt.Errorf("%w: %q, which %s; %sremove it with `thv rm %s`, or choose another --name", manager.ErrExists, name, base.Condition(st), then, name)
}

// choosePort determines the proxy's port: that of the Spec, or the name's own, which is
// a free one when it is first derived and remembered then, so that the URL never
// changes.
func (o *options) choosePort(ctx context.Context, s *workload.Spec) error {
	store, err := o.app.Store()
	if err != nil {
		return err
	}
	if s.Proxy.Port != 0 {
		return nil
	}
	s.Proxy.Port, err = store.Port(s.Name, func(port int) bool {
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(s.Proxy.Host, strconv.Itoa(port)))
		if err == nil {
			_ = l.Close()
		}
		return !errors.Is(err, syscall.EADDRINUSE) // other errors are reported by the start
	})
	return err
}
