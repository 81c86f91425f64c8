package reconcile

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/toolhaven/toolhaven/api/v1beta1"
	"github.com/toolhaven/toolhaven/internal/operator/references"
	"github.com/toolhaven/toolhaven/internal/operator/translate"
)

// resolver reads what workloads refer to.
type resolver struct {
	client client.Reader // the cache, in which ConfigMaps of others have no content
	direct client.Reader

	mu      sync.Mutex
	content map[types.NamespacedName]configMap
}

// configMap is the content of a ConfigMap as of a version.
type configMap struct {
	version string
	data    map[string]string
}

// get reads a resource that is referred to; into stays nil when it is not there.
func get[T any, P interface {
	*T
	client.Object
}](ctx context.Context, r *resolver, namespace, name string, into *P) error {
	if name == "" {
		return nil
	}
	o := P(new(T))
	err := r.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, o)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %T %s: %w", o, name, err)
	}
	*into = o
	return nil
}

func nameOf(ref *v1beta1.NameRef) string {
	if ref == nil {
		return ""
	}
	return ref.Name
}

// resolve reads the resources to which a workload refers.
func (r *resolver) resolve(ctx context.Context, o client.Object, p *v1beta1.ProxySpec, webhooks *v1beta1.NameRef) (*translate.Resolved, error) {
	ns, out := o.GetNamespace(), &translate.Resolved{}
	var oidc, authServer, telemetry string
	if p.OIDCConfigRef != nil {
		oidc = p.OIDCConfigRef.Name
	}
	if p.AuthServerRef != nil {
		authServer = p.AuthServerRef.Name
	}
	if p.TelemetryConfigRef != nil {
		telemetry = p.TelemetryConfigRef.Name
	}
	for _, read := range []func() error{
		func() error { return get(ctx, r, ns, oidc, &out.OIDC) },
		func() error { return get(ctx, r, ns, authServer, &out.AuthServer) },
		func() error { return get(ctx, r, ns, nameOf(p.ExternalAuthConfigRef), &out.ExternalAuth) },
		func() error { return get(ctx, r, ns, nameOf(p.AuthzConfigRef), &out.Authz) },
		func() error { return get(ctx, r, ns, nameOf(p.ToolConfigRef), &out.Tools) },
		func() error { return get(ctx, r, ns, telemetry, &out.Telemetry) },
		func() error { return get(ctx, r, ns, nameOf(webhooks), &out.Webhooks) },
		func() error { return get(ctx, r, ns, nameOf(p.GroupRef), &out.Group) },
	} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	from := references.Of(o)
	if out.OIDC != nil {
		from = append(from, references.Of(out.OIDC)...)
	}
	if out.Telemetry != nil {
		from = append(from, references.Of(out.Telemetry)...)
	}
	for _, ref := range from {
		if ref.Kind != references.KindConfigMap {
			continue
		}
		data, err := r.configMap(ctx, types.NamespacedName{Namespace: ns, Name: ref.Name})
		if err != nil {
			return nil, err
		}
		if data == nil {
			continue
		}
		if out.ConfigMaps == nil {
			out.ConfigMaps = map[string]map[string]string{}
		}
		out.ConfigMaps[ref.Name] = data
	}
	return out, nil
}

// configMap returns the content of a ConfigMap; nil when it is not there. It is read from the
// API server when its version has changed.
func (r *resolver) configMap(ctx context.Context, key types.NamespacedName) (map[string]string, error) {
	var seen corev1.ConfigMap
	err := r.client.Get(ctx, key, &seen)
	r.mu.Lock()
	defer r.mu.Unlock()
	if apierrors.IsNotFound(err) {
		delete(r.content, key)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the ConfigMap %s: %w", key, err)
	}
	if known, ok := r.content[key]; ok && known.version == seen.ResourceVersion {
		return known.data, nil
	}
	var whole corev1.ConfigMap
	if err := r.direct.Get(ctx, key, &whole); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read the ConfigMap %s: %w", key, err)
	}
	if whole.Data == nil {
		whole.Data = map[string]string{}
	}
	if r.content == nil {
		r.content = map[types.NamespacedName]configMap{}
	}
	r.content[key] = configMap{whole.ResourceVersion, whole.Data}
	return whole.Data, nil
}
