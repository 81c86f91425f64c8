package runcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/owner"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// runOptions are what `run` was given.
type runOptions struct {
	arg  string   // server name, image, package, or URL
	args []string // for the server
	// given tells whether a flag was on the command line.
	given func(flag string) bool

	name, group            string
	foreground             bool
	fromConfig             string
	env                    []string
	envFile, envFileDir    string
	labels, volumes, ports []string
	network, profile       string
	caCert, runtimeImage   string
	addPackages            []string
	transport, proxyMode   string
	host                   string
	proxyPort              int
	targetHost             string
	targetPort             int
	endpointPrefix         string
	trustProxyHeaders      bool
	allowedHosts           []string
	sessionTTL             time.Duration
	stateless              bool
	debug                  bool
}

func New(app *base.App) *cobra.Command {
	o := &runOptions{}
	cmd := &cobra.Command{
		Use:   "run [flags] SERVER_OR_IMAGE_OR_PROTOCOL [-- ARGS...]",
		Short: "Run a server as a managed, isolated workload",
		Long: `Run starts a tool server in a container behind a local gateway, waits until the
server has answered, and prints the URL for clients as its last line. With
-o json it prints what list -o json shows of the workload instead, as one object, and
nothing on standard output when it fails; the reason is on standard error either way.

The server is one of:
  a name in the registry             thv registry list shows them
  a container image                  ghcr.io/example/server:1.2
  a package                          npx://PACKAGE, uvx://PACKAGE, go://MODULE/PATH,
                                     each with @VERSION, or go://./directory
  an exported configuration          --from-config FILE
  the URL of a remote server         https://example.com/mcp

Everything after -- goes to the server. The URL stays the same when the workload
is stopped, started, removed and run again.

Variables come from --env-file, then --env-file-dir, then -e; the later wins. A
value whose name or form looks like a secret's is kept in a file that only you
can read, and is never exported. Those that a server needs and that are missing
are asked for on a terminal. With --from-config, -e and --env-file give the
values of the secrets that the file refers to, and nothing else.

A flag of a feature that this version does not have is refused, unless its value
turns the feature off, such as --isolate-network=false.`,
		Example: `  # a server of the Model Context Protocol's own examples, from npm, with a folder
  thv run npx://@modelcontextprotocol/server-filesystem -v ~/notes:/notes:ro -- /notes

  # from PyPI, at a version, with no network at all
  thv run uvx://mcp-server-time@2026.1.26 --permission-profile none

  # compiled from Go sources in this directory
  thv run go://./cmd/server --name dev

  # an image that serves HTTP on port 8080, with a variable
  thv run ghcr.io/example/server:1.2 --transport streamable-http --target-port 8080 -e LOG_LEVEL=debug

  # a remote server, through the local gateway
  thv run https://mcp.deepwiki.com/mcp --name deepwiki

  # for a script
  url=$(thv run uvx://mcp-server-time -o json | jq -r .url)

  # the same server somewhere else
  thv export time time.json
  thv run --from-config time.json --name time-2`,
		Args: func(cmd *cobra.Command, args []string) error {
			before := cmd.ArgsLenAtDash()
			if before < 0 {
				before = len(args)
			}
			switch {
			case o.fromConfig != "" && before > 0:
				return fmt.Errorf("--from-config names the server already, so %q is one too many", args[0])
			case o.fromConfig == "" && before == 0:
				return errors.New("name a server: a registry name, an image, a package, or a URL")
			case before > 1:
				return fmt.Errorf("unexpected argument %q; arguments for the server go after --", args[1])
			}
			if before == 1 {
				o.arg = args[0]
			}
			o.args = args[before:]
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.debug = app.Debug
			o.given = func(name string) bool { return cmd.Flags().Changed(name) }
			if errs := append(refuseLaterFlags(cmd), o.conflicts(cmd)...); len(errs) > 0 {
				return base.AsUsage(errors.Join(errs...))
			}
			return runRun(cmd.Context(), app, o)
		},
	}
	runFlags(cmd.Flags(), o)
	base.OutputFlag(cmd, app)
	addLaterFlags(cmd.Flags())
	return cmd
}

