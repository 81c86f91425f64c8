package translate

import (
	"github.com/toolhaven/toolhaven/api/v1beta1"
	"github.com/toolhaven/toolhaven/internal/credential"
	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// Entry returns what is wrong with an MCPServerEntry.
func Entry(o *v1beta1.MCPServerEntry, from *Resolved) []Problem {
	t := &translation{object: o, kind: v1beta1.KindMCPServerEntry, proxy: &v1beta1.ProxySpec{}, from: from, spec: &workload.Spec{}}
	x := &o.Spec
	if err := RemoteURL(x.RemoteURL, x.AllowPrivateEndpoint); err != nil {
		t.problem(v1beta1.ConditionValid, ReasonInvalid, "spec.remoteUrl: %v", err)
	}
	if h := x.HeaderForward; h != nil {
		for name, value := range h.AddPlaintextHeaders {
			if err := credential.CheckHeader(name, value); err != nil {
				t.problem(v1beta1.ConditionValid, ReasonInvalid, "spec.headerForward.addPlaintextHeaders: %v", err)
			}
		}
		for _, header := range h.AddHeadersFromSecret {
			if err := credential.CheckHeader(header.HeaderName, ""); err != nil {
				t.problem(v1beta1.ConditionValid, ReasonInvalid, "spec.headerForward.addHeadersFromSecret: %v", err)
			}
		}
	}
	if ref := x.GroupRef; ref != nil {
		usable(t, v1beta1.ConditionReferencesReady, "spec.groupRef", ref.Name, from.Group)
	}
	if b := x.CABundleRef; b != nil && b.ConfigMapRef != nil {
		if _, ok := from.ConfigMaps[b.ConfigMapRef.Name][b.ConfigMapRef.Key]; !ok {
			t.problem(v1beta1.ConditionReferencesReady, ReasonNotFound, "spec.caBundleRef: there is no ConfigMap %q with the key %q; create it", b.ConfigMapRef.Name, b.ConfigMapRef.Key)
		}
	}
	if ref := x.ExternalAuthConfigRef; ref != nil && usable(t, v1beta1.ConditionAuthReady, "spec.externalAuthConfigRef", ref.Name, from.ExternalAuth) {
		if from.ExternalAuth.Spec.Type == externalauth.TypeEmbeddedAuthServer {
			t.problem(v1beta1.ConditionAuthReady, ReasonWrongType, "spec.externalAuthConfigRef: MCPExternalAuthConfig %q is an authorization server, for clients; refer to how a gateway authenticates at the server", ref.Name)
		}
	}
	return t.problems
}
