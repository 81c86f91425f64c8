package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/container/docker"
	"github.com/toolhaven/toolhaven/internal/guest/program"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// check is one thing that doctor looked at.
type check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Found  string `json:"found"`
	Advice string `json:"advice,omitempty"`
	// Tried are the places looked at, and what was wrong with each.
	Tried []string `json:"tried,omitempty"`
}

func newDoctor(app *App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look at everything thv needs, and say what is missing",
		Long: `Doctor looks at the container engine (every socket tried, and why each failed), the
directories, the workloads and their ports, and the registry, and says what to do about
what is wrong. The exit code is 1 when something is.`,
		Example: `  thv doctor
  thv doctor -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), time.Minute)
			defer cancel()
			checks := app.examine(ctx)
			wrong := 0
			for _, c := range checks {
				if !c.OK {
					wrong++
				}
			}
			if app.JSON {
				if err := writeJSON(app.Out, checks); err != nil {
					return err
				}
			} else {
				for _, c := range checks {
					mark := "ok  "
					if !c.OK {
						mark = "FAIL"
					}
					fmt.Fprintf(app.Out, "%s  %-22s %s\n", mark, c.Name, plaintext.Lines(c.Found))
					for _, t := range c.Tried {
						fmt.Fprintf(app.Out, "      %-22s tried %s\n", "", plaintext.Lines(t))
					}
					if c.Advice != "" {
						fmt.Fprintf(app.Out, "      %-22s -> %s\n", "", plaintext.Lines(c.Advice))
					}
				}
			}
			if wrong > 0 {
				return fmt.Errorf("%d of %d checks failed", wrong, len(checks))
			}
			return nil
		},
	}
	outputFlag(cmd, app)
	return cmd
}

func (a *App) examine(ctx context.Context) []check {
	checks := a.examineEngine(ctx)
	checks = append(checks, a.examineDirs()...)
	if _, err := a.Dirs(); err != nil {
		return checks // whatever else is looked at is kept there
	}
	checks = append(checks, a.examineWorkloads(ctx)...)
	return append(checks, a.examineRegistry(ctx))
}

func (a *App) examineEngine(ctx context.Context) []check {
	engine, err := a.Engine(ctx)
	if err != nil {
		c := check{Name: "container engine", Found: "none answers", Advice: "install Docker (`apt-get install docker.io`) or Podman and start it; remote servers (thv run URL) work without"}
		for _, attempt := range docker.Probe(ctx, a.Env) {
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
	}
	return checks
}

func (a *App) examineDirs() []check {
	dirs, err := a.Dirs()
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
				c.Advice = "others can look into it: chmod 700 " + d.path
			}
		}
		checks = append(checks, c)
	}
	if _, err := a.Config(); err != nil {
		checks = append(checks, check{Name: "configuration", Found: err.Error(), Advice: "correct the file"})
	}
	return checks
}

// tryWrite writes a file in dir and removes it again. Creating one is not enough: that
// works on a full disk.
func tryWrite(dir string) error {
	f, err := os.CreateTemp(dir, ".doctor")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(make([]byte, 64<<10))
	return errors.Join(err, f.Sync(), f.Close())
}

// examineWorkloads names those that are not as they should be, and the stopped ones
// whose port somebody else has taken.
func (a *App) examineWorkloads(ctx context.Context) []check {
	m, err := a.Manager()
	if err != nil {
		return []check{{Name: "workloads", Found: err.Error()}}
	}
	all, err := m.List(ctx)
	if err != nil {
		return []check{{Name: "workloads", Found: err.Error()}}
	}
	checks := append([]check{{Name: "workloads", OK: true, Found: strconv.Itoa(len(all))}}, a.examineStrays(ctx, m)...)
	for _, st := range all {
		checks = append(checks, examineWorkload(ctx, st)...)
	}
	return checks
}

// examineWorkload has one check for each thing that is wrong with a workload. When its
// port is taken, that is the cause of whatever else it reports.
func examineWorkload(ctx context.Context, st *workload.Status) []check {
	name := "  " + st.Name
	switch st.State {
	case workload.Running:
		var checks []check
		for _, caution := range st.Cautions {
			checks = append(checks, check{Name: name, OK: true, Found: "running", Advice: caution})
		}
		if st.Exposed != "" {
			checks = append(checks, check{Name: name, OK: true, Found: "running", Advice: exposure(st)})
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

// examineStrays names gateways and containers that run and have no state. One whose
// files were deleted a moment ago restores them by itself.
func (a *App) examineStrays(ctx context.Context, m *workload.Manager) []check {
	engine, err := a.Engine(ctx)
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

// afterwards is what to do about a workload that is not as it should be. A remote
// server's own log is with the server.
func afterwards(st *workload.Status) string {
	if lost(st) {
		return "" // the reason has said it
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

func (a *App) examineRegistry(ctx context.Context) check {
	catalog, err := a.Catalog()
	if err != nil {
		return check{Name: "registry", Found: err.Error(), Advice: "choose another with `thv config set-registry`, or `thv config unset-registry`"}
	}
	entries, err := catalog.List(ctx)
	if err != nil {
		return check{Name: "registry", Found: err.Error(), Advice: "choose another with `thv config set-registry`, or `thv config unset-registry`"}
	}
	return check{Name: "registry", OK: true, Found: fmt.Sprintf("%s, %s", catalog.Location(), counted(len(entries), "server"))}
}
