package command

import (
	"fmt"
	"log/slog"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/toolhaven/toolhaven/internal/operator/admission"
)

// admissionOptions are the flags of the webhook that the API server asks.
type admissionOptions struct {
	port    int
	options admission.Options
}

func (o *admissionOptions) flags(f *pflag.FlagSet) {
	f.IntVar(&o.port, "webhook-port", 9443, "serve the admission webhook at this port; 0 for not at all")
	f.StringVar(&o.options.Directory, "webhook-cert-dir", "", "a directory with tls.crt and tls.key of the webhook, such as cert-manager's (default: a certificate of the operator's own)")
	f.StringVar(&o.options.Namespace, "webhook-namespace", "toolhaven", "the namespace of the webhook's Service and Secret")
	f.StringVar(&o.options.Service, "webhook-service", "thv-operator-webhook", "the Service of the webhook")
	f.StringVar(&o.options.Secret, "webhook-secret", "thv-operator-webhook", "the Secret with the operator's own certificate")
	f.StringVar(&o.options.Configuration, "webhook-configuration", "toolhaven", "the ValidatingWebhookConfiguration that gets the certificate's authority")
}

// add makes the manager serve the webhook.
func (o *admissionOptions) add(mgr manager.Manager, config *rest.Config, log slog.Handler) error {
	if o.port == 0 {
		return nil
	}
	o.options.Log = slog.New(log)
	certificates, err := admission.NewCertificates(config, o.options)
	if err != nil {
		return err
	}
	server := admission.NewServer(o.port, certificates, mgr.GetScheme(), admission.Validate)
	for _, part := range []manager.Runnable{certificates, server} {
		if err := mgr.Add(part); err != nil {
			return fmt.Errorf("set up the webhook: %w", err)
		}
	}
	// A Deployment that is available then means that resources can be applied.
	if err := mgr.AddReadyzCheck("webhook", server.StartedChecker()); err != nil {
		return fmt.Errorf("set up the readiness check: %w", err)
	}
	return nil
}
