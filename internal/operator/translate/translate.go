// Package translate turns a resource that declares a tool server, and the resources that it
// refers to, into what its pods run: a [render.Workload] with a workload.Spec.
//
// It is a pure function. What keeps a workload from running is a list of [Problem], each of
// one condition of the resource's status and with the field that is to be changed. A workload
// with problems is not rendered: nothing that cannot start is started.
package translate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/toolhaven/toolhaven/api/v1beta1"
	"github.com/toolhaven/toolhaven/internal/audit"
	"github.com/toolhaven/toolhaven/internal/operator/render"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// Problem keeps a workload from running.
type Problem struct {
	// Condition is the type of the condition that is False: one of package v1beta1.
	Condition string
	// Reason is one word for programs, and Message what a person can do.
	Reason, Message string
}

// Reasons of problems.
const (
	ReasonInvalid       = "Invalid"
	ReasonNotFound      = "NotFound"
	ReasonNotValid      = "ReferenceNotValid"
	ReasonWrongType     = "WrongType"
	ReasonUnsupported   = "TypeNotSupported"
	ReasonConflict      = "Conflict"
	ReasonNotDurable    = "NotDurable"
	ReasonManyUpstreams = "MultiUpstreamNotSupported"
	ReasonNoEntryPoint  = "EntryPointUnknown"
	ReasonRefused       = "Refused" // by the API server
)

// Resolved are the resources that a workload refers to, by the fields of the reference. One
// that is not there is nil.
type Resolved struct {
	OIDC                     *v1beta1.MCPOIDCConfig
	AuthServer, ExternalAuth *v1beta1.MCPExternalAuthConfig
	Authz                    *v1beta1.MCPAuthzConfig
	Tools                    *v1beta1.MCPToolConfig
	Telemetry                *v1beta1.MCPTelemetryConfig
	Webhooks                 *v1beta1.MCPWebhookConfig
	Group                    *v1beta1.MCPGroup
	// ConfigMaps are the contents of those that the resource, or one that it refers to, names.
	ConfigMaps map[string]map[string]string
}

// Options are the same for all workloads.
type Options struct {
	// GatewayImage has thv and thv-guest.
	GatewayImage string
	// EntryPoint is the program of a stdio server, from the configuration of its image; empty
	// if it is not known. The command of the resource replaces it.
	EntryPoint []string
	// EntryPointError is why it is not known.
	EntryPointError error
}

// translation is one resource on its way.
type translation struct {
	object   client.Object
	kind     string
	proxy    *v1beta1.ProxySpec
	from     *Resolved
	spec     *workload.Spec
	out      *render.Workload
	problems []Problem
}

func (t *translation) problem(condition, reason, format string, args ...any) {
	t.problems = append(t.problems, Problem{condition, reason, fmt.Sprintf(format, args...)})
}

// Server translates an MCPServer.
func Server(o *v1beta1.MCPServer, from *Resolved, opt Options) (*render.Workload, []Problem) {
	t := begin(o, v1beta1.KindMCPServer, &o.Spec.ProxySpec, from, opt)
	s, x := t.spec, &o.Spec
	s.Image, s.Source = x.Image, workload.Source{Kind: "image", Ref: x.Image}
	s.Transport = workload.Transport(cmp.Or(x.Transport, string(workload.Stdio)))
	var target int32
	if s.Transport != workload.Stdio {
		target = int32(render.ServerPort)
		if x.MCPPort != nil {
			target = *x.MCPPort
		}
		s.TargetHost, s.TargetPort = "127.0.0.1", int(target)
	} else if x.ProxyMode != "" {
		s.Proxy.Mode = x.ProxyMode
	}
	s.Proxy.Port = int(render.GatewayPort(t.out.ServicePort, target))
	server := &render.Server{Image: x.Image, Args: x.Args, EntryPoint: x.Command, Resources: x.Resources.Core()}
	if NeedsEntryPoint(o) {
		server.EntryPoint = opt.EntryPoint
		if len(server.EntryPoint) == 0 && opt.EntryPointError != nil {
			t.problem(v1beta1.ConditionValid, ReasonNoEntryPoint, "spec.command: the program of the image is not known: %v; give spec.command", opt.EntryPointError)
		}
	}
	t.out.Server = server
	t.environment(x, server)
	for _, v := range x.Volumes {
		server.Volumes = append(server.Volumes, corev1.Volume{Name: render.VolumePrefix + v.Name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: v.HostPath}}})
		server.Mounts = append(server.Mounts, corev1.VolumeMount{Name: render.VolumePrefix + v.Name, MountPath: v.MountPath, ReadOnly: v.ReadOnly})
		if err := workload.ValidMountTarget(v.MountPath); err != nil {
			t.problem(v1beta1.ConditionValid, ReasonInvalid, "spec.volumes[%s].mountPath: %v", v.Name, err)
		}
	}
	t.webhooks(x.WebhookConfigRef)
	t.rest()
	if p := x.PermissionProfile; p != nil && p.Name == "none" {
		t.out.NoEgress = true
		if s.Auth != nil || s.ExternalAuth != nil || s.Telemetry != nil && s.Telemetry.Endpoint != "" || s.Webhooks != nil {
			t.problem(v1beta1.ConditionValid, ReasonConflict, "spec.permissionProfile: the server shares a network with its gateway, and that connects to others (authentication, telemetry or webhooks); use the profile network")
		}
	}
	return t.done()
}

