// Package runcmd implements `thv run`. The command line is parsed (run.go, flags.go),
// compiled to a Spec with what the registry or an exported file gives (compile.go,
// import.go), completed from the image or the remote server (settle.go),
// and started (launch.go).
package runcmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// options are the values of the command line, and what the command works with.
type options struct {
	app      *base.App
	progress *render.Progress

	arg  string   // a registry name, an image, a package, or a URL
	args []string // for the server
	// given reports whether a flag was on the command line.
	given func(flag string) bool

	name, group            string
	clients                []string
	foreground             bool
	fromConfig             string
	env                    []string
	secrets                []string
	authFile               string
	ignoreGlobally         bool
	isolateNetwork         bool
	allowGateway           bool
	printOverlays          bool
	dryRun                 bool
	requested              []string          // grants that a registry's entry requests, in a dry run
	targets                map[string]string // of secrets: names by variable
	envFile, envFileDir    string
	labels, volumes, ports []string
	network, profile       string
	imageVerification      string
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
	maxProcesses           int
	memory                 string
	cpus                   float64
	pidsLimit              int64
	diskLimit              string
	stateless              bool
	tools                  []string
	toolsOverride          string
	authzConfig            string
	webhooks               []string
	enableAudit            bool
	auditConfig            string
	pinTools               bool
	caBundle               string
	auth                   authOptions
	telemetry              telemetryOptions
	telemetryHeaders       map[string]string // values, by name
	server                 serverOptions
	remote                 *workload.Remote // what the flags set for a remote server
}

// New returns the command `run`.
func New(app *base.App) *cobra.Command {
	o := &options{app: app}
	cmd := &cobra.Command{
		Use:   "run [flags] SERVER_OR_IMAGE_OR_PROTOCOL [-- ARGS...]",
		Short: "Run a server as a managed, isolated workload",
		Long: `Run starts a tool server in a container behind a local gateway, waits for the
server's first response, and prints the URL for clients as its last line. With
-o json it prints the workload as list -o json shows it, as one object, and nothing on
standard output when it fails; the reason is on standard error either way.

The server is one of:
  a name in the registry             thv registry list shows them
  a container image                  ghcr.io/example/server:1.2
  a package                          npx://PACKAGE, uvx://PACKAGE, go://MODULE/PATH,
                                     each with @VERSION, or go://./directory
  an exported configuration          --from-config FILE
  the URL of a remote server         https://example.com/mcp

Everything after -- is passed to the server. The URL stays the same when the workload
is stopped, started, removed and run again; rm forgets a port chosen with --proxy-port.

Variables are read from --env-file, then --env-file-dir, then -e; the later wins. A
value whose name or form looks like a secret's is kept in a file that only you
can read, and is never exported. On a terminal, run prompts for the values that a
server requires and that are missing. With --from-config, -e and --env-file give the
values of the secrets that the file refers to, and nothing else.

--secret NAME,target=TARGET sets the variable TARGET to a secret that thv secret set
stored, or that another provider has (thv secret provider). It wins over -e. The value is
read at each start, and is in no configuration, log or argument. A file of --from-config
that refers to such a secret needs the flag too: the file alone cannot take it.

What a registry's entry requests beyond what a registry may decide (a privileged container,
mounts, another network) needs your approval, or the flag for it: run prompts for it on a
terminal, and is refused without one.

--dry-run shows what would run, and starts, downloads and stores nothing: the image, the
command, mounts and hidden paths, the network's rules, names of variables and secrets, what
the registry's entry requests, and what run would prompt for.

With --isolate-network the server connects only to the hosts and ports that its permission
profile, or the registry's, lists; without hosts that is nothing. thv connections NAME shows
what it reached and what was refused.

With --oidc-issuer and --oidc-audience the gateway requires an access token of every
request. --oidc-introspection-url accepts opaque tokens, with or without an issuer. The
client secret for it can be in the variable THV_OIDC_CLIENT_SECRET instead of the flag.
--resource-url is the URL of the gateway for clients behind a proxy, and the audience
unless that is given. The advertised scopes are not required of a token.

Run adds the workload to the clients that are set up (see thv client). --client names
those of them that get it, or none.

--image-verification checks who signed an image, by the provenance of the registry's entry
or by image-policy.yaml in the configuration directory (docs/image-verification.md). What
was verified is what runs, also after a restart. With warn, an image that nothing names runs
as it is, and one that fails the check runs with a note; with enabled neither runs.`,
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

  # only two of its tools, which "thv tools NAME" lists
  thv run npx://@modelcontextprotocol/server-filesystem --tools read_text_file,list_directory -v ~/notes:/notes -- /notes

  # with a secret of yours
  thv secret set github
  thv run ghcr.io/github/github-mcp-server --secret github,target=GITHUB_PERSONAL_ACCESS_TOKEN

  # for clients of others, which log in at an identity provider
  thv run uvx://mcp-server-time --oidc-issuer https://idp.example.com --oidc-audience tools

  # for a script
  url=$(thv run uvx://mcp-server-time -o json | jq -r .url)

  # the same server somewhere else
  thv export time time.json
  thv run --from-config time.json --name time-2`,
		Args: func(cmd *cobra.Command, args []string) error { return o.parseArgs(cmd.Flags(), args) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.given = func(name string) bool { return cmd.Flags().Changed(name) }
			if errs := o.conflicts(cmd.Flags()); len(errs) > 0 {
				return base.AsUsage(errors.Join(errs...))
			}
			return run(cmd.Context(), o)
		},
	}
	addFlags(cmd.Flags(), o)
	base.OutputFlag(cmd, app)
	return cmd
}

// parseArgs takes the server and its arguments.
func (o *options) parseArgs(flags *pflag.FlagSet, args []string) error {
	dash := flags.ArgsLenAtDash() // the number of arguments before --
	if dash < 0 {
		dash = len(args)
	}
	switch {
	case o.fromConfig != "" && dash > 0:
		return fmt.Errorf("--from-config names the server already, so %q is one too many", args[0])
	case o.fromConfig == "" && dash == 0:
		return fmt.Errorf("name a server: a registry name, an image, a package, or a URL%s", swallowed(flags))
	case dash > 1:
		return fmt.Errorf("unexpected argument %q; arguments for the server go after --", args[1])
	}
	if dash == 1 {
		o.arg = args[0]
	}
	o.args = args[dash:]
	return nil
}

// swallowed returns a hint when a flag without a value took a package for its value.
func swallowed(flags *pflag.FlagSet) (hint string) {
	flags.Visit(func(f *pflag.Flag) {
		value := strings.Trim(f.Value.String(), "[]")
		for _, scheme := range []string{"npx://", "uvx://", "go://"} {
			if strings.HasPrefix(value, scheme) {
				hint = fmt.Sprintf("; --%s has no value of its own and took %s", f.Name, value)
			}
		}
	})
	return hint
}

// run prepares the workload, stores it and starts it.
func run(ctx context.Context, o *options) error {
	if _, err := o.app.StartTimeout(); err != nil {
		return err
	}
	if o.dryRun {
		return dryRun(ctx, o)
	}
	o.progress = render.NewProgress(o.app.Err, o.app.Env)
	defer o.progress.Done()
	d, err := prepare(ctx, o)
	if err != nil {
		return err
	}
	o.progress.Done()
	for _, n := range d.notices {
		fmt.Fprintln(o.app.Err, "Note:", plaintext.Lines(n))
	}
	return launch(ctx, o, d)
}
