package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/toolhaven/toolhaven/internal/owner"
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
	sessionTTL             time.Duration
	stateless              bool
}

func newRun(app *App) *cobra.Command {
	o := &runOptions{}
	cmd := &cobra.Command{
		Use:   "run [flags] SERVER_OR_IMAGE_OR_PROTOCOL [-- ARGS...]",
		Short: "Run a server as a managed, isolated workload",
		Long: `Run starts a tool server in a container behind a local gateway, waits until the
server has answered, and prints the URL for clients as its last line.

The server is one of:
  a name in the registry             thv registry list shows them
  a container image                  ghcr.io/example/server:1.2
  a package                          npx://PACKAGE, uvx://PACKAGE, go://MODULE/PATH,
                                     each with @VERSION, or go://./directory
  an exported configuration          --from-config FILE
  the URL of a remote server         https://example.com/mcp

Everything after -- goes to the server. The URL stays the same when the workload
is stopped, started, removed and run again.`,
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

  # the same server somewhere else
  thv export time time.json && thv run --from-config time.json`,
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
			o.given = func(name string) bool { return cmd.Flags().Changed(name) }
			if errs := append(refuseLaterFlags(cmd), o.conflicts(cmd)...); len(errs) > 0 {
				return asUsage(errors.Join(errs...))
			}
			return runRun(cmd.Context(), app, o)
		},
	}
	runFlags(cmd.Flags(), o)
	addLaterFlags(cmd.Flags())
	return cmd
}

func runFlags(f *pflag.FlagSet, o *runOptions) {
	f.StringVar(&o.name, "name", "", "Workload name (default: made from the server's)")
	f.StringVar(&o.group, "group", workload.DefaultGroup, "Group the workload belongs to")
	f.BoolVarP(&o.foreground, "foreground", "f", false, "Block until the container exits")
	f.StringVar(&o.fromConfig, "from-config", "", "Load an exported configuration file")
	f.StringArrayVarP(&o.env, "env", "e", nil, "Environment variable, format KEY=VALUE")
	f.StringVar(&o.envFile, "env-file", "", "Load variables from one file")
	f.StringVar(&o.envFileDir, "env-file-dir", "", "Load variables from all files in a directory")
	f.StringArrayVarP(&o.labels, "label", "l", nil, "Container label, format key=value")
	f.StringArrayVarP(&o.volumes, "volume", "v", nil, "Mount, format host-path:container-path[:ro]")
	f.StringArrayVarP(&o.ports, "publish", "p", nil, "Port publishing on the loopback address, format hostPort:containerPort")
	f.StringVar(&o.network, "network", "", "Container network (for example `host`)")
	f.StringVar(&o.profile, "permission-profile", "", "`none`, network, or a path to a JSON file (default: the registry's, else network)")
	f.StringVar(&o.caCert, "ca-cert", "", "Custom CA certificate file for container builds")
	f.StringVar(&o.runtimeImage, "runtime-image", "", "Override the base image for protocol schemes")
	f.StringSliceVar(&o.addPackages, "runtime-add-package", nil, "Extra packages in builder and runtime stages; repeatable")
	f.StringVar(&o.transport, "transport", "", "`sse`, streamable-http or stdio (default: found out)")
	f.StringVar(&o.proxyMode, "proxy-mode", "streamable-http", "Proxy mode: streamable-http, or sse for old clients (deprecated)")
	f.StringVar(&o.host, "host", "127.0.0.1", "Host for the HTTP proxy to listen on")
	f.IntVar(&o.proxyPort, "proxy-port", 0, "Host port for the proxy (default: derived from the name, and kept)")
	f.StringVar(&o.targetHost, "target-host", "127.0.0.1", "Host to forward to inside the container (SSE or streamable HTTP only)")
	f.IntVar(&o.targetPort, "target-port", 0, "Container port (SSE or streamable HTTP only)")
	f.StringVar(&o.endpointPrefix, "endpoint-prefix", "", "Path prefix prepended to SSE endpoint URLs")
	f.DurationVar(&o.sessionTTL, "session-ttl", 0, "Session inactivity timeout, for example 30m (default 2h)")
	f.BoolVar(&o.stateless, "stateless", false, "Declare the server stateless (POST-only, no SSE)")
}

// conflicts reports flags that cannot go together.
func (o *runOptions) conflicts(cmd *cobra.Command) []error {
	if o.fromConfig == "" {
		return nil
	}
	var with []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains([]string{"from-config", "foreground", "debug", "name"}, f.Name) {
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

func runRun(ctx context.Context, app *App, o *runOptions) error {
	p := newProgress(app.Err)
	defer p.done()
	draft, err := o.draft(ctx, app, p)
	if err != nil {
		return err
	}
	for _, n := range draft.notices {
		p.done()
		fmt.Fprintln(app.Err, "Note:", n)
	}
	secrets, err := app.Secrets()
	if err != nil {
		return err
	}
	manager, err := app.Manager()
	if err != nil {
		return err
	}
	// The secrets of a name that is taken are another workload's.
	store, err := app.Store()
	if err != nil {
		return err
	}
	if _, err := store.Get(draft.spec.Name); err == nil {
		return fmt.Errorf("%w: %q; start it with `thv start %s`, remove it with `thv rm %s`, or choose another --name", workload.ErrExists, draft.spec.Name, draft.spec.Name, draft.spec.Name)
	}
	if err := secrets.Put(draft.spec.Name, draft.secrets); err != nil {
		return err
	}
	if o.foreground {
		return runForeground(ctx, app, manager, draft.spec, p)
	}
	st, err := manager.Run(ctx, draft.spec, p.event)
	if err != nil {
		return err
	}
	p.done()
	fmt.Fprintf(app.Err, "%s is running: %s\n", st.Name, printable(st.Server))
	fmt.Fprintln(app.Out, st.URL)
	return nil
}

// runForeground is the owner in this process; it ends with the container, or
// with the person's Ctrl-C. The workload stays stored.
func runForeground(ctx context.Context, app *App, manager *workload.Manager, spec *workload.Spec, p *progress) error {
	if err := manager.Create(ctx, spec); err != nil {
		return err
	}
	cfg, err := app.ownerConfig(spec.Name)
	if err != nil {
		return err
	}
	ready := false
	cfg.Console = app.Err
	cfg.Foreground = true
	cfg.Notices = func(n workload.Notice) {
		switch {
		case n.Progress != nil:
			p.event(*n.Progress)
		case n.Ready:
			ready = true
			p.done()
			fmt.Fprintln(app.Out, spec.URL())
		}
	}
	err = owner.Main(ctx, cfg)
	if err != nil && !ready {
		// It never ran: nothing is left behind.
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		return errors.Join(err, manager.Remove(clean, spec.Name))
	}
	return err
}

// workingDir is where relative paths of the command line are taken from.
func workingDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the current directory: %w", err)
	}
	return dir, nil
}