// NeedsEntryPoint reports whether the program of a server's image is to be given by Options. With
// pull secrets the pod finds it: nothing else has these.
func NeedsEntryPoint(o *v1beta1.MCPServer) bool {
	stdio := cmp.Or(o.Spec.Transport, string(workload.Stdio)) == string(workload.Stdio)
	return stdio && len(o.Spec.Command) == 0 && len(pullSecrets(&o.Spec.ProxySpec)) == 0
}

// pullSecrets are those of the pods, of resourceOverrides and of podTemplateSpec.
func pullSecrets(p *v1beta1.ProxySpec) []corev1.LocalObjectReference {
	var all []corev1.LocalObjectReference
	if o := p.ResourceOverrides; o != nil && o.ProxyDeployment != nil {
		for _, s := range o.ProxyDeployment.ImagePullSecrets {
			all = append(all, corev1.LocalObjectReference{Name: s.Name})
		}
	}
	var template corev1.PodTemplateSpec
	if raw := p.PodTemplateSpec; raw != nil && json.Unmarshal(raw.Raw, &template) == nil { // else it is refused later
		for _, s := range template.Spec.ImagePullSecrets {
			if s.Name != "" && !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	return all
}

// RemoteProxy translates an MCPRemoteProxy.
func RemoteProxy(o *v1beta1.MCPRemoteProxy, from *Resolved, opt Options) (*render.Workload, []Problem) {
	t := begin(o, v1beta1.KindMCPRemoteProxy, &o.Spec.ProxySpec, from, opt)
	s, x := t.spec, &o.Spec
	s.Source = workload.Source{Kind: "remote", Ref: x.RemoteURL}
	s.Transport = workload.Transport(cmp.Or(x.Transport, string(workload.StreamableHTTP)))
	s.Remote = &workload.Remote{URL: x.RemoteURL}
	s.Proxy.Port = int(render.GatewayPort(t.out.ServicePort, 0))
	if err := RemoteURL(x.RemoteURL, x.AllowPrivateEndpoint); err != nil {
		t.problem(v1beta1.ConditionValid, ReasonInvalid, "spec.remoteUrl: %v", err)
	}
	if h := x.HeaderForward; h != nil {
		s.Remote.Headers = h.AddPlaintextHeaders
		for _, header := range h.AddHeadersFromSecret {
			if header.ValueSecretRef == nil {
				continue
			}
			if s.Remote.SecretHeaders == nil {
				s.Remote.SecretHeaders = map[string]string{}
			}
			s.Remote.SecretHeaders[header.HeaderName] = secretRef(*header.ValueSecretRef)
		}
	}
	t.out.GatewayResources = x.Resources.Core()
	t.webhooks(x.WebhookConfigRef)
	t.rest()
	return t.done()
}

func begin(object client.Object, kind string, p *v1beta1.ProxySpec, from *Resolved, opt Options) *translation {
	yes := true
	t := &translation{object: object, kind: kind, proxy: p, from: from}
	name, namespace := object.GetName(), object.GetNamespace()
	service := render.ServiceName(kind, name)
	t.spec = &workload.Spec{
		Schema: workload.Schema, Name: name,
		Proxy: workload.Proxy{
			Host: "0.0.0.0", Mode: "streamable-http", EndpointPrefix: p.EndpointPrefix, TrustProxyHeaders: p.TrustProxyHeaders,
			AllowedHosts: append(render.ServiceHosts(service, namespace), p.AllowedHosts...),
		},
	}
	t.out = &render.Workload{
		Owner: metav1.OwnerReference{
			APIVersion: v1beta1.GroupVersion.String(), Kind: kind, Name: name, UID: object.GetUID(), Controller: &yes, BlockOwnerDeletion: &yes,
		},
		Name: name, Namespace: namespace, Spec: t.spec, GatewayImage: opt.GatewayImage,
		ServicePort: cmp.Or(p.ProxyPort, 8080), Replicas: p.Replicas, SessionAffinity: corev1.ServiceAffinity(p.SessionAffinity),
		ServiceAccount: p.ServiceAccount, Template: p.PodTemplateSpec, ImagePullSecrets: pullSecrets(p),
	}
	if o := p.ResourceOverrides; o != nil {
		if d := o.ProxyDeployment; d != nil {
			t.out.DeploymentMeta = metadata(&d.MetadataOverrides)
			t.out.PodMeta = metadata(d.PodTemplateMetadataOverrides)
		}
		t.out.ServiceMeta = metadata(o.ProxyService)
	}
	return t
}

func metadata(m *v1beta1.MetadataOverrides) render.Metadata {
	if m == nil {
		return render.Metadata{}
	}
	return render.Metadata{Labels: m.Labels, Annotations: m.Annotations}
}

// environment are the server's variables.
func (t *translation) environment(x *v1beta1.MCPServerSpec, server *render.Server) {
	seen := map[string]bool{}
	add := func(field string, v corev1.EnvVar) {
		if err := workload.ValidEnvName(v.Name); err != nil {
			t.problem(v1beta1.ConditionValid, ReasonInvalid, "%s: %v", field, err)
		} else if seen[v.Name] {
			t.problem(v1beta1.ConditionValid, ReasonConflict, "%s: the variable %s is set twice", field, v.Name)
		}
		seen[v.Name] = true
		server.Env = append(server.Env, v)
	}
	for _, v := range x.Env {
		add("spec.env["+v.Name+"]", corev1.EnvVar{Name: v.Name, Value: v.Value})
	}
	for _, v := range x.Secrets {
		add("spec.secrets["+v.Name+"]", corev1.EnvVar{Name: v.Variable(), ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: v.Name}, Key: v.Key,
		}}})
	}
}

