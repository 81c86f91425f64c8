package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/toolhaven/toolhaven/internal/entrypoint"
	"github.com/toolhaven/toolhaven/internal/operator/reconcile"
)

// runOptions are the flags of run.
type runOptions struct {
	env Env

	gatewayImage      string
	kubeconfig        string
	namespaces        string
	metrics, health   string
	leaderElection    bool
	leaderNamespace   string
	privateRegistries bool
	concurrency       int
	debug             bool
	admission         admissionOptions
}

func newRun(env Env) *cobra.Command {
	opt := &runOptions{env: env}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the operator",
		Long: `Watches the resources of toolhaven.dev and makes what they declare: for an
MCPServer or MCPRemoteProxy a Deployment whose pods have a gateway and the server,
a Service, and what belongs to them. It needs no right to read Secrets.`,
		Example: `  thv-operator run --gateway-image ghcr.io/toolhaven/thv:v1.0.0
  thv-operator run --gateway-image thv:dev --kubeconfig ~/.kube/config --leader-election=false`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return opt.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&opt.gatewayImage, "gateway-image", "", "the image with thv for the pods of all servers (required)")
	f.StringVar(&opt.kubeconfig, "kubeconfig", "", "a kubeconfig file (default: that of the pod, or $KUBECONFIG)")
	f.StringVar(&opt.namespaces, "namespaces", "", "watch these namespaces only, separated by commas (default: all)")
	f.StringVar(&opt.metrics, "metrics-address", ":8080", "serve metrics here over plain HTTP; 0 for not at all")
	f.StringVar(&opt.health, "health-address", ":8081", "serve /healthz and /readyz here; 0 for not at all")
	f.BoolVar(&opt.leaderElection, "leader-election", true, "let one of several operators work, and the others wait")
	f.StringVar(&opt.leaderNamespace, "leader-election-namespace", "", "the namespace of the lease (default: the pod's own)")
	f.BoolVar(&opt.privateRegistries, "allow-private-registries", false, "look into images of registries at private addresses too, for the programs of stdio servers without spec.command")
	f.IntVar(&opt.concurrency, "concurrency", 8, "how many resources of a kind are reconciled at a time")
	f.BoolVar(&opt.debug, "debug", false, "log more")
	opt.admission.flags(f)
	return cmd
}

func (o *runOptions) run(ctx context.Context) error {
	if o.gatewayImage == "" {
		return errors.New("--gateway-image is missing; give the image with thv, such as ghcr.io/toolhaven/thv:v1.0.0")
	}
	// Most of its memory is what it watches, which changes rarely: garbage may be collected often.
	debug.SetGCPercent(30)
	log := logger(o.env.Err, o.debug)
	ctrllog.SetLogger(log)
	config, err := o.restConfig()
	if err != nil {
		return err
	}
	mgr, err := o.manager(config, log)
	if err != nil {
		return err
	}
	programs, err := entrypoint.New(entrypoint.Options{AllowPrivate: o.privateRegistries})
	if err != nil {
		return err
	}
	err = reconcile.Setup(ctx, mgr, reconcile.Options{GatewayImage: o.gatewayImage, Programs: programs, Concurrency: o.concurrency})
	if err != nil {
		return err
	}
	if err := o.admission.add(mgr, config, logr.ToSlogHandler(log)); err != nil {
		return err
	}
	if err := mgr.Add(memory{}); err != nil {
		return fmt.Errorf("set up the operator: %w", err)
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("the operator ended: %w", err)
	}
	return nil
}

func (o *runOptions) restConfig() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w; give --kubeconfig", err)
	}
	// The API server has its own limits (priority and fairness); these are against a fault of ours.
	config.QPS, config.Burst = 400, 800
	return config, nil
}

func (o *runOptions) manager(config *rest.Config, log logr.Logger) (manager.Manager, error) {
	scheme, err := reconcile.Scheme()
	if err != nil {
		return nil, err
	}
	caching := reconcile.Cache()
	for name := range strings.SplitSeq(o.namespaces, ",") {
		if name = strings.TrimSpace(name); name != "" {
			if caching.DefaultNamespaces == nil {
				caching.DefaultNamespaces = map[string]cache.Config{}
			}
			caching.DefaultNamespaces[name] = cache.Config{}
		}
	}
	mgr, err := manager.New(config, manager.Options{
		Scheme: scheme, Cache: caching, Logger: log,
		Metrics:                metricsserver.Options{BindAddress: o.metrics},
		HealthProbeBindAddress: o.health,
		LeaderElection:         o.leaderElection, LeaderElectionID: "thv-operator", LeaderElectionNamespace: o.leaderNamespace,
		// The lease is given back at the end, so that another operator need not wait.
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       ptr.To(20 * time.Second),
	})
	if err != nil {
		return nil, fmt.Errorf("set up the operator: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", reconcile.Alive); err != nil {
		return nil, fmt.Errorf("set up the health check: %w", err)
	}
	if err := mgr.AddReadyzCheck("ping", reconcile.Alive); err != nil {
		return nil, fmt.Errorf("set up the readiness check: %w", err)
	}
	return mgr, nil
}

// logger writes JSON.
func logger(w io.Writer, debug bool) logr.Logger {
	level := slog.LevelInfo
	if debug {
		level = slog.LevelDebug
	}
	return logr.FromSlogHandler(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
}
