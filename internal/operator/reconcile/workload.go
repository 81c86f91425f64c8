package reconcile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/toolhaven/toolhaven/api/v1beta1"
	"github.com/toolhaven/toolhaven/internal/operator/render"
	"github.com/toolhaven/toolhaven/internal/operator/translate"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// annotationProgram is the program of the image, on the Deployment: the registry is not asked
// again when the operator starts, and a moved tag rolls nothing.
const annotationProgram = "toolhaven.dev/entry-point"

// EntryPoints finds the program of an image (package image).
type EntryPoints interface {
	EntryPoint(ctx context.Context, image string, hasArgs bool) ([]string, error)
}

// again is when a workload that waits for something unwatched is looked at again.
const again = time.Minute

// workloads reconciles MCPServers or MCPRemoteProxies.
type workloads struct {
	status
	children
	*resolver

	kind         string
	gatewayImage string
	programs     EntryPoints
	client       client.Client
}

// subject is one resource that declares a workload.
type subject struct {
	object   client.Object
	proxy    *v1beta1.ProxySpec
	webhooks *v1beta1.NameRef
	status   *v1beta1.WorkloadStatus
	server   *v1beta1.MCPServer // nil for a remote one
	remote   *v1beta1.MCPRemoteProxy
}

func newSubject(kind string) *subject {
	if kind == v1beta1.KindMCPServer {
		o := &v1beta1.MCPServer{}
		return &subject{object: o, proxy: &o.Spec.ProxySpec, status: &o.Status, server: o}
	}
	o := &v1beta1.MCPRemoteProxy{}
	return &subject{object: o, proxy: &o.Spec.ProxySpec, status: &o.Status, remote: o}
}

func (s *subject) translate(from *translate.Resolved, opt translate.Options) (*render.Workload, []translate.Problem) {
	if s.server != nil {
		return translate.Server(s.server, from, opt)
	}
	return translate.RemoteProxy(s.remote, from, opt)
}

// Reconcile makes the objects of one workload and brings its status up to date.
func (r *workloads) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	s := newSubject(r.kind)
	if err := r.client.Get(ctx, req.NamespacedName, s.object); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if s.server != nil {
		s.webhooks = s.server.Spec.WebhookConfigRef
	} else {
		s.webhooks = s.remote.Spec.WebhookConfigRef
	}
	before, ok := s.object.DeepCopyObject().(client.Object)
	if !ok {
		return reconcile.Result{}, fmt.Errorf("a copy of %T is no object", s.object)
	}
	s.status.ObservedGeneration = s.object.GetGeneration()
	if s.object.GetDeletionTimestamp() != nil {
		s.status.Phase = v1beta1.PhaseTerminating
		return reconcile.Result{}, r.write(ctx, before, s.object)
	}
	from, err := r.resolve(ctx, s.object, s.proxy, s.webhooks)
	if err != nil {
		return reconcile.Result{}, err
	}
	w, problems := r.render(ctx, s, from)
	live, conflicts, failure := r.produce(ctx, s, w)
	problems = append(problems, conflicts...)
	if live == nil {
		if live, err = r.deployment(ctx, req.NamespacedName, s); err != nil {
			return reconcile.Result{}, err
		}
	}
	s.report(problems, live)
	if len(problems) == 0 {
		if err := s.hashes(from); err != nil {
			return reconcile.Result{}, err
		}
	}
	if err := r.write(ctx, before, s.object); err != nil {
		return reconcile.Result{}, err
	}
	result := reconcile.Result{}
	if waits(problems) || live != nil && live.Status.AvailableReplicas == 0 && s.status.Phase == v1beta1.PhasePending {
		result.RequeueAfter = again
	}
	return result, failure
}

// rendered is a workload with its objects.
type rendered struct {
	workload *render.Workload
	objects  []client.Object
}