func runFlags(f *pflag.FlagSet, o *runOptions) {
	f.StringVar(&o.name, "name", "", "Workload name (default: auto-generated from image)")
	f.StringVar(&o.group, "group", workload.DefaultGroup, "Group the workload belongs to")
	f.BoolVarP(&o.foreground, "foreground", "f", false, "Block until the container exits")
	f.StringVar(&o.fromConfig, "from-config", "", "Load an exported configuration file")
	f.StringArrayVarP(&o.env, "env", "e", nil, "Environment variable, format KEY=VALUE; KEY alone takes your own")
	f.StringVar(&o.envFile, "env-file", "", "Load variables from one file")
	f.StringVar(&o.envFileDir, "env-file-dir", "", "Load variables from all files in a directory")
	f.StringArrayVarP(&o.labels, "label", "l", nil, "Container label, format key=value")
	f.StringArrayVarP(&o.volumes, "volume", "v", nil, "Mount, format host-path:container-path[:ro]")
	f.StringArrayVarP(&o.ports, "publish", "p", nil, "Port publishing, format hostPort:containerPort; on the loopback address")
	f.StringVar(&o.network, "network", "", "Container network (for example host)")
	f.StringVar(&o.profile, "permission-profile", "", "none, network, or a path to a JSON file (default: registry's profile, or network if the registry gives none)")
	f.StringVar(&o.caCert, "ca-cert", "", "Custom CA certificate file for container builds")
	f.StringVar(&o.runtimeImage, "runtime-image", "", "Override the base image for protocol schemes; for go, the image that compiles")
	f.StringSliceVar(&o.addPackages, "runtime-add-package", nil, "Extra packages in builder and runtime stages; repeatable")
	f.StringVar(&o.transport, "transport", "", "sse, streamable-http or stdio (default: the registry's, the image's, or found out)")
	f.StringVar(&o.proxyMode, "proxy-mode", "streamable-http", "Proxy mode for stdio: streamable-http or sse (sse is deprecated and will be removed)")
	f.StringVar(&o.host, "host", "127.0.0.1", "Host for the HTTP proxy to listen on")
	f.IntVar(&o.proxyPort, "proxy-port", 0, "Host port for the proxy (default: derived from the name, and kept)")
	f.StringVar(&o.targetHost, "target-host", "127.0.0.1", "Host to forward to (SSE or streamable HTTP only)")
	f.IntVar(&o.targetPort, "target-port", 0, "Container port (SSE or streamable HTTP only)")
	f.StringVar(&o.endpointPrefix, "endpoint-prefix", "", "Path prefix prepended to SSE endpoint URLs")
	f.BoolVar(&o.trustProxyHeaders, "trust-proxy-headers", false, "Trust X-Forwarded-Proto, X-Forwarded-Host, X-Forwarded-Port, X-Forwarded-Prefix")
	f.StringSliceVar(&o.allowedHosts, "allowed-hosts", nil, "Names, with or without a port, under which the proxy is reached besides localhost and its addresses")
	f.DurationVar(&o.sessionTTL, "session-ttl", 0, "Session inactivity timeout (for example 30m, 2h); 2h when zero or unset")
	f.BoolVar(&o.stateless, "stateless", false, "Declare the server stateless (POST-only, no SSE)")
}

// withConfig are the flags that go with --from-config: -e and --env-file give
// the values of the secrets that the file refers to.
func withConfig() []string {
	return []string{"from-config", "foreground", "debug", "name", "env", "env-file", "output"}
}

// conflicts reports flags that cannot go together.
func (o *runOptions) conflicts(cmd *cobra.Command) []error {
	if o.fromConfig == "" {
		return nil
	}
	var with []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains(withConfig(), f.Name) {
			with = append(with, "--"+f.Name)
		}
	})
	if len(o.args) > 0 {
		with = append(with, "arguments after --")
	}
	if len(with) == 0 {
		return nil
	}
	return []error{fmt.Errorf("--from-config holds the whole configuration; it cannot go with %s (change the file instead)", strings.Join(with, ", "))}
}

