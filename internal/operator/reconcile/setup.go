// Package reconcile has the controllers of the operator.
//
// Each reconciler computes what should be from what the cache has, compares, and writes what
// differs: in the steady state it writes nothing and sends no request. It keeps nothing in
// memory that a restart would lose, so that it can be ended between any two writes, and two
// operators at once write the same.
//
//   - configs: the kinds that workloads refer to. Status, and protection from deletion.
//   - workloads: MCPServer and MCPRemoteProxy. Objects (package render), and status.
//   - entries, virtuals, groups: status alone.
//
// Which resource refers to which is known to package references. A change of a reference
// reconciles both ends.
package reconcile

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/toolhaven/toolhaven/api/v1beta1"
	"github.com/toolhaven/toolhaven/internal/operator/references"
	"github.com/toolhaven/toolhaven/internal/operator/render"
)

// Options of the controllers.
type Options struct {
	// GatewayImage is the image with thv and thv-guest for all pods.
	GatewayImage string
	// Programs finds the programs of stdio servers.
	Programs EntryPoints
	// Concurrency is how many resources of a kind are reconciled at a time; 0 is 8.
	Concurrency int
}

// Scheme has the types that the operator uses.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1beta1.AddToScheme} {
		if err := add(s); err != nil {
			return nil, fmt.Errorf("register types: %w", err)
		}
	}
	return s, nil
}

// Cache is how the manager's cache is configured: of objects that others make as well, it has
// only ours, and of ConfigMaps of others only the names and versions.
func Cache() cache.Options {
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{render.LabelManagedBy: render.Manager})}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&appsv1.Deployment{}: {Label: ours.Label, Transform: packTemplate}, &corev1.Service{}: ours, &corev1.ServiceAccount{}: ours,
			&networkingv1.NetworkPolicy{}: ours, &policyv1.PodDisruptionBudget{}: ours,
			&corev1.ConfigMap{}: {Transform: withoutContent},
		},
	}
}

// withoutContent keeps the content of our own ConfigMaps alone.
func withoutContent(o any) (any, error) {
	if m, ok := o.(*corev1.ConfigMap); ok {
		m.ManagedFields = nil
		if m.Labels[render.LabelManagedBy] != render.Manager {
			m.Data, m.BinaryData, m.Annotations = nil, nil, nil
		}
	}
	return o, nil
}

// Setup adds the controllers to a manager, whose cache is configured by [Cache].
func Setup(ctx context.Context, mgr manager.Manager, opt Options) error {
	for _, kind := range references.Kinds() {
		if err := mgr.GetFieldIndexer().IndexField(ctx, kind, references.Index, references.Values); err != nil {
			return fmt.Errorf("index references: %w", err)
		}
	}
	if opt.Concurrency == 0 {
		opt.Concurrency = 8
	}
	s := &setup{
		mgr: mgr, opt: opt,
		status:   status{client: mgr.GetClient(), events: mgr.GetEventRecorder("thv-operator")},
		resolver: &resolver{client: mgr.GetClient(), direct: mgr.GetAPIReader()},
	}
	for _, kind := range []string{
		v1beta1.KindMCPExternalAuthConfig, v1beta1.KindMCPOIDCConfig, v1beta1.KindMCPToolConfig, v1beta1.KindMCPTelemetryConfig,
		v1beta1.KindMCPAuthzConfig, v1beta1.KindMCPWebhookConfig,
	} {
		r := &configs{status: s.status, kind: kind, empty: func() client.Object { return newConfig(kind) }}
		if err := s.referred(s.builder(kind, newConfig(kind)), kind).Complete(r); err != nil {
			return fmt.Errorf("set up %s: %w", kind, err)
		}
	}
	if err := s.referred(s.builder(v1beta1.KindMCPGroup, &v1beta1.MCPGroup{}), v1beta1.KindMCPGroup).Complete(&groups{s.status}); err != nil {
		return fmt.Errorf("set up %s: %w", v1beta1.KindMCPGroup, err)
	}
	for _, kind := range []string{v1beta1.KindMCPServer, v1beta1.KindMCPRemoteProxy} {
		if err := s.workload(kind); err != nil {
			return fmt.Errorf("set up %s: %w", kind, err)
		}
	}
	b := s.referring(s.builder(v1beta1.KindMCPServerEntry, &v1beta1.MCPServerEntry{}), v1beta1.KindMCPServerEntry)
	if err := b.Complete(&entries{s.status, s.resolver}); err != nil {
		return fmt.Errorf("set up %s: %w", v1beta1.KindMCPServerEntry, err)
	}
	b = s.referring(s.builder(v1beta1.KindVirtualMCPServer, &v1beta1.VirtualMCPServer{}), v1beta1.KindVirtualMCPServer)
	if err := b.Complete(&virtuals{s.status, s.resolver}); err != nil {
		return fmt.Errorf("set up %s: %w", v1beta1.KindVirtualMCPServer, err)
	}
	return nil
}