// render translates and renders; nil with problems.
func (r *workloads) render(ctx context.Context, s *subject, from *translate.Resolved) (*rendered, []translate.Problem) {
	opt := translate.Options{GatewayImage: r.gatewayImage}
	found := false
	if x := s.server; x != nil && translate.NeedsEntryPoint(x) {
		opt.EntryPoint, opt.EntryPointError = r.program(ctx, x)
		found = opt.EntryPointError == nil
	}
	w, problems := s.translate(from, opt)
	if len(problems) > 0 {
		return nil, problems
	}
	if found {
		if w.DeploymentMeta.Annotations == nil {
			w.DeploymentMeta.Annotations = map[string]string{}
		}
		text, err := json.Marshal(program{s.server.Spec.Image, len(s.server.Spec.Args) > 0, opt.EntryPoint})
		if err != nil {
			return nil, []translate.Problem{{Condition: v1beta1.ConditionValid, Reason: translate.ReasonInvalid, Message: err.Error()}}
		}
		annotations := map[string]string{annotationProgram: string(text)}
		for k, v := range w.DeploymentMeta.Annotations {
			if k != annotationProgram {
				annotations[k] = v
			}
		}
		w.DeploymentMeta.Annotations = annotations
	}
	objects, err := render.Objects(w)
	var faults render.Faults
	switch {
	case errors.As(err, &faults):
		for _, f := range faults {
			condition := v1beta1.ConditionValid
			if strings.HasPrefix(f.Field, "spec.podTemplateSpec") {
				condition = v1beta1.ConditionPodTemplateValid
			}
			problems = append(problems, translate.Problem{Condition: condition, Reason: translate.ReasonInvalid, Message: f.Error()})
		}
		return nil, problems
	case err != nil:
		return nil, []translate.Problem{{Condition: v1beta1.ConditionValid, Reason: translate.ReasonInvalid, Message: err.Error()}}
	}
	return &rendered{w, objects}, nil
}

// program is the value of annotationProgram.
type program struct {
	Image      string   `json:"image"`
	HasArgs    bool     `json:"hasArgs,omitempty"`
	EntryPoint []string `json:"entryPoint"`
}

// program is that of the server's image: the one that the Deployment runs already, or that
// of the image's registry.
func (r *workloads) program(ctx context.Context, x *v1beta1.MCPServer) ([]string, error) {
	var live appsv1.Deployment
	var known program
	hasArgs := len(x.Spec.Args) > 0
	if r.client.Get(ctx, client.ObjectKeyFromObject(x), &live) == nil && live.Annotations[annotationProgram] != "" &&
		json.Unmarshal([]byte(live.Annotations[annotationProgram]), &known) == nil && known.Image == x.Spec.Image && known.HasArgs == hasArgs {
		return known.EntryPoint, nil
	}
	return r.programs.EntryPoint(ctx, x.Spec.Image, hasArgs)
}

// produce applies the objects of a workload; none with problems: what runs is left as it is. An
// object that belongs to another resource is a problem. The Deployment is returned if it was
// written: the cache does not have it yet, and the status is about it.
func (r *workloads) produce(ctx context.Context, s *subject, w *rendered) (*appsv1.Deployment, []translate.Problem, error) {
	if w == nil {
		return nil, nil, nil
	}
	var live appsv1.Deployment
	err := r.client.Get(ctx, client.ObjectKeyFromObject(s.object), &live)
	if client.IgnoreNotFound(err) != nil {
		return nil, nil, fmt.Errorf("read the Deployment: %w", err)
	}
	// The key cannot be seen. It is made before the Deployment; if it was deleted since, no new
	// pod becomes available.
	if err != nil || live.Status.AvailableReplicas == 0 && time.Since(live.CreationTimestamp.Time) > again/2 {
		if err := r.key(ctx, w.workload.Owner, s.object.GetNamespace()); err != nil {
			return nil, nil, err
		}
	}
	var written *appsv1.Deployment
	for _, o := range w.objects {
		result, err := r.apply(ctx, w.workload.Owner.UID, o)
		var not *refused
		if errors.As(err, &not) {
			return written, []translate.Problem{{Condition: v1beta1.ConditionValid, Reason: not.reason, Message: not.message}}, nil
		}
		if err != nil {
			return written, nil, err
		}
		if result != nil {
			defer seen(ctx, r.client, o, result.GetResourceVersion())
		}
		if _, ok := o.(*appsv1.Deployment); ok && result != nil {
			written = &appsv1.Deployment{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(result.Object, written); err != nil {
				return nil, nil, fmt.Errorf("read the Deployment that was written: %w", err)
			}
		}
	}
	return written, nil, r.prune(ctx, r.kind, s.object, w.objects)
}

// deployment is the workload's own; nil for none.
func (r *workloads) deployment(ctx context.Context, key types.NamespacedName, s *subject) (*appsv1.Deployment, error) {
	var d appsv1.Deployment
	err := r.client.Get(ctx, key, &d)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the Deployment: %w", err)
	}
	for _, ref := range d.OwnerReferences {
		if ref.UID == s.object.GetUID() {
			return &d, nil
		}
	}
	return nil, nil
}

// waits reports whether a problem may end without an event.
func waits(problems []translate.Problem) bool {
	return slices.ContainsFunc(problems, func(p translate.Problem) bool {
		return p.Reason == translate.ReasonNoEntryPoint || p.Reason == translate.ReasonConflict || p.Reason == translate.ReasonRefused
	})
}

