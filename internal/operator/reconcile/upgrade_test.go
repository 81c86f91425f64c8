//go:build unix && integration

package reconcile_test

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/toolhaven/toolhaven/api/v1beta1"
)

// olderResources are accepted by the older definitions. Two of them the present ones refuse: a
// port that became the gateway's own, and a matcher that is too long.
func olderResources() string {
	return `
apiVersion: toolhaven.dev/v1beta1
kind: MCPExternalAuthConfig
metadata: {name: header, labels: {team: a}}
spec: {type: headerInjection, headerInjection: {headerName: X-Key, valueSecretRef: {name: keys, key: x}}}
---
apiVersion: toolhaven.dev/v1beta1
kind: MCPExternalAuthConfig
metadata: {name: aws}
spec: {type: awsSts, awsSts: {region: eu-central-1, fallbackRoleArn: 'arn:aws:iam::123456789012:role/r'}}
---
apiVersion: toolhaven.dev/v1beta1
kind: MCPExternalAuthConfig
metadata: {name: long}
spec:
  type: awsSts
  awsSts:
    region: eu-central-1
    roleMappings:
    - {roleArn: 'arn:aws:iam::123456789012:role/r', priority: 1, matcher: '` + strings.Repeat("true && ", 600) + `true'}
---
apiVersion: toolhaven.dev/v1beta1
kind: MCPServer
metadata: {name: server, annotations: {note: mine}}
spec:
  image: example.com/server:1
  transport: streamable-http
  mcpPort: 3000
  replicas: 2
  env: [{name: A, value: b}]
  secrets: [{name: s, key: B}]
  externalAuthConfigRef: {name: header}
  authzConfig: {type: inline, inline: {policies: ['permit (principal, action, resource);']}}
  podTemplateSpec: {spec: {nodeSelector: {disk: ssd}}}
---
apiVersion: toolhaven.dev/v1beta1
kind: MCPOIDCConfig
metadata: {name: issuer}
spec: {type: inline, inline: {issuer: 'https://i.example'}}
---
apiVersion: toolhaven.dev/v1beta1
kind: MCPRemoteProxy
metadata: {name: remote}
spec:
  remoteUrl: https://mcp.example/mcp
  externalAuthConfigRef: {name: aws}
  oidcConfigRef: {name: issuer, audience: 'https://tools.example'}
  headerForward: {addPlaintextHeaders: {X-A: b}}
---
apiVersion: toolhaven.dev/v1beta1
kind: MCPServer
metadata: {name: port}
spec: {image: 'example.com/port:1', transport: sse, mcpPort: 8082}
`
}

