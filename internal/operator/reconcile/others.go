package reconcile

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/toolhaven/toolhaven/api/v1beta1"
	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/internal/operator/references"
	"github.com/toolhaven/toolhaven/internal/operator/translate"
)

// entries reconciles MCPServerEntries: nothing runs for one.
type entries struct {
	status
	*resolver
}

// Reconcile brings the status of an entry up to date.
func (r *entries) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	o := &v1beta1.MCPServerEntry{}
	if err := r.status.client.Get(ctx, req.NamespacedName, o); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	before := o.DeepCopy()
	proxy := &v1beta1.ProxySpec{ExternalAuthConfigRef: o.Spec.ExternalAuthConfigRef, GroupRef: o.Spec.GroupRef}
	from, err := r.resolve(ctx, o, proxy, nil)
	if err != nil {
		return reconcile.Result{}, err
	}
	problems := translate.Entry(o, from)
	o.Status.ObservedGeneration = o.Generation
	reportProblems(o, problems, map[string]string{
		v1beta1.ConditionValid:           "the entry is valid",
		v1beta1.ConditionAuthReady:       "authentication is configured",
		v1beta1.ConditionReferencesReady: "what it refers to is there",
	})
	o.Status.Phase = v1beta1.PhaseValid
	if len(problems) > 0 {
		o.Status.Phase = v1beta1.PhaseFailed
	}
	return reconcile.Result{}, r.write(ctx, before, o)
}

// virtuals reconciles VirtualMCPServers. Nothing runs for one yet, and its status says so.
type virtuals struct {
	status
	*resolver
}

// Reconcile brings the status of a virtual server up to date.
func (r *virtuals) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	o := &v1beta1.VirtualMCPServer{}
	if err := r.status.client.Get(ctx, req.NamespacedName, o); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	before := o.DeepCopy()
	var problems []translate.Problem
	for _, ref := range references.Of(o) {
		p, err := r.check(ctx, o.Namespace, ref)
		if err != nil {
			return reconcile.Result{}, err
		}
		if p != nil {
			problems = append(problems, *p)
		}
	}
	if x := o.Spec.AuthServerConfig; x != nil {
		whole := externalauth.Spec{Type: externalauth.TypeEmbeddedAuthServer, EmbeddedAuthServer: x}
		if err := whole.Validate(); err != nil {
			problems = append(problems, translate.Problem{Condition: v1beta1.ConditionAuthReady, Reason: translate.ReasonInvalid, Message: "spec.authServerConfig: " + oneLine(err)})
		}
	}
	o.Status.ObservedGeneration = o.Generation
	reportProblems(o, problems, map[string]string{
		v1beta1.ConditionAuthReady:       "authentication is configured",
		v1beta1.ConditionReferencesReady: "what it refers to is there",
	})
	const message = "this version of Toolhaven does not run virtual servers; use MCPServer or MCPRemoteProxy"
	set(o, v1beta1.ConditionReady, false, "DataPlaneMissing", message)
	o.Status.Phase, o.Status.Message = v1beta1.PhasePending, message
	return reconcile.Result{}, r.write(ctx, before, o)
}

// check is the problem with one reference; nil for none.
func (r *virtuals) check(ctx context.Context, namespace string, ref references.Ref) (*translate.Problem, error) {
	if ref.Kind == references.KindConfigMap {
		return nil, nil
	}
	condition := v1beta1.ConditionReferencesReady
	if ref.Kind == v1beta1.KindMCPExternalAuthConfig || ref.Kind == v1beta1.KindMCPOIDCConfig {
		condition = v1beta1.ConditionAuthReady
	}
	o := newConfig(ref.Kind)
	err := r.status.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, o)
	if apierrors.IsNotFound(err) {
		return &translate.Problem{Condition: condition, Reason: translate.ReasonNotFound, Message: fmt.Sprintf("there is no %s %q in this namespace; create it", ref.Kind, ref.Name)}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", ref.Kind, ref.Name, err)
	}
	if err := translate.Config(o); err != nil {
		return &translate.Problem{Condition: condition, Reason: translate.ReasonNotValid, Message: fmt.Sprintf("%s %q is not valid: %s", ref.Kind, ref.Name, oneLine(err))}, nil
	}
	return nil, nil
}

// newConfig is an empty object of a kind that is referred to.
func newConfig(kind string) client.Object {
	switch kind {
	case v1beta1.KindMCPExternalAuthConfig:
		return &v1beta1.MCPExternalAuthConfig{}
	case v1beta1.KindMCPOIDCConfig:
		return &v1beta1.MCPOIDCConfig{}
	case v1beta1.KindMCPToolConfig:
		return &v1beta1.MCPToolConfig{}
	case v1beta1.KindMCPTelemetryConfig:
		return &v1beta1.MCPTelemetryConfig{}
	case v1beta1.KindMCPAuthzConfig:
		return &v1beta1.MCPAuthzConfig{}
	case v1beta1.KindMCPWebhookConfig:
		return &v1beta1.MCPWebhookConfig{}
	}
	return &v1beta1.MCPGroup{}
}

// groups reconciles MCPGroups: their status lists their members.
type groups struct{ status }

// Reconcile brings the status of a group up to date.
func (r *groups) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	o := &v1beta1.MCPGroup{}
	if err := r.client.Get(ctx, req.NamespacedName, o); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	before := o.DeepCopy()
	members, err := references.To(ctx, r.client, o.Namespace, references.Ref{Kind: v1beta1.KindMCPGroup, Name: o.Name})
	if err != nil {
		return reconcile.Result{}, err
	}
	s := &o.Status
	s.Servers, s.RemoteProxies, s.Entries = nil, nil, nil
	for _, m := range members {
		switch m.Kind {
		case v1beta1.KindMCPServer:
			s.Servers = append(s.Servers, m.Name)
		case v1beta1.KindMCPRemoteProxy:
			s.RemoteProxies = append(s.RemoteProxies, m.Name)
		case v1beta1.KindMCPServerEntry:
			s.Entries = append(s.Entries, m.Name)
		}
	}
	s.ServerCount, s.RemoteProxyCount, s.EntryCount = count(s.Servers), count(s.RemoteProxies), count(s.Entries)
	s.ObservedGeneration, s.Phase = o.Generation, v1beta1.PhaseReady
	set(o, v1beta1.ConditionReady, true, "Ready", "the members are listed")
	return reconcile.Result{}, r.write(ctx, before, o)
}

func count(names []string) int32 { return int32(len(names)) } //nolint:gosec // the store holds far fewer