func runRun(ctx context.Context, app *base.App, o *runOptions) error {
	if _, err := app.StartTimeout(); err != nil {
		return err
	}
	p := render.NewProgress(app.Err)
	defer p.Done()
	d, err := o.draft(ctx, app, p)
	if err != nil {
		return err
	}
	p.Done()
	for _, n := range d.notices {
		fmt.Fprintln(app.Err, "Note:", plaintext.Lines(n))
	}
	return launch(ctx, app, d, o.foreground, p)
}

// launch stores the workload and starts it. When that fails, or ctx ends before
// the server has answered, nothing is left behind. Stopped by somebody else, `thv
// stop`, it has not failed: it stays, as stop says it does, or goes as rm says.
func launch(ctx context.Context, app *base.App, d *draft, foreground bool, p *render.Progress) error {
	manager, err := app.Manager()
	if err != nil {
		return err
	}
	secrets, err := app.Secrets()
	if err != nil {
		return err
	}
	name := d.spec.Name
	// Creation decides who has the name. Only then are secrets put under it:
	// before, they could be another workload's.
	if err := manager.Create(ctx, d.spec); err != nil {
		return err
	}
	ready := false
	if err = secrets.Put(name, d.secrets); err == nil {
		if foreground {
			ready, err = ownHere(ctx, app, manager, d.spec, p)
		} else {
			ready, err = startDetached(ctx, app, manager, name, p)
		}
	}
	// A workload that is running already is somebody's who started what we
	// have just stored.
	if ready || errors.Is(err, workload.ErrAlreadyRunning) || errors.Is(err, workload.ErrStoppedEarly) {
		return err
	}
	if err == nil {
		err = ctx.Err() // stopped before it was ready
	}
	if errors.Is(err, workload.ErrNotFound) {
		err = fmt.Errorf("workload %q was %w", name, workload.ErrRemovedEarly)
	}
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if gone := manager.Remove(clean, name, p.Event); gone != nil && !errors.Is(gone, workload.ErrNotFound) {
		fmt.Fprintf(app.Err, "Note: workload %s is left behind: %s\n", name, plaintext.Lines(gone.Error()))
	}
	return err
}

// startDetached starts the workload in a process of its own and prints its URL.
func startDetached(ctx context.Context, app *base.App, manager *workload.Manager, name string, p *render.Progress) (ready bool, err error) {
	st, err := manager.Launch(ctx, name, p.Event)
	if err != nil {
		return false, err
	}
	p.Done()
	app.PrintState(st)
	return true, app.PrintReady(st)
}

// ownHere is the owner in this process. It ends with the container, or with the
// person's Ctrl-C; a workload that was ready stays stored.
func ownHere(ctx context.Context, app *base.App, manager *workload.Manager, spec *workload.Spec, p *render.Progress) (ready bool, err error) {
	cfg, err := app.OwnerConfig(spec.Name)
	if err != nil {
		return false, err
	}
	var answered, stopped atomic.Bool
	cfg.Console = app.Err
	if render.IsTerminal(app.Err) {
		cfg.Console = plaintext.NewWriter(app.Err)
	}
	cfg.Foreground = true
	cfg.Notices = func(n workload.Notice) {
		switch {
		case n.Progress != nil:
			p.Event(*n.Progress)
		case n.Stopped:
			stopped.Store(true)
		case n.Ready:
			answered.Store(true)
			p.Done()
			st, err := manager.Status(ctx, spec.Name)
			if err == nil {
				err = app.PrintReady(st)
			}
			if err != nil {
				fmt.Fprintln(app.Err, "Note: the workload runs, but cannot be shown:", plaintext.Lines(err.Error()))
			}
		}
	}
	defer owner.FitProcess()()
	err = owner.Main(ctx, cfg)
	if stopped.Load() && ctx.Err() == nil {
		err = fmt.Errorf("workload %q was %w", spec.Name, workload.ErrStoppedEarly)
	}
	return answered.Load(), err
}

// workingDir is where relative paths of the command line are taken from.
func workingDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the current directory: %w", err)
	}
	return dir, nil
}
