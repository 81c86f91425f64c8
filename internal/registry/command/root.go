// Package command is the command line of thv-registry: one file per command,
// flags in, one call, rendering out.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/toolhaven/toolhaven/internal/buildinfo"
	"github.com/toolhaven/toolhaven/internal/registry/config"
	"github.com/toolhaven/toolhaven/internal/settings"
)

// Exit codes, as those of thv.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// Env is what a command works with.
type Env struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
}

// Main runs the command line and returns the exit code.
func Main(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	return Run(ctx, args, Env{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv})
}

// Run is Main with its surroundings given.
func Run(ctx context.Context, args []string, env Env) int {
	root := newRoot(env)
	root.SetArgs(args)
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.Err)
	err := root.ExecuteContext(ctx)
	var faulty *config.Faults
	var usage *usageError
	var silent *reported
	var stopped *interrupted
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &silent):
		return exitFailure
	case errors.As(err, &stopped):
		fmt.Fprintln(env.Err, "Error: interrupted: "+stopped.how)
		return exitInterrupted
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		fmt.Fprintln(env.Err, "Error: interrupted")
		return exitInterrupted
	}
	fmt.Fprintln(env.Err, "Error: "+err.Error())
	if errors.As(err, &faulty) || errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailure
}

// usageError is a fault of the command line.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

// interrupted: a signal ended the command before its end.
type interrupted struct{ how string }

func (e *interrupted) Error() string { return e.how }

// reported: what went wrong has been printed.
type reported struct{ error }

func newRoot(env Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "thv-registry",
		Short: "Serve a catalog of MCP tool servers over HTTP, protected by OAuth",
		Long: `thv-registry lists an organisation's tool servers to people, agents and other
registries: the official registry API v0.1, a page for people, and OAuth in
front of both. It needs one configuration file and nothing else: the database is
an SQLite file until PostgreSQL is configured.`,
		Example: `  # the smallest registry, for this machine only
  printf 'auth:\n  mode: anonymous\n' > registry.yaml
  thv-registry serve --config registry.yaml --address 127.0.0.1:8080

  # fill it from a file, and use it
  thv-registry import servers.json --config registry.yaml
  thv config set registry http://127.0.0.1:8080/registry/default
  thv registry list`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return &usageError{unknownFlag(cmd, err)} })
	root.AddCommand(newServe(env), newValidate(env), newCheckToken(env), newImport(env), newVersion(env))
	for _, c := range root.Commands() {
		noArgs := c.Args
		c.Args = func(cmd *cobra.Command, args []string) error {
			if err := noArgs(cmd, args); err != nil {
				return &usageError{err}
			}
			return nil
		}
	}
	return root
}

// unknownFlag suggests the flag that was probably meant.
func unknownFlag(cmd *cobra.Command, err error) error {
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) {
		return err
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	if near := settings.Nearest(strings.TrimLeft(missing.GetSpecifiedName(), "-"), known); near != "" {
		return fmt.Errorf("%w; did you mean --%s?", err, near)
	}
	return err
}

// configFlag adds --config, which every command needs.
func configFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "config", "", "configuration file (YAML)")
	cobra.CheckErr(cmd.MarkFlagRequired("config"))
}

// load reads the configuration.
func load(env Env, path string) (*config.Config, error) {
	dirs, err := settings.Locate(env.Getenv)
	if err != nil {
		return nil, err
	}
	return config.Load(path, dirs.State)
}

// outputFlag adds -o, json or text.
func outputFlag(cmd *cobra.Command, asJSON *bool) {
	cmd.Flags().VarP(&format{asJSON}, "output", "o", "text or json")
}

type format struct{ asJSON *bool }

func (f *format) Type() string { return "format" }

func (f *format) String() string {
	if f.asJSON != nil && *f.asJSON {
		return "json"
	}
	return "text"
}

func (f *format) Set(v string) error {
	switch v {
	case "json", "text":
		*f.asJSON = v == "json"
		return nil
	}
	return fmt.Errorf("%q is neither text nor json", v)
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func newLog(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
}

func newVersion(env Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "version", Short: "Show the version", Args: cobra.NoArgs, Example: "  thv-registry version -o json",
		RunE: func(*cobra.Command, []string) error {
			b := buildinfo.Get()
			if asJSON {
				return writeJSON(env.Out, map[string]string{
					"version": b.Version, "commit": b.Commit, "buildDate": b.BuildDate, "goVersion": b.GoVersion, "platform": b.Platform,
				})
			}
			_, err := fmt.Fprintf(env.Out, "thv-registry %s (%s, built %s, %s, %s)\n", b.Version, b.Commit, b.BuildDate, b.GoVersion, b.Platform)
			return err
		},
	}
	outputFlag(cmd, &asJSON)
	return cmd
}
