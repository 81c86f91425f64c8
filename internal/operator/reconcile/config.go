package reconcile

import (
	"context"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/toolhaven/toolhaven/api/v1beta1"
	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/internal/operator/references"
	"github.com/toolhaven/toolhaven/internal/operator/translate"
)

// Finalizer keeps a configuration as long as workloads refer to it.
const Finalizer = "toolhaven.dev/referenced"

// configs reconciles the resources of one kind that workloads refer to. Nothing is made for
// one: it has a status, and cannot be deleted while it is referred to.
type configs struct {
	status

	kind  string
	empty func() client.Object
}

// Reconcile brings the status of one resource up to date.
func (r *configs) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	o := r.empty()
	if err := r.client.Get(ctx, req.NamespacedName, o); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	referrers, err := references.To(ctx, r.client, o.GetNamespace(), references.Ref{Kind: r.kind, Name: o.GetName()})
	if err != nil {
		return reconcile.Result{}, err
	}
	going := o.GetDeletionTimestamp() != nil
	if going && len(referrers) == 0 {
		return reconcile.Result{}, r.finalizer(ctx, o, controllerutil.RemoveFinalizer)
	}
	if !going {
		if err := r.finalizer(ctx, o, controllerutil.AddFinalizer); err != nil {
			return reconcile.Result{}, err
		}
	}
	before, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		return reconcile.Result{}, fmt.Errorf("a copy of %T is no object", o)
	}
	s := configStatus(o)
	s.ObservedGeneration = o.GetGeneration()
	s.ReferencingWorkloads, s.ReferenceCount = referrers, int32(len(referrers)) //nolint:gosec // the store holds far fewer
	if s.ConfigHash, err = hash(specOf(o)); err != nil {
		return reconcile.Result{}, err
	}
	if err := translate.Config(o); err != nil {
		set(o, v1beta1.ConditionValid, false, translate.ReasonInvalid, oneLine(err))
	} else {
		set(o, v1beta1.ConditionValid, true, "Valid", "the configuration is valid")
	}
	if going {
		set(o, v1beta1.ConditionDeletionBlocked, true, "ReferencedByWorkloads", blocked(referrers))
	} else {
		unset(o, v1beta1.ConditionDeletionBlocked)
	}
	if x, ok := o.(*v1beta1.MCPExternalAuthConfig); ok {
		synthesized(x)
	}
	return reconcile.Result{}, r.write(ctx, before, o)
}

// finalizer changes the finalizers of o in the cluster, if the change changes anything.
func (r *configs) finalizer(ctx context.Context, o client.Object, change func(client.Object, string) bool) error {
	before, ok := o.DeepCopyObject().(client.Object)
	if !ok || !change(o, Finalizer) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.client.Patch(ctx, o, patch, client.FieldOwner(FieldOwner)); err != nil {
		return client.IgnoreNotFound(err)
	}
	if len(o.GetFinalizers()) > 0 { // else it is gone
		seen(ctx, r.client, o, o.GetResourceVersion())
	}
	return nil
}

// blocked lists who keeps a resource.
func blocked(referrers []v1beta1.Referrer) string {
	const most = 20
	var names []string
	for i, r := range referrers {
		if i == most {
			names = append(names, fmt.Sprintf("%d more", len(referrers)-most))
			break
		}
		names = append(names, r.Kind+" "+r.Name)
	}
	return "it is deleted when these no longer refer to it: " + strings.Join(names, ", ")
}

// synthesized reports whether a provider of an authorization server does not identify
// persons: each login is then another person.
func synthesized(o *v1beta1.MCPExternalAuthConfig) {
	x := o.Spec.EmbeddedAuthServer
	if x == nil || o.Spec.Type != externalauth.TypeEmbeddedAuthServer {
		unset(o, v1beta1.ConditionIdentitySynthesized)
		return
	}
	var names []string
	for _, p := range x.UpstreamProviders {
		if p.OAuth2 != nil && p.OAuth2.UserInfo == nil && p.OAuth2.IdentityFromToken == nil {
			names = append(names, p.Name)
		}
	}
	if len(names) == 0 {
		set(o, v1beta1.ConditionIdentitySynthesized, false, "AllUpstreamsHaveUserInfo", "every upstream provider identifies persons")
		return
	}
	set(o, v1beta1.ConditionIdentitySynthesized, true, "OAuth2UpstreamWithoutUserInfo",
		"these upstream providers do not identify persons, so that each login is another one; give oauth2Config.userInfo or identityFromToken: "+strings.Join(names, ", "))
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
