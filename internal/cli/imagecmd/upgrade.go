package imagecmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/upgrade"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// Outdated is the command outdated.
func Outdated(app *base.App) *cobra.Command {
	s := &base.Selection{}
	cmd := &cobra.Command{
		Use:   "outdated [NAME... | --all | --group GROUP]",
		Short: "Show which workloads' names mean a newer version now",
		Long: `Outdated looks up what the name of each workload means now: the newest version that a
package's name allows, the digest of an image's tag at its registry, the version of a
registry's entry. It downloads nothing and changes nothing. Without a name it shows all
workloads.

A workload keeps what its name meant when it was run, also when it is restarted;
"thv upgrade" takes the new version. The states are

  current   the name means what runs
  outdated  it means something else now
  pinned    the name has an exact version or digest
  local     a directory or an image of this machine
  remote    the server runs elsewhere
  changed   the registry's entry names another program
  unknown   it could not be looked up

The exit code is 0 whatever the states are.`,
		Example: `  thv outdated
  thv outdated -o json | jq -r '.[] | select(.state == "outdated") | .name'`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runOutdated(cmd.Context(), app, s) },
	}
	s.Flags(cmd)
	named := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && s.Group == "" {
			s.All = true
		}
		return named(cmd, args)
	}
	base.OutputFlag(cmd, app)
	return cmd
}

func runOutdated(ctx context.Context, app *base.App, s *base.Selection) error {
	_, names, err := s.Resolve(ctx, app)
	if err != nil {
		return err
	}
	u, err := app.Upgrader()
	if err != nil {
		return err
	}
	p := render.NewProgress(app.Err, app.Env)
	defer p.Done()
	found := []upgrade.Finding{}
	err = base.Each(ctx, app, names, func(name string) error {
		f, err := u.Check(ctx, name)
		if err == nil {
			found = append(found, f)
		}
		return err
	})
	p.Done()
	if app.JSON {
		return base.Write(app, s.One(), found, err)
	}
	rows := make([][]string, len(found))
	for i, f := range found {
		rows[i] = []string{f.Name, string(f.State), short(f.Running), short(f.Available), plaintext.Line(f.Source), plaintext.Line(f.Reason)}
	}
	if tableErr := render.Table(app.Out, []string{"NAME", "STATE", "RUNNING", "AVAILABLE", "SOURCE", "REASON"}, rows, nil, 0); err == nil {
		err = tableErr
	}
	return err
}

// short cuts a digest to what tells it from another.
func short(version string) string {
	const prefix, digits = "sha256:", 12
	if len(version) > len(prefix)+digits && version[:len(prefix)] == prefix {
		return version[:len(prefix)+digits]
	}
	return plaintext.Line(version)
}

type upgradeOptions struct {
	app *base.App
	base.Selection
	rollback bool
}

// Upgrade is the command upgrade.
func Upgrade(app *base.App) *cobra.Command {
	o := &upgradeOptions{app: app}
	cmd := &cobra.Command{
		Use:   "upgrade" + base.SelectionUsage,
		Short: "Take the version that a workload's name means now, or go back",
		Long: `Upgrade makes the version present that the name of a workload means now, while the
workload runs as it is, and then exchanges the two. Name, port, URL, settings and secrets
stay the same. When the new version does not start, the old one runs again. A workload
that is stopped stays stopped.

--rollback goes back to what ran before the last upgrade. "thv outdated" shows what an
upgrade would take. Of an entry of a registry only the version is taken: what else it
asks for now needs "thv rm" and "thv run".

` + base.JSONHelp,
		Example: `  thv upgrade time
  thv upgrade --all
  thv upgrade --rollback time`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runUpgrade(cmd.Context(), o) },
	}
	o.Flags(cmd)
	cmd.Flags().BoolVar(&o.rollback, "rollback", false, "Go back to what ran before the last upgrade")
	base.OutputFlag(cmd, app)
	return cmd
}

func runUpgrade(ctx context.Context, o *upgradeOptions) error {
	app := o.app
	if _, err := app.StartTimeout(); err != nil {
		return err
	}
	m, names, err := o.Resolve(ctx, app)
	if err != nil {
		return err
	}
	u, err := app.Upgrader()
	if err != nil {
		return err
	}
	store, err := app.Store()
	if err != nil {
		return err
	}
	do := u.Upgrade
	if o.rollback {
		do = u.RollBack
	}
	p := render.NewProgress(app.Err, app.Env)
	defer p.Done()
	var done []*workload.Status
	err = base.Each(ctx, app, names, func(name string) error {
		if spec, err := store.Get(name); err == nil && spec.Remote != nil && !o.One() {
			return nil // of --all: its server is upgraded elsewhere
		}
		change, err := do(ctx, name, p.Event)
		p.Done()
		if err != nil {
			return err
		}
		st := change.Status
		if st == nil {
			fmt.Fprintf(app.Err, "%s runs what its name means now: %s\n", name, short(change.From))
			if st, err = m.Status(ctx, name); err != nil {
				return err
			}
			done = append(done, st)
			return nil
		}
		fmt.Fprintf(app.Err, "%s went from %s to %s\n", name, short(change.From), short(change.To))
		done = append(done, st)
		if !base.Serves(st) {
			fmt.Fprintf(app.Err, "%s is %s\n", name, st.State)
			return nil
		}
		app.SyncClients(ctx, name)
		if app.JSON {
			return nil // Show prints them together
		}
		return base.PrintReady(app, st)
	})
	return base.Show(app, o.One(), done, err)
}