// Resources of a release whose definitions lack fields, and have other bounds, go through the
// upgrade that docs/kubernetes.md describes: nothing is lost, no pod is replaced, the fields
// that were added can be used, and what is refused today stays, with a condition.
func TestUpgradeOfDefinitions(t *testing.T) {
	w := newWorld(t)
	kubectl := func(stdin string, args ...string) string {
		t.Helper()
		out, err := w.cluster.Kubectl(t, stdin, args...)
		if err != nil {
			t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	install := func() { kubectl("", "apply", "--server-side", "--force-conflicts", "-k", "../../../deploy/crds") }
	t.Cleanup(func() { // for the tests that follow, also when this one failed
		command := []string{"apply", "--server-side", "--force-conflicts", "-k", "../../../deploy/crds"}
		if out, err := w.cluster.Kubectl(withoutCancel{t}, "", command...); err != nil {
			t.Errorf("install the present definitions: %v\n%s", err, out)
		}
	})
	kubectl("", "apply", "--server-side", "--force-conflicts", "-f", "testdata/older-definitions.yaml")
	probe := "apiVersion: toolhaven.dev/v1beta1\nkind: MCPServer\nmetadata: {name: probe}\nspec: {image: a, allowedHosts: [a.example]}\n"
	known := func(is bool) func() string { // whether the server knows a field that the older release lacks
		return func() string {
			out, err := w.cluster.Kubectl(t, probe, "apply", "-n", w.namespace, "--dry-run=server", "--validate=strict", "-f", "-")
			if (err == nil) == is && (is || strings.Contains(out, "unknown field")) {
				return ""
			}
			return out
		}
	}
	w.poll("the older definitions", known(false))
	kubectl(olderResources(), "apply", "-n", w.namespace, "--validate=strict", "-f", "-")

	first := w.start(-1)
	s, port, remote := server("server"), server("port"), proxy("remote")
	w.until(s, func() string { return want(condition(s.Status.Conditions, "AuthReady"), "True AuthReady") })
	w.until(remote, func() string { return want(condition(remote.Status.Conditions, "AuthReady"), "True AuthReady") })
	w.until(port, func() string { return want(condition(port.Status.Conditions, "Valid"), "True Valid") })
	kubectl("", "patch", "mcpserver", "port", "-n", w.namespace, "--type=merge", "-p", `{"spec":{"mcpPort":8081}}`)
	w.until(port, func() string { return want(condition(port.Status.Conditions, "Valid"), "False Invalid") })
	w.settled(first)
	before, made := w.resources(), w.versions()
	first.stop()

	install()
	w.poll("the present definitions", known(true))
	if after := w.resources(); !reflect.DeepEqual(after, before) {
		t.Errorf("the resources are\n%v\nand were\n%v", after, before)
	}
	second := w.start(-1)
	w.settled(second)
	if now := w.versions(); !maps.Equal(now, made) {
		t.Errorf("objects of the servers are written again:\n%v\nwere\n%v", now, made)
	}
	header, long := header("header"), header("long")
	w.until(header, func() string { return want(references(&header.Status), "MCPServer/server") })

	// What was added can be used.
	w.edit(s, func() { s.Spec.AllowedHosts, s.Spec.TrustProxyHeaders = []string{"a.example"}, true })
	config := &corev1.ConfigMap{ObjectMeta: named("mcp-server-proxy-config")}
	w.until(config, func() string {
		if !strings.Contains(config.Data["workload.json"], "a.example") {
			return "the new field is not in the run configuration"
		}
		return ""
	})

	// What is refused now says so, keeps its labels, and can be repaired and deleted.
	w.until(long, func() string { return want(condition(long.Status.Conditions, "Valid"), "False Invalid") })
	if message := messageOf(long.Status.Conditions, "Valid"); !strings.Contains(message, "matcher") {
		t.Errorf("the message is %q", message)
	}
	for _, name := range []string{"mcpserver/port", "mcpexternalauthconfig/long"} {
		kubectl("", "label", name, "-n", w.namespace, "seen=yes")
	}
	out, err := w.cluster.Kubectl(t, "", "patch", "mcpserver", "server", "-n", w.namespace, "--type=merge", "-p", `{"spec":{"mcpPort":8081}}`)
	if err == nil || !strings.Contains(out, "8081 is the port of the gateway") {
		t.Errorf("a port that is refused today: %v\n%s", err, out)
	}
	w.edit(port, func() { *port.Spec.MCPPort = 8083 })
	w.until(port, func() string { return want(condition(port.Status.Conditions, "Valid"), "True Valid") })
	w.delete(long)
	w.gone(long)
}

// resources are those of the namespace as they are stored, by kind and name, without the fields
// that the server keeps about writers.
func (w *world) resources() map[string]any {
	w.Helper()
	all := map[string]any{}
	for _, kind := range []string{"MCPExternalAuthConfigList", "MCPOIDCConfigList", "MCPServerList", "MCPRemoteProxyList"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(kind))
		if err := w.client.List(w.Context(), list, client.InNamespace(w.namespace)); err != nil {
			w.Fatal(err)
		}
		for _, o := range list.Items {
			o.SetManagedFields(nil)
			o.SetResourceVersion("")
			// Its default, which is added, is what its absence meant.
			unstructured.RemoveNestedField(o.Object, "spec", "trustProxyHeaders")
			all[o.GetKind()+"/"+o.GetName()] = o.Object
		}
	}
	return all
}

// versions are the versions of the objects that the operator made for servers, by type and name.
func (w *world) versions() map[string]string {
	w.Helper()
	all := map[string]string{}
	for _, list := range []client.ObjectList{
		&appsv1.DeploymentList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{}, &corev1.SecretList{},
		&corev1.ServiceAccountList{}, &networkingv1.NetworkPolicyList{}, &policyv1.PodDisruptionBudgetList{},
	} {
		if err := w.client.List(w.Context(), list, client.InNamespace(w.namespace), client.HasLabels{"toolhaven.dev/workload"}); err != nil {
			w.Fatal(err)
		}
		err := meta.EachListItem(list, func(o runtime.Object) error {
			object, err := meta.Accessor(o)
			if err == nil {
				all[fmt.Sprintf("%T/%s", o, object.GetName())] = object.GetResourceVersion()
			}
			return err
		})
		if err != nil {
			w.Fatal(err)
		}
	}
	if len(all) == 0 {
		w.Fatal("the operator made nothing")
	}
	return all
}

// poll waits until check returns "".
func (w *world) poll(what string, check func() string) {
	w.Helper()
	wrong := ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if wrong = check(); wrong == "" {
			return
		}
	}
	w.Fatalf("%s: %s", what, wrong)
}

// withoutCancel is a test whose context has not ended: the cleanups run after it has.
type withoutCancel struct{ testing.TB }

func (t withoutCancel) Context() context.Context { return context.WithoutCancel(t.TB.Context()) }
