// Package references knows which resource refers to which.
//
// [Of] is the one list of the fields that refer to another resource of the group. The field
// index, the watches, the lists in status and the protection from deletion all use it, so
// that none of them can forget a field.
package references

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/toolhaven/toolhaven/api/v1beta1"
)

// Index is the field index of every kind that refers to another one. Its values are those of
// [Ref.String].
const Index = "references"

// Ref is a resource that is referred to, of the same namespace as the referrer.
type Ref struct{ Kind, Name string }

// String is KIND/NAME.
func (r Ref) String() string { return r.Kind + "/" + r.Name }

// KindConfigMap is the kind of a Ref to a ConfigMap, the only one outside the group.
const KindConfigMap = "ConfigMap"

// Of returns what an object refers to, each once, sorted. Secrets are not among it: the
// operator has no right to see them.
func Of(object client.Object) []Ref {
	c := collector{}
	switch o := object.(type) {
	case *v1beta1.MCPServer:
		c.proxy(&o.Spec.ProxySpec)
		c.name(v1beta1.KindMCPWebhookConfig, o.Spec.WebhookConfigRef)
	case *v1beta1.MCPRemoteProxy:
		c.proxy(&o.Spec.ProxySpec)
		c.name(v1beta1.KindMCPWebhookConfig, o.Spec.WebhookConfigRef)
	case *v1beta1.MCPServerEntry:
		c.name(v1beta1.KindMCPGroup, o.Spec.GroupRef)
		c.name(v1beta1.KindMCPExternalAuthConfig, o.Spec.ExternalAuthConfigRef)
		c.bundle(o.Spec.CABundleRef)
	case *v1beta1.VirtualMCPServer:
		c.virtual(o)
	case *v1beta1.MCPOIDCConfig:
		if o.Spec.Inline != nil {
			c.bundle(o.Spec.Inline.CABundleRef)
		}
	case *v1beta1.MCPTelemetryConfig:
		if o.Spec.OpenTelemetry != nil {
			c.bundle(o.Spec.OpenTelemetry.CABundleRef)
		}
	}
	slices.SortFunc(c, func(a, b Ref) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	return slices.Compact(c)
}

type collector []Ref

func (c *collector) add(kind, name string) {
	if name != "" {
		*c = append(*c, Ref{kind, name})
	}
}

func (c *collector) name(kind string, ref *v1beta1.NameRef) {
	if ref != nil {
		c.add(kind, ref.Name)
	}
}

func (c *collector) bundle(ref *v1beta1.CABundleRef) {
	if ref != nil && ref.ConfigMapRef != nil {
		c.add(KindConfigMap, ref.ConfigMapRef.Name)
	}
}

func (c *collector) oidc(ref *v1beta1.OIDCConfigRef) {
	if ref != nil {
		c.add(v1beta1.KindMCPOIDCConfig, ref.Name)
	}
}

func (c *collector) telemetry(ref *v1beta1.TelemetryConfigRef) {
	if ref != nil {
		c.add(v1beta1.KindMCPTelemetryConfig, ref.Name)
	}
}

func (c *collector) authz(inline *v1beta1.AuthzConfig, ref *v1beta1.NameRef) {
	if inline != nil && inline.ConfigMap != nil {
		c.add(KindConfigMap, inline.ConfigMap.Name)
	}
	c.name(v1beta1.KindMCPAuthzConfig, ref)
}

func (c *collector) proxy(p *v1beta1.ProxySpec) {
	c.oidc(p.OIDCConfigRef)
	if p.AuthServerRef != nil {
		c.add(v1beta1.KindMCPExternalAuthConfig, p.AuthServerRef.Name)
	}
	c.name(v1beta1.KindMCPExternalAuthConfig, p.ExternalAuthConfigRef)
	c.authz(p.AuthzConfig, p.AuthzConfigRef)
	c.bundle(p.CABundleRef)
	c.name(v1beta1.KindMCPToolConfig, p.ToolConfigRef)
	c.telemetry(p.TelemetryConfigRef)
	c.name(v1beta1.KindMCPGroup, p.GroupRef)
}

// virtual includes what the virtual server found at its backends: it uses these resources.
func (c *collector) virtual(o *v1beta1.VirtualMCPServer) {
	c.name(v1beta1.KindMCPGroup, o.Spec.GroupRef)
	c.telemetry(o.Spec.TelemetryConfigRef)
	if in := o.Spec.IncomingAuth; in != nil {
		c.oidc(in.OIDCConfigRef)
		c.authz(in.AuthzConfig, in.AuthzConfigRef)
	}
	if out := o.Spec.OutgoingAuth; out != nil {
		if out.Default != nil {
			c.name(v1beta1.KindMCPExternalAuthConfig, out.Default.ExternalAuthConfigRef)
		}
		for _, backend := range out.Backends {
			c.name(v1beta1.KindMCPExternalAuthConfig, backend.ExternalAuthConfigRef)
		}
	}
	for _, backend := range o.Status.DiscoveredBackends {
		c.add(v1beta1.KindMCPExternalAuthConfig, backend.AuthConfigRef)
	}
}

// Values are those of [Index].
func Values(object client.Object) []string {
	refs := Of(object)
	values := make([]string, len(refs))
	for i, ref := range refs {
		values[i] = ref.String()
	}
	return values
}

// Referrers returns an empty list of each kind that may refer to resources of the kind.
func Referrers(kind string) []client.ObjectList {
	workloads := []client.ObjectList{&v1beta1.MCPRemoteProxyList{}, &v1beta1.MCPServerList{}, &v1beta1.MCPServerEntryList{}, &v1beta1.VirtualMCPServerList{}}
	if kind == KindConfigMap {
		return append(workloads, &v1beta1.MCPOIDCConfigList{}, &v1beta1.MCPTelemetryConfigList{})
	}
	return workloads
}

// Kinds are the kinds that refer to others.
func Kinds() []client.Object {
	return []client.Object{
		&v1beta1.MCPRemoteProxy{}, &v1beta1.MCPServer{}, &v1beta1.MCPServerEntry{}, &v1beta1.VirtualMCPServer{}, &v1beta1.MCPOIDCConfig{}, &v1beta1.MCPTelemetryConfig{},
	}
}

// To returns the objects that refer to ref, sorted by kind and name. reader has [Index].
func To(ctx context.Context, reader client.Reader, namespace string, ref Ref) ([]Referrer, error) {
	var all []Referrer
	for _, list := range Referrers(ref.Kind) {
		if err := reader.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{Index: ref.String()}); err != nil {
			return nil, fmt.Errorf("list what refers to %s %s: %w", ref.Kind, ref.Name, err)
		}
		all = append(all, names(list)...)
	}
	slices.SortFunc(all, func(a, b Referrer) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	return all, nil
}

// Referrer is an object that refers to another one.
type Referrer = v1beta1.Referrer

func names(list client.ObjectList) []Referrer {
	var all []Referrer
	add := func(kind string, o metav1.Object) {
		all = append(all, Referrer{Kind: kind, Name: o.GetName()})
	}
	switch l := list.(type) {
	case *v1beta1.MCPRemoteProxyList:
		for i := range l.Items {
			add(v1beta1.KindMCPRemoteProxy, &l.Items[i])
		}
	case *v1beta1.MCPServerList:
		for i := range l.Items {
			add(v1beta1.KindMCPServer, &l.Items[i])
		}
	case *v1beta1.MCPServerEntryList:
		for i := range l.Items {
			add(v1beta1.KindMCPServerEntry, &l.Items[i])
		}
	case *v1beta1.VirtualMCPServerList:
		for i := range l.Items {
			add(v1beta1.KindVirtualMCPServer, &l.Items[i])
		}
	case *v1beta1.MCPOIDCConfigList:
		for i := range l.Items {
			add(v1beta1.KindMCPOIDCConfig, &l.Items[i])
		}
	case *v1beta1.MCPTelemetryConfigList:
		for i := range l.Items {
			add(v1beta1.KindMCPTelemetryConfig, &l.Items[i])
		}
	}
	return all
}
