//go:build unix && integration

package reconcile_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/toolhaven/toolhaven/api/v1beta1"
)

// Every field of a server that refers to something: while that is only in another namespace, the
// server has a condition that names it, and nothing runs; when it comes, the server does. Where
// a key is named, an object without it is the same as none.
func TestEveryReference(t *testing.T) {
	w := newWorld(t)
	w.start(-1)
	elsewhere := w.cluster.Namespace(t)
	for field, row := range map[string]struct {
		kind, content string // content is spec, or data of a ConfigMap
		condition     string
		refer         func(s *v1beta1.MCPServer, name string)
	}{
		"oidcConfigRef": {kind: "MCPOIDCConfig", content: "{type: inline, inline: {issuer: 'https://i.example'}}", condition: "AuthReady", refer: func(s *v1beta1.MCPServer, name string) {
			s.Spec.OIDCConfigRef = &v1beta1.OIDCConfigRef{Name: name, Audience: "a"}
		}},
		"authServerRef": {kind: "MCPExternalAuthConfig", content: "{type: embeddedAuthServer, embeddedAuthServer: {issuer: 'https://a.example', upstreamProviders: [{name: a, type: oidc, oidcConfig: {issuerUrl: 'https://i.example', clientId: c}}]}}", condition: "AuthReady", refer: func(s *v1beta1.MCPServer, name string) {
			s.Spec.AuthServerRef, s.Spec.Replicas = &v1beta1.AuthServerRef{Name: name}, ptr.To[int32](1)
		}},
		"externalAuthConfigRef": {kind: "MCPExternalAuthConfig", content: "{type: unauthenticated}", condition: "AuthReady", refer: func(s *v1beta1.MCPServer, name string) { s.Spec.ExternalAuthConfigRef = to(name) }},
		"authzConfigRef": {kind: "MCPAuthzConfig", content: "{type: cedarv1, config: {policies: ['permit (principal, action, resource);']}}", condition: "ReferencesReady", refer: func(s *v1beta1.MCPServer, name string) {
			s.Spec.AuthzConfigRef = to(name)
		}},
		"toolConfigRef": {kind: "MCPToolConfig", content: "{toolsFilter: [a]}", condition: "ReferencesReady", refer: func(s *v1beta1.MCPServer, name string) { s.Spec.ToolConfigRef = to(name) }},
		"telemetryConfigRef": {kind: "MCPTelemetryConfig", content: "{openTelemetry: {enabled: true, endpoint: 'https://a.example:4318', tracing: {enabled: true}}}", condition: "ReferencesReady", refer: func(s *v1beta1.MCPServer, name string) {
			s.Spec.TelemetryConfigRef = &v1beta1.TelemetryConfigRef{Name: name}
		}},
		"webhookConfigRef": {kind: "MCPWebhookConfig", content: "{validating: [{name: a, url: 'https://a.example'}]}", condition: "ReferencesReady", refer: func(s *v1beta1.MCPServer, name string) { s.Spec.WebhookConfigRef = to(name) }},
		"groupRef":         {kind: "MCPGroup", content: "{}", condition: "ReferencesReady", refer: func(s *v1beta1.MCPServer, name string) { s.Spec.GroupRef = to(name) }},
		"authzConfig": {kind: "ConfigMap", content: `{authz.json: '{"version":"1.0","type":"cedarv1","cedar":{"policies":["permit(principal, action, resource);"]}}'}`, condition: "ReferencesReady", refer: func(s *v1beta1.MCPServer, name string) {
			s.Spec.AuthzConfig = &v1beta1.AuthzConfig{Type: "configMap", ConfigMap: &v1beta1.AuthzConfigMap{Name: name}}
		}},
	} {
		t.Run(field, func(t *testing.T) {
			w := &world{t, w.cluster, w.client, w.namespace}
			name := strings.ToLower(field)
			object := func(namespace string) *unstructured.Unstructured {
				o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1beta1.GroupVersion.String(), "kind": row.kind}}
				var content map[string]any
				if err := yaml.Unmarshal([]byte(row.content), &content); err != nil {
					t.Fatal(err)
				}
				if row.kind == "ConfigMap" {
					o.Object["apiVersion"], o.Object["data"] = "v1", content
				} else {
					o.Object["spec"] = content
				}
				o.SetName(name)
				o.SetNamespace(namespace)
				return o
			}
			if err := w.client.Create(t.Context(), object(elsewhere)); err != nil {
				t.Fatal(err)
			}
			s := server(name)
			row.refer(s, name)
			w.create(s)
			missing := func() {
				t.Helper()
				w.until(s, func() string {
					if message := messageOf(s.Status.Conditions, row.condition); !strings.Contains(message, field) || !strings.Contains(message, name) {
						return fmt.Sprintf("the message is %q, and does not name the field %s or %s", message, field, name)
					}
					return want(condition(s.Status.Conditions, row.condition)+" "+string(s.Status.Phase), "False NotFound Failed")
				})
				if err := w.client.Get(t.Context(), key(w.namespace, s), &appsv1.Deployment{}); err == nil {
					t.Error("there is a Deployment")
				}
			}
			missing()
			if row.kind == "ConfigMap" {
				empty := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.namespace}}
				if err := w.client.Create(t.Context(), empty); err != nil {
					t.Fatal(err)
				}
				missing()
				w.delete(empty)
			}
			if err := w.client.Create(t.Context(), object(w.namespace)); err != nil {
				t.Fatal(err)
			}
			w.until(s, func() string { return want(condition(s.Status.Conditions, row.condition), "True "+row.condition) })
			w.until(&appsv1.Deployment{ObjectMeta: named(name)}, func() string { return "" })
		})
	}
}
