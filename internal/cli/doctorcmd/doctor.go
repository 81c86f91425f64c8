// Package doctorcmd is the command doctor: what thv needs of this machine, and which promises of
// docs/security.md the machine enforces.
package doctorcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/container/docker"
	"github.com/toolhaven/toolhaven/internal/guest/program"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// check is the result of one check of doctor.
type check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Found  string `json:"found"`
	Advice string `json:"advice,omitempty"`
	// Tried are the places where something was looked for, each with the error.
	Tried []string `json:"tried,omitempty"`
	// Promise marks a promise of docs/security.md; OK is then whether this engine and kernel
	// enforce it. One that they do not is no failure of doctor.
	Promise bool `json:"promise,omitempty"`
}

// New is the command doctor.
func New(app *base.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check everything that thv needs, and report what is missing",
		Long: `Doctor checks the container engine (every socket tried, and why each failed), the
directories, the workloads and their ports, and the registry, with advice for each check
that fails. The exit code is 1 when one does.

For each promise of docs/security.md it shows whether this engine and kernel enforce it;
the network's isolation is tried in a container. One that they do not is marked "no" and
does not change the exit code.`,
		Example: `  thv doctor
  thv doctor -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDoctor(cmd.Context(), app) },
	}
	base.OutputFlag(cmd, app)
	return cmd
}

func runDoctor(ctx context.Context, app *base.App) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	checks := examine(ctx, app)
	failed := 0
	for _, c := range checks {
		if !c.OK && !c.Promise {
			failed++
		}
	}
	if app.JSON {
		if err := render.JSON(app.Out, checks); err != nil {
			return err
		}
	} else {
		for _, c := range checks {
			c.write(app.Out)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d checks failed", failed, len(checks))
	}
	return nil
}

func (c *check) write(w io.Writer) {
	mark := "ok  "
	switch {
	case !c.OK && c.Promise:
		mark = "no  "
	case !c.OK:
		mark = "FAIL"
	}
	fmt.Fprintf(w, "%s  %-22s %s\n", mark, c.Name, plaintext.Lines(c.Found))
	for _, t := range c.Tried {
		fmt.Fprintf(w, "      %-22s tried %s\n", "", plaintext.Lines(t))
	}
	if c.Advice != "" {
		fmt.Fprintf(w, "      %-22s -> %s\n", "", plaintext.Lines(c.Advice))
	}
}

func examine(ctx context.Context, app *base.App) []check {
	checks := examineEngine(ctx, app)
	if _, err := app.Dirs(); err != nil { // nothing below works without them
		return append(checks, check{Name: "directories", Found: err.Error()})
	}
	checks = append(checks, examineDirs(app)...)
	checks = append(checks, examineWorkloads(ctx, app)...)
	return append(checks, examineRegistry(ctx, app))
}

func examineEngine(ctx context.Context, app *base.App) []check {
	engine, err := app.Engine(ctx)
	if err != nil {
		c := check{Name: "container engine", Found: "none responds", Advice: "install Docker (`apt-get install docker.io`) or Podman and start it; remote servers (thv run URL) work without"}
		for _, attempt := range docker.Probe(ctx, app.Env) {
			if attempt.Err != nil {
				c.Tried = append(c.Tried, fmt.Sprintf("%s (%s): %s", attempt.Address, attempt.Source, attempt.Explain()))
			}
		}
		return []check{c}
	}
	info, err := engine.Info(ctx)
	if err != nil {
		return []check{{Name: "container engine", Found: err.Error()}}
	}
	rootless := ""
	if info.Rootless {
		rootless = ", rootless"
	}
	checks := []check{{Name: "container engine", OK: true, Found: fmt.Sprintf("%s %s (API %s%s) at %s", info.Name, info.Version, info.APIVersion, rootless, info.Socket)}}
	if info.OS != "linux" {
		checks = append(checks, check{Name: "containers", Found: "the engine runs " + info.OS + " containers", Advice: "switch the engine to Linux containers"})
	} else if _, err := program.For(info.Arch); err != nil {
		checks = append(checks, check{Name: "containers", Found: err.Error()})
	} else {
		checks = append(checks, examinePromises(ctx, engine, info)...)
	}
	return checks
}

func examineDirs(app *base.App) []check {
	dirs, err := app.Dirs()
	if err != nil {
		return []check{{Name: "directories", Found: err.Error()}}
	}
	var checks []check
	for _, d := range []struct{ name, path string }{{"configuration", dirs.Config}, {"state", dirs.State}, {"sockets", dirs.Runtime}} {
		c := check{Name: d.name + " directory", OK: true, Found: d.path}
		if err := os.MkdirAll(d.path, 0o700); err != nil {
			c.OK, c.Found, c.Advice = false, err.Error(), "make it writable for you"
		} else if err := tryWrite(d.path); errors.Is(err, syscall.ENOSPC) {
			c.OK, c.Found, c.Advice = false, err.Error(), "free space on that disk"
		} else if err != nil {
			c.OK, c.Found, c.Advice = false, err.Error(), "make it writable for you"
		} else {
			if info, err := os.Stat(d.path); err == nil && info.Mode().Perm()&0o077 != 0 && filepath.Separator == '/' {
				c.Advice = "other users can read it: chmod 700 " + d.path
			}
		}
		checks = append(checks, c)
	}
	if _, err := app.Config(); err != nil {
		checks = append(checks, check{Name: "configuration", Found: err.Error(), Advice: "correct the file"})
	}
	return checks
}

// tryWrite writes a file in dir and removes it. Creating one succeeds on a full disk.
func tryWrite(dir string) error {
	f, err := os.CreateTemp(dir, ".doctor")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(make([]byte, 64<<10))
	return errors.Join(err, f.Sync(), f.Close())
}

// examineWorkloads reports the workloads that do not serve as they should, and the
// stopped ones whose port another program uses.
func examineWorkloads(ctx context.Context, app *base.App) []check {
	m, err := app.Manager()
	if err != nil {
		return []check{{Name: "workloads", Found: err.Error()}}
	}
	all, err := m.List(ctx)
	if err != nil {
		return []check{{Name: "workloads", Found: err.Error()}}
	}
	checks := append([]check{{Name: "workloads", OK: true, Found: strconv.Itoa(len(all))}}, examineStrays(ctx, app, m)...)
	for _, st := range all {
		checks = append(checks, examineWorkload(ctx, st)...)
	}
	return checks
}

// examineWorkload returns a check for each problem of a workload. A port in use is the
// cause of any other.
func examineWorkload(ctx context.Context, st *workload.Status) []check {
	name := "  " + st.Name
	switch st.State {
	case workload.Running:
		var checks []check
		for _, caution := range st.Cautions {
			checks = append(checks, check{Name: name, OK: true, Found: "running", Advice: caution})
		}
		if st.Exposed != "" {
			checks = append(checks, check{Name: name, OK: true, Found: "running", Advice: base.Exposure(st)})
		}
		return checks
	case workload.Stopped, workload.Failed:
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(st.Port)))
		if err != nil {
			return []check{{Name: "  port of " + st.Name, Found: fmt.Sprintf("port %d is in use by another program", st.Port), Advice: "end that program, or remove the workload and run it with --proxy-port"}}
		}
		l.Close()
		if st.State == workload.Stopped {
			return nil
		}
	}
	return []check{{Name: name, Found: string(st.State) + ": " + st.Reason, Advice: afterwards(st)}}
}

// examineStrays reports gateways and containers that run and have no state.
func examineStrays(ctx context.Context, app *base.App, m *manager.Manager) []check {
	engine, err := app.Engine(ctx)
	if err != nil {
		engine = nil // examineEngine reports it
	}
	strays, err := m.Strays(ctx, engine)
	var checks []check
	if err != nil {
		checks = append(checks, check{Name: "containers", Found: err.Error()})
	}
	for _, s := range strays {
		found := fmt.Sprintf("process %d is its gateway, and its files in the state directory are gone", s.PID)
		if s.Container != "" {
			found = fmt.Sprintf("the container %s has no gateway", s.Container)
		}
		checks = append(checks, check{Name: "  " + s.Name, Found: found, Advice: "end it with `thv stop " + s.Name + "`"})
	}
	return checks
}

// afterwards returns the advice for a workload that does not serve as it should. A remote
// server has no log here.
func afterwards(st *workload.Status) string {
	if base.Lost(st) {
		return "" // the reason includes it
	}
	logs := "`thv logs " + st.Name + "` and `thv logs --proxy " + st.Name + "`"
	if st.Remote {
		logs = "`thv logs --proxy " + st.Name + "`"
	}
	if st.State == workload.Failed {
		return "see " + logs + " for the cause; `thv start " + st.Name + "` tries again, `thv rm " + st.Name + "` removes it"
	}
	return "see " + logs
}

func examineRegistry(ctx context.Context, app *base.App) check {
	catalog, err := app.Catalog()
	if err != nil {
		return check{Name: "registry", Found: err.Error(), Advice: "choose another with `thv config set-registry`, or `thv config unset-registry`"}
	}
	list, err := catalog.List(ctx)
	if err != nil {
		return check{Name: "registry", Found: err.Error(), Advice: "choose another with `thv config set-registry`, or `thv config unset-registry`"}
	}
	return check{Name: "registry", OK: true, Found: fmt.Sprintf("%s, %s", catalog.Location(), render.Counted(len(list.Entries), "server"))}
}
