package cli

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/owner"
	"github.com/toolhaven/toolhaven/internal/pod"
)

// envPodIP is the environment variable with the address of the pod: status.podIP of the
// downward API.
const envPodIP = "POD_IP"

// newGateway returns the command that pods of a cluster run.
func newGateway(app *base.App) *cobra.Command {
	cfg := pod.Config{}
	cmd := &cobra.Command{
		Use:   "gateway --config FILE",
		Short: "Serve a workload in a pod of a cluster (started by the operator)",
		Long: `Gateway serves the clients of a workload whose server runs in another container of the same
pod, or elsewhere. The operator writes its run configuration and starts it. It starts no
container and keeps nothing on disk.

A secret NAME/KEY of the configuration is the file NAME/KEY in --secrets-dir. Files are read
at use, so a changed secret is used without a restart.

Replicas of one workload have the same --key. With it and the environment variable ` + envPodIP + `
they pass requests on to the replica that has the session, over --peer-port.

GET /health responds with 200 while the process lives, GET /readiness when its server has
answered. At SIGTERM the gateway is no longer ready, serves on for --notice, and waits for the
calls in flight for --drain. Its log is on standard error, as JSON; audit records are on
standard output unless the configuration names a file.`,
		Example: `  thv gateway --config /etc/thv/config/workload.json --secrets-dir /etc/thv/secrets --key /etc/thv/key/key
  thv gateway --config workload.json --guest-socket /run/thv/line.sock`,
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			level := slog.LevelInfo
			if app.Debug {
				level = slog.LevelDebug
			}
			cfg.Log = slog.New(slog.NewJSONHandler(app.Err, &slog.HandlerOptions{Level: level}))
			cfg.AuditOut, cfg.PodIP = app.Out, os.Getenv(envPodIP)
			if cfg.Notice == 0 {
				cfg.Notice = -1
			}
			defer owner.FitProcess()()
			return pod.Main(cmd.Context(), cfg)
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.File, "config", "", "File with the run configuration, as thv export writes it")
	f.StringVar(&cfg.SecretsDir, "secrets-dir", "", "Directory with the secrets NAME/KEY that the configuration refers to")
	f.StringVar(&cfg.GuestSocket, "guest-socket", "", "Unix socket of the guest that runs a stdio server")
	f.StringVar(&cfg.KeyFile, "key", "", "File with the 32 bytes that all replicas of the workload share")
	f.StringVar(&cfg.Listen, "listen", "", "Address to listen on, host:port, instead of that in the configuration")
	f.IntVar(&cfg.PeerPort, "peer-port", pod.DefaultPeerPort, "TCP port on the pod's address for the other replicas")
	f.DurationVar(&cfg.Notice, "notice", pod.DefaultNotice, "How long to serve on after SIGTERM, until the cluster sends no more requests")
	f.DurationVar(&cfg.Drain, "drain", pod.DefaultDrain, "How long calls in flight may take to end after that")
	_ = cmd.MarkFlagRequired("config") // the flag exists
	cmd.AddCommand(newEntryPoint(app))
	return cmd
}
