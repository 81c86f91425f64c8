package admission

import (
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/toolhaven/toolhaven/api/v1beta1"
	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/internal/operator/render"
	"github.com/toolhaven/toolhaven/internal/operator/translate"
)

// Validate is an error for a resource that is not valid by itself: its text has a line for
// each fault. What a resource refers to is not looked at, so that resources can be applied in
// any order; the reconcilers report it in a condition.
func Validate(object client.Object) error {
	switch o := object.(type) {
	case *v1beta1.MCPServer:
		o = o.DeepCopy()
		withoutReferences(&o.Spec.ProxySpec)
		o.Spec.WebhookConfigRef = nil
		// The program of the image is looked for later.
		return rendered(translate.Server(o, &translate.Resolved{}, translate.Options{EntryPoint: []string{"program"}}))
	case *v1beta1.MCPRemoteProxy:
		o = o.DeepCopy()
		withoutReferences(&o.Spec.ProxySpec)
		o.Spec.WebhookConfigRef = nil
		return rendered(translate.RemoteProxy(o, &translate.Resolved{}, translate.Options{}))
	case *v1beta1.MCPServerEntry:
		o = o.DeepCopy()
		o.Spec.GroupRef, o.Spec.CABundleRef, o.Spec.ExternalAuthConfigRef = nil, nil, nil
		return problems(translate.Entry(o, &translate.Resolved{}))
	case *v1beta1.VirtualMCPServer:
		return authServerConfig(o.Spec.AuthServerConfig)
	}
	return translate.Config(object)
}

func withoutReferences(p *v1beta1.ProxySpec) {
	p.OIDCConfigRef, p.AuthServerRef, p.ExternalAuthConfigRef, p.AuthzConfigRef = nil, nil, nil, nil
	p.CABundleRef, p.ToolConfigRef, p.TelemetryConfigRef, p.GroupRef = nil, nil, nil, nil
	if p.AuthzConfig != nil && p.AuthzConfig.ConfigMap != nil {
		p.AuthzConfig = nil
	}
}

// rendered is an error for a workload that cannot be made.
func rendered(w *render.Workload, found []translate.Problem) error {
	if err := problems(found); err != nil || w == nil {
		return err
	}
	_, err := render.Objects(w)
	return err
}

func problems(found []translate.Problem) error {
	var errs []error
	for _, p := range found {
		errs = append(errs, errors.New(p.Message))
	}
	return errors.Join(errs...)
}

// authServerConfig is an error for an authorization server in a field of its own.
func authServerConfig(x *v1beta1.EmbeddedAuthServerConfig) error {
	if x == nil {
		return nil
	}
	err := (&externalauth.Spec{Type: externalauth.TypeEmbeddedAuthServer, EmbeddedAuthServer: x}).Validate()
	var faults externalauth.Faults
	if !errors.As(err, &faults) {
		return err
	}
	var errs []error
	for _, f := range faults {
		errs = append(errs, fmt.Errorf("%s: %s", strings.Replace(f.Field, "spec.embeddedAuthServer", "spec.authServerConfig", 1), f.Message))
	}
	return errors.Join(errs...)
}
