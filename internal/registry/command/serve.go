package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/registry/server"
)

func newServe(env Env) *cobra.Command {
	var path, address, internal, level string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the registry",
		Long: `Serves the registry until SIGTERM or Ctrl-C: requests in flight are completed
first. Secrets, tokens and certificates that the configuration names as files are
read again when they change. SIGHUP reopens the audit file, and fetches the keys of
the identity providers and all sources.

Logs are JSON on standard error; the record of writes goes to audit.file, or to
standard output.`,
		Example: `  thv-registry serve --config registry.yaml
  thv-registry serve --config registry.yaml --address 127.0.0.1:8080 --internal-address 127.0.0.1:8081`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var logLevel slog.Level
			if err := logLevel.UnmarshalText([]byte(level)); err != nil {
				return &usageError{fmt.Errorf("--log-level: %q is none of debug, info, warn and error", level)}
			}
			for flag, value := range map[string]string{"--address": address, "--internal-address": internal} {
				if err := checkAddress(value); err != nil {
					return &usageError{fmt.Errorf("%s: %w", flag, err)}
				}
			}
			cfg, err := load(env, path)
			if err != nil {
				return err
			}
			reload := make(chan os.Signal, 1)
			signal.Notify(reload, syscall.SIGHUP)
			defer signal.Stop(reload)
			return server.Run(cmd.Context(), cfg, server.Options{
				Address: address, InternalAddress: internal, Log: newLog(env.Err, logLevel), AuditOut: env.Out, Reload: reload,
			})
		},
	}
	configFlag(cmd, &path)
	cmd.Flags().StringVar(&address, "address", ":8080", "host:port of the API and the page")
	cmd.Flags().StringVar(&internal, "internal-address", ":8081", "host:port of /health, /readiness, /version and /metrics")
	cmd.Flags().StringVar(&level, "log-level", "info", "debug, info, warn or error")
	return cmd
}

// checkAddress returns a clearer error than net.Listen.
func checkAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		if !strings.Contains(address, ":") && address != "" {
			return fmt.Errorf("%q has no port; write %s:PORT for a host, or :%s for a port", address, address, address)
		}
		return fmt.Errorf("%q is not host:port, such as :8080, 127.0.0.1:8080 or [::1]:8080", address)
	}
	if _, err := net.DefaultResolver.LookupPort(context.Background(), "tcp", port); err != nil {
		return errors.New("there is no port " + port)
	}
	return nil
}
