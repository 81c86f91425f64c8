//go:build cluster && linux

package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/toolhaven/toolhaven/api/v1beta1"
)

// withoutAPI is how long the API server is gone.
const withoutAPI = time.Minute

// The API server is gone for a minute, in the middle of what the operator does for a new server
// and an edit. Pods go on serving. The operator ends, because it loses its lease, is started again,
// and completes both.
//
// It is not parallel: others use the API server.
func TestAPIServer_GoneForAMinute(t *testing.T) {
	namespace := newNamespace(t)
	apply(t, namespace, probeServer)
	w := server(namespace, "probe")
	w.ready(t)
	apply(t, namespace, strings.Replace(probeServer, "name: probe}", "name: other}", 1))
	other := server(namespace, "other")
	calls := newCaller(t, fresh(), other.ready(t))
	calls.more(t, 5)
	pods := podStates(other.pods(t))

	apply(t, namespace, strings.Replace(probeServer, "name: probe}", "name: late}", 1))
	edit(t, w, func(s *v1beta1.MCPServer) { s.Spec.ProxyPort = 9090 })
	node.Kill("kube-apiserver")
	time.Sleep(withoutAPI)
	calls.more(t, 5)
	node.Restart(t)
	mustCall(t, connect(t, server(namespace, "late").ready(t), stateless), "echo", map[string]any{"text": "x"})
	eventually(t, "the edit is done", func(context.Context) error {
		if got := w.ready(t); !strings.Contains(got, ":9090/") {
			return errors.New(got)
		}
		return nil
	})
	mustCall(t, connect(t, w.ready(t), stateless), "echo", map[string]any{"text": "x"})
	eventually(t, "the operator is there", func(ctx context.Context) error { return node.available(ctx, operatorKey) })
	if n, errs := calls.end(); len(errs) > 0 {
		t.Errorf("of %d calls %d failed: %v", n, len(errs), errors.Join(errs...))
	} else {
		t.Logf("%d calls, none failed", n)
	}
	if got := podStates(other.pods(t)); !slices.Equal(got, pods) {
		t.Errorf("the pods were %v and are %v", pods, got)
	}
}

// A Secret without the key that a server refers to: the gateway is not ready and its log names
// both, until the key is there; no pod is replaced.
func TestRemoteProxy_SecretWithoutKey(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	tr := newTrust(t, namespace)
	r := &outside{}
	kubectl(t, "", "create", "secret", "generic", "credential", "-n", namespace, "--from-literal=other=x")
	apply(t, namespace, strings.NewReplacer("$NAME", "keyless", "$URL", tr.serve(t, nodeAddress+":0", r)+"/mcp", "  oidcConfigRef: {name: issuer, audience: '"+toolsURL+"'}\n", "",
		"$CONFIG", "type: headerInjection\n  headerInjection: {headerName: X-Api-Key, valueSecretRef: {name: credential, key: value}}").Replace(remoteObjects))
	w := remoteProxy(namespace, "keyless")
	eventually(t, "the gateway's log names the Secret and the key", func(context.Context) error {
		logs, err := node.Kubectl(t, "", "logs", "-n", namespace, "-l", "toolhaven.dev/workload=keyless", "-c", "gateway", "--tail=-1")
		if err != nil || !strings.Contains(logs, "credential") || !strings.Contains(logs, "value") {
			return errors.New(logs)
		}
		return nil
	})
	var d appsv1.Deployment
	if err := node.api.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "keyless"}, &d); err != nil {
		t.Fatal(err)
	}
	if d.Status.ReadyReplicas != 0 {
		t.Error("a pod without its secret is ready")
	}
	pods := podStates(w.pods(t))
	kubectl(t, `{"stringData": {"value": "there"}}`, "patch", "secret", "credential", "-n", namespace, "--patch-file", "/dev/stdin")
	s := connect(t, w.ready(t), stateless)
	mustCall(t, s, "echo", map[string]any{"text": "x"})
	if got := r.last("X-Api-Key"); got != "there" {
		t.Errorf("the header is %q", got)
	}
	if got := podStates(w.pods(t)); !slices.Equal(got, pods) {
		t.Errorf("the pods were %v and are %v", pods, got)
	}
}