// hashes are those of the configurations that the workload runs with.
func (s *subject) hashes(from *translate.Resolved) error {
	for _, x := range []struct {
		to   *string
		of   client.Object
		used bool
	}{
		{&s.status.ExternalAuthConfigHash, from.ExternalAuth, from.ExternalAuth != nil},
		{&s.status.AuthServerConfigHash, from.AuthServer, from.AuthServer != nil},
		{&s.status.OIDCConfigHash, from.OIDC, from.OIDC != nil},
		{&s.status.AuthzConfigHash, from.Authz, from.Authz != nil},
		{&s.status.ToolConfigHash, from.Tools, from.Tools != nil},
		{&s.status.TelemetryConfigHash, from.Telemetry, from.Telemetry != nil},
		{&s.status.WebhookConfigHash, from.Webhooks, from.Webhooks != nil},
	} {
		*x.to = ""
		if !x.used {
			continue
		}
		sum, err := hash(specOf(x.of))
		if err != nil {
			return err
		}
		*x.to = sum
	}
	return nil
}

// report sets the conditions, the phase and the URL.
func (s *subject) report(problems []translate.Problem, live *appsv1.Deployment) {
	fine := map[string]string{
		v1beta1.ConditionValid:           "the resource is valid",
		v1beta1.ConditionAuthReady:       "authentication is configured",
		v1beta1.ConditionReferencesReady: "what it refers to is there",
	}
	if s.proxy.PodTemplateSpec != nil {
		fine[v1beta1.ConditionPodTemplateValid] = "podTemplateSpec is merged"
	} else {
		unset(s.object, v1beta1.ConditionPodTemplateValid)
	}
	reportProblems(s.object, problems, fine)
	if len(problems) == 0 {
		s.status.URL = s.url()
	}
	s.status.ReadyReplicas = 0
	if live != nil {
		s.status.ReadyReplicas = live.Status.ReadyReplicas
	}
	phase, reason, message := state(live)
	if len(problems) > 0 {
		phase, reason, message = v1beta1.PhaseFailed, problems[0].Reason, problems[0].Message
		if live != nil && live.Status.AvailableReplicas > 0 {
			message += " (the last valid configuration keeps running)"
		}
	}
	set(s.object, v1beta1.ConditionReady, phase == v1beta1.PhaseReady, reason, message)
	s.status.Phase, s.status.Message = phase, message
}

// reportProblems sets a condition of each type in fine: True with its text, or False with the
// problems of that type.
func reportProblems(o client.Object, problems []translate.Problem, fine map[string]string) {
	for condition, text := range fine {
		var messages []string
		reason := ""
		for _, p := range problems {
			if p.Condition == condition {
				reason = cmp.Or(reason, p.Reason)
				messages = append(messages, p.Message)
			}
		}
		if len(messages) == 0 {
			set(o, condition, true, condition, text)
		} else {
			set(o, condition, false, reason, strings.Join(messages, "; "))
		}
	}
}

// url is where clients inside the cluster reach the workload.
func (s *subject) url() string {
	path := "/mcp"
	if s.server != nil && s.server.Spec.ProxyMode == "sse" && cmp.Or(s.server.Spec.Transport, string(workload.Stdio)) == string(workload.Stdio) {
		path = "/sse"
	}
	kind := v1beta1.KindMCPServer
	if s.remote != nil {
		kind = v1beta1.KindMCPRemoteProxy
	}
	return fmt.Sprintf("http://%s.%s.svc:%d%s", render.ServiceName(kind, s.object.GetName()), s.object.GetNamespace(), cmp.Or(s.proxy.ProxyPort, 8080), path)
}

// state is that of a Deployment, for people.
func state(d *appsv1.Deployment) (v1beta1.Phase, string, string) {
	if d == nil || d.Status.ObservedGeneration < d.Generation {
		return v1beta1.PhasePending, "Progressing", "the pods are being made"
	}
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	switch {
	case want == 0:
		return v1beta1.PhaseStopped, "Stopped", "replicas is 0"
	case d.Status.UpdatedReplicas >= want && d.Status.AvailableReplicas >= want && d.Status.Replicas <= want:
		return v1beta1.PhaseReady, "Ready", fmt.Sprintf("%d of %d pods are ready", d.Status.AvailableReplicas, want)
	}
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse || c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return v1beta1.PhaseFailed, cmp.Or(c.Reason, "DeploymentFailed"), c.Message
		}
	}
	return v1beta1.PhasePending, "Progressing", fmt.Sprintf("%d of %d pods are ready", d.Status.AvailableReplicas, want)
}