type setup struct {
	mgr      manager.Manager
	opt      Options
	status   status
	resolver *resolver
}

func (s *setup) builder(kind string, o client.Object) *builder.Builder {
	return builder.ControllerManagedBy(s.mgr).Named(kind).For(o).WithOptions(controller.Options{MaxConcurrentReconciles: s.opt.Concurrency})
}

// workload sets up the controller of a kind with pods.
func (s *setup) workload(kind string) error {
	r := &workloads{
		status: s.status, children: children{client: s.mgr.GetClient(), direct: s.mgr.GetAPIReader()}, resolver: s.resolver,
		kind: kind, gatewayImage: s.opt.GatewayImage, programs: s.opt.Programs, client: s.mgr.GetClient(),
	}
	b := s.referring(s.builder(kind, newSubject(kind).object), kind)
	for _, child := range owned() {
		b = b.Watches(child, handler.EnqueueRequestsFromMapFunc(ofWorkload), builder.WithPredicates(ours()))
	}
	return b.Complete(r)
}

// ours passes objects with our label.
func ours() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetLabels()[render.LabelManagedBy] == render.Manager })
}

// ofWorkload is the resource that an object belongs to, or would like to have: two resources
// of different kinds may claim one Deployment.
func ofWorkload(_ context.Context, o client.Object) []reconcile.Request {
	names := []string{o.GetLabels()[render.LabelWorkload]}
	if owner := metav1.GetControllerOf(o); owner != nil {
		names = append(names, owner.Name)
	}
	slices.Sort(names)
	var requests []reconcile.Request
	for _, name := range slices.Compact(names) {
		if name != "" {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}})
		}
	}
	return requests
}

// referred watches what may refer to resources of a kind: a reference that comes or goes
// reconciles the resource.
func (s *setup) referred(b *builder.Builder, kind string) *builder.Builder {
	for _, referrer := range []client.Object{&v1beta1.MCPServer{}, &v1beta1.MCPRemoteProxy{}, &v1beta1.MCPServerEntry{}, &v1beta1.VirtualMCPServer{}} {
		b = b.Watches(referrer, changedReferences(kind))
	}
	return b
}

// changedReferences reconciles the resources of a kind that an object began or ceased to
// refer to.
func changedReferences(kind string) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(q queue, o client.Object, except []references.Ref) {
		for _, ref := range references.Of(o) {
			if ref.Kind == kind && !slices.Contains(except, ref) {
				q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: ref.Name}})
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { add(q, e.Object, nil) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { add(q, e.Object, nil) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			add(q, e.ObjectOld, references.Of(e.ObjectNew))
			add(q, e.ObjectNew, references.Of(e.ObjectOld))
		},
	}
}

// referring watches what resources of a kind may refer to: its changes reconcile them.
func (s *setup) referring(b *builder.Builder, kind string) *builder.Builder {
	changed := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	for _, config := range []string{
		v1beta1.KindMCPExternalAuthConfig, v1beta1.KindMCPOIDCConfig, v1beta1.KindMCPToolConfig, v1beta1.KindMCPTelemetryConfig,
		v1beta1.KindMCPAuthzConfig, v1beta1.KindMCPWebhookConfig, v1beta1.KindMCPGroup,
	} {
		b = b.Watches(newConfig(config), handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
			return s.referrers(ctx, kind, o.GetNamespace(), references.Ref{Kind: config, Name: o.GetName()})
		}), changed)
	}
	return b.Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		return s.referrers(ctx, kind, o.GetNamespace(), references.Ref{Kind: references.KindConfigMap, Name: o.GetName()})
	}), builder.WithPredicates(predicate.Not(ours())))
}

// referrers are the resources of a kind that refer to ref, directly or by a configuration.
func (s *setup) referrers(ctx context.Context, kind, namespace string, ref references.Ref) []reconcile.Request {
	all, err := references.To(ctx, s.mgr.GetClient(), namespace, ref)
	if err != nil {
		s.mgr.GetLogger().Error(err, "find what refers to a changed resource")
		return nil
	}
	var requests []reconcile.Request
	for _, r := range all {
		switch {
		case r.Kind == kind:
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: r.Name}})
		case ref.Kind == references.KindConfigMap && (r.Kind == v1beta1.KindMCPOIDCConfig || r.Kind == v1beta1.KindMCPTelemetryConfig):
			requests = append(requests, s.referrers(ctx, kind, namespace, references.Ref{Kind: r.Kind, Name: r.Name})...)
		}
	}
	return requests
}

// Alive is a health check that passes as long as the program serves requests.
func Alive(*http.Request) error { return nil }