// rest is what all kinds have in common.
func (t *translation) rest() {
	t.authentication()
	t.policy()
	p := t.proxy
	if p.Audit != nil && p.Audit.Enabled {
		t.spec.Audit = &audit.Config{Enabled: &p.Audit.Enabled}
	}
	if ref := p.ToolConfigRef; ref != nil {
		if usable(t, v1beta1.ConditionReferencesReady, "spec.toolConfigRef", ref.Name, t.from.Tools) {
			t.spec.Tools = Tools(t.from.Tools)
		}
	}
	if ref := p.TelemetryConfigRef; ref != nil {
		if usable(t, v1beta1.ConditionReferencesReady, "spec.telemetryConfigRef", ref.Name, t.from.Telemetry) {
			t.spec.Telemetry, _ = Telemetry(t.from.Telemetry)
			if t.spec.Telemetry != nil {
				t.spec.Telemetry.ServiceName = ref.ServiceName
			}
		}
	}
	if ref := p.GroupRef; ref != nil {
		if usable(t, v1beta1.ConditionReferencesReady, "spec.groupRef", ref.Name, t.from.Group) {
			t.spec.Group = ref.Name
		}
	}
	t.bundles()
}

func (t *translation) webhooks(ref *v1beta1.NameRef) {
	if ref == nil {
		return
	}
	if usable(t, v1beta1.ConditionReferencesReady, "spec.webhookConfigRef", ref.Name, t.from.Webhooks) {
		t.spec.Webhooks, _ = Webhooks(t.from.Webhooks)
	}
}

// resource is a pointer to a resource that may be referred to.
type resource interface {
	comparable
	client.Object
}

// usable reports whether a resource that a field refers to is there and valid.
func usable[T resource](t *translation, condition, field, name string, o T) bool {
	var none T
	if o == none {
		t.problem(condition, ReasonNotFound, "%s: there is no %s %q in this namespace; create it", field, kindOf(o), name)
		return false
	}
	if err := Config(o); err != nil {
		t.problem(condition, ReasonNotValid, "%s: %s %q is not valid: %s", field, kindOf(o), name, oneLine(err))
		return false
	}
	return true
}

func kindOf(o client.Object) string {
	name := fmt.Sprintf("%T", o)
	return name[strings.LastIndexByte(name, '.')+1:]
}

// oneLine is an error for a condition's message.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// policy authorizes requests.
func (t *translation) policy() {
	p := t.proxy
	switch {
	case p.AuthzConfig != nil && p.AuthzConfigRef != nil:
		t.problem(v1beta1.ConditionValid, ReasonConflict, "spec: authzConfig and authzConfigRef exclude each other")
	case p.AuthzConfigRef != nil:
		if usable(t, v1beta1.ConditionReferencesReady, "spec.authzConfigRef", p.AuthzConfigRef.Name, t.from.Authz) {
			t.spec.Policy, _ = Authz(t.from.Authz)
		}
	case p.AuthzConfig != nil:
		var content string
		if m := p.AuthzConfig.ConfigMap; m != nil {
			key := cmp.Or(m.Key, "authz.json")
			var ok bool
			if content, ok = t.from.ConfigMaps[m.Name][key]; !ok {
				t.problem(v1beta1.ConditionReferencesReady, ReasonNotFound, "spec.authzConfig.configMap: there is no ConfigMap %q with the key %q; create it", m.Name, key)
				return
			}
		} else if p.AuthzConfig.Inline == nil {
			t.problem(v1beta1.ConditionValid, ReasonInvalid, "spec.authzConfig: give configMap or inline")
			return
		}
		config, err := inlinePolicy(p.AuthzConfig, content)
		if err != nil {
			t.problem(v1beta1.ConditionValid, ReasonInvalid, "%s", oneLine(err))
			return
		}
		t.spec.Policy = config
	}
}

