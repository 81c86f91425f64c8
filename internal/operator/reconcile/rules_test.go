//go:build unix && integration

package reconcile_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/toolhaven/toolhaven/api/v1beta1"
	"github.com/toolhaven/toolhaven/internal/credential/aws"
	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/internal/externalauth/externalauthtest"
)

// A resource that the schema accepts, and that comes in although no webhook runs, is Valid as
// `thv auth check` decides, and the condition has the same message.
func TestRules(t *testing.T) {
	w := newWorld(t)
	w.start(-1)
	type stored struct {
		rule   externalauthtest.Rule
		object *v1beta1.MCPExternalAuthConfig
	}
	var all []stored
	for _, rule := range slices.Concat(externalauthtest.Rules(), externalauthtest.Matchers()) {
		o := &unstructured.Unstructured{}
		if strings.Contains(rule.Text, "---") || yaml.Unmarshal([]byte(rule.Text), &o.Object) != nil || o.GetKind() != externalauth.Kind {
			continue // about files
		}
		name := fmt.Sprintf("r%d", len(all))
		o.SetName(name)
		o.SetNamespace(w.namespace)
		err := w.client.Create(t.Context(), o, client.FieldValidation("Strict"))
		switch {
		case err == nil:
			all = append(all, stored{rule, &v1beta1.MCPExternalAuthConfig{ObjectMeta: named(name)}})
		case rule.Want == "" || !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err):
			t.Errorf("%.2000s\n%v", rule.Text, err)
		}
	}
	for _, c := range all {
		o := c.object
		w.until(o, func() string {
			if o.Status.ObservedGeneration != o.Generation {
				return "it was not looked at"
			}
			return ""
		})
		var faults externalauth.Faults
		_ = errors.As(aws.Validate(&o.Spec), &faults)
		got, message := condition(o.Status.Conditions, "Valid"), messageOf(o.Status.Conditions, "Valid")
		if c.rule.Want == "" && got != "True Valid" || c.rule.Want != "" && got != "False Invalid" {
			t.Errorf("%.2000s\nthe reconciler: %s: %s\nwant %q", c.rule.Text, got, message, c.rule.Want)
		}
		for _, fault := range faults {
			if !strings.Contains(message, fault.Error()) {
				t.Errorf("%.2000s\nthe message is %q\nwant %q", c.rule.Text, message, fault)
			}
		}
	}
}

func messageOf(conditions []metav1.Condition, typ string) string {
	for _, c := range conditions {
		if c.Type == typ {
			return c.Message
		}
	}
	return ""
}

// An edit that is not valid, of every kind: the status is about the new generation, names the
// field, and is about a valid one again after the next edit.
func TestInvalidEdits(t *testing.T) {
	w := newWorld(t)
	w.start(-1)
	w.create(&v1beta1.MCPGroup{ObjectMeta: named("g")})
	for _, row := range []struct {
		kind, spec string
		broken     string // a merge patch
		condition  string
		want       string // in the message
	}{
		{"MCPExternalAuthConfig", "{type: headerInjection, headerInjection: {headerName: X-A, valueSecretRef: {name: s, key: k}}}", `{"headerInjection":{"headerName":"Host"}}`, "Valid", "spec.headerInjection.headerName"},
		{"MCPOIDCConfig", "{type: inline, inline: {issuer: 'https://a.example'}}", `{"inline":{"issuer":"http://a.example"}}`, "Valid", "http"},
		{"MCPToolConfig", "{toolsOverride: {a: {name: b}}}", `{"toolsOverride":{"a":{"name":null}}}`, "Valid", "neither a name nor a description"},
		{"MCPTelemetryConfig", "{openTelemetry: {enabled: true, endpoint: 'https://a.example', tracing: {enabled: true}}}", `{"openTelemetry":{"endpoint":"http://a.example"}}`, "Valid", "plain HTTP"},
		{"MCPAuthzConfig", "{type: cedarv1, config: {policies: ['permit (principal, action, resource);']}}", `{"config":{"policies":["permit"]}}`, "Valid", "policy 1"},
		{"MCPWebhookConfig", "{validating: [{name: a, url: 'https://a.example'}]}", `{"validating":[{"name":"a","url":"http://a.example"}]}`, "Valid", "url"},
		{"MCPServer", "{image: a, transport: sse}", `{"podTemplateSpec":{"spec":{"hostNetwork":true}}}`, "PodTemplateValid", "spec.podTemplateSpec.spec.hostNetwork"},
		{"MCPServer", "{image: a, transport: sse}", `{"resourceOverrides":{"proxyDeployment":{"labels":{"a b":"c"}}}}`, "Valid", "spec.resourceOverrides.proxyDeployment.labels"},
		{"MCPRemoteProxy", "{remoteUrl: 'https://a.example/mcp'}", `{"remoteUrl":"https://127.0.0.1/mcp"}`, "Valid", "spec.remoteUrl"},
		{"MCPServerEntry", "{remoteUrl: 'https://a.example/mcp', transport: sse, groupRef: {name: g}}", `{"remoteUrl":"https://10.0.0.1/mcp"}`, "Valid", "spec.remoteUrl"},
		{"VirtualMCPServer", "{groupRef: {name: g}, incomingAuth: {type: anonymous}, authServerConfig: {issuer: 'https://a.example', upstreamProviders: [{name: a, type: oidc, oidcConfig: {issuerUrl: 'https://i.example', clientId: c}}]}}", `{"authServerConfig":{"issuer":"http://a.example"}}`, "AuthReady", "issuer"},
	} {
		t.Run(row.kind+" "+row.condition, func(t *testing.T) {
			w := &world{t, w.cluster, w.client, w.namespace}
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "toolhaven.dev/v1beta1", "kind": row.kind}}
			var spec map[string]any
			if err := yaml.Unmarshal([]byte(row.spec), &spec); err != nil {
				t.Fatal(err)
			}
			o.Object["spec"] = spec
			o.SetName("o" + fmt.Sprint(len(row.broken)))
			w.create(o)
			hash := ""
			observed := func(want string) func() string {
				return func() string {
					got, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
					if got != o.GetGeneration() {
						return fmt.Sprintf("observedGeneration is %d of %d", got, o.GetGeneration())
					}
					var status struct{ Status v1beta1.ConfigStatus }
					text, err := yaml.Marshal(o.Object)
					if err != nil || yaml.Unmarshal(text, &status) != nil {
						return "it has no status"
					}
					for _, c := range status.Status.Conditions {
						if c.Type != row.condition {
							continue
						}
						switch {
						case string(c.Status) != want:
							return fmt.Sprintf("%s is %s: %s", c.Type, c.Status, c.Message)
						case c.ObservedGeneration != o.GetGeneration():
							return "the condition is of another generation"
						case want == "False" && !strings.Contains(c.Message, row.want):
							return fmt.Sprintf("the message is %q, without %q", c.Message, row.want)
						}
						if h := status.Status.ConfigHash; h != "" && h == hash {
							return "configHash is that of the generation before"
						}
						hash = status.Status.ConfigHash
						return ""
					}
					if row.condition == "PodTemplateValid" && want == "True" {
						return "" // there is no template
					}
					return "there is no condition " + row.condition
				}
			}
			w.until(o, observed("True"))
			before := o.DeepCopy()
			patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":`+row.broken+`}`))
			if err := w.client.Patch(t.Context(), o, patch); err != nil {
				t.Fatal(err)
			}
			w.until(o, observed("False"))
			o.Object["spec"] = before.Object["spec"]
			if err := w.client.Update(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			w.until(o, observed("True"))
		})
	}
}