// bundles mounts the authorities. The gateway has one file of them.
func (t *translation) bundles() {
	type bundle struct {
		field string
		ref   *v1beta1.CABundleRef
	}
	all := []bundle{{"spec.caBundleRef", t.proxy.CABundleRef}}
	if o := t.from.OIDC; o != nil && o.Spec.Inline != nil {
		all = append(all, bundle{"spec.oidcConfigRef", o.Spec.Inline.CABundleRef})
	}
	if o := t.from.Telemetry; o != nil && o.Spec.OpenTelemetry != nil {
		all = append(all, bundle{"spec.telemetryConfigRef", o.Spec.OpenTelemetry.CABundleRef})
	}
	for _, b := range all {
		path := bundlePath(b.ref)
		if path == "" {
			continue
		}
		ref := b.ref.ConfigMapRef
		if _, ok := t.from.ConfigMaps[ref.Name][ref.Key]; !ok {
			t.problem(v1beta1.ConditionReferencesReady, ReasonNotFound, "%s: there is no ConfigMap %q with the key %q for the authorities; create it", b.field, ref.Name, ref.Key)
			continue
		}
		if t.spec.CABundle != "" && t.spec.CABundle != path {
			t.problem(v1beta1.ConditionValid, ReasonConflict, "%s: the gateway has one bundle of authorities; put all of them in one ConfigMap", b.field)
			continue
		}
		t.spec.CABundle = path
		if t.out.ConfigMaps == nil {
			t.out.ConfigMaps = map[string][]string{}
		}
		t.out.ConfigMaps[ref.Name] = append(t.out.ConfigMaps[ref.Name], ref.Key)
	}
	if o := t.from.OIDC; t.proxy.OIDCConfigRef != nil && o != nil && clusterAuth(o) {
		t.out.ClusterAuth = true
		if t.spec.CABundle != "" {
			t.problem(v1beta1.ConditionValid, ReasonConflict, "spec.caBundleRef: the API server is verified by the cluster's own authority, and the gateway has one bundle; set useClusterAuth of MCPOIDCConfig %q to false", o.Name)
		}
		t.spec.CABundle = render.ClusterCA
	}
}

// done checks the whole and gathers the secrets.
func (t *translation) done() (*render.Workload, []Problem) {
	if t.kind == v1beta1.KindMCPServer && t.spec.TargetPort == render.PeerPort {
		t.problem(v1beta1.ConditionValid, ReasonInvalid, "spec.mcpPort: port %d is the gateway's own; choose another one", render.PeerPort)
	}
	if len(t.problems) == 0 {
		if err := workload.Validate(t.spec); err != nil {
			condition := v1beta1.ConditionValid
			if strings.Contains(err.Error(), "--auth") {
				condition = v1beta1.ConditionAuthReady
			}
			t.problem(condition, ReasonInvalid, "%s", strings.ReplaceAll(oneLine(err), "--auth: ", ""))
		}
	}
	t.secrets()
	if len(t.problems) > 0 {
		return nil, t.problems
	}
	return t.out, nil
}

// secrets are the keys that the gateway has as files.
func (t *translation) secrets() {
	refs := t.spec.SecretRefs()
	for _, hooks := range t.hooks() {
		for _, hook := range hooks {
			paths := []string{hook.HMACSecretRef}
			if hook.TLS != nil {
				paths = append(paths, hook.TLS.CABundlePath, hook.TLS.ClientCertPath, hook.TLS.ClientKeyPath)
			}
			for _, path := range paths {
				if rest, ok := strings.CutPrefix(path, render.SecretsDir+"/"); ok {
					refs = append(refs, "secret/"+rest)
				}
			}
		}
	}
	for _, ref := range refs {
		name, key, ok := strings.Cut(strings.TrimPrefix(ref, "secret/"), "/")
		if !ok {
			continue
		}
		if t.out.Secrets == nil {
			t.out.Secrets = map[string][]string{}
		}
		if !slices.Contains(t.out.Secrets[name], key) {
			t.out.Secrets[name] = append(t.out.Secrets[name], key)
		}
	}
}

var errNotRemote = errors.New("it is not an http(s) URL without user information and fragment")
