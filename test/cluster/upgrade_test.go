//go:build cluster && linux

package cluster

import (
	"context"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The definitions of an older release, and the operator, are upgraded as docs/kubernetes.md says
// while clients call a server: no call fails, no pod is replaced by that, and a field that was added
// can be used.
//
// It is not parallel: the definitions are those of all tests.
func TestUpgrade(t *testing.T) {
	install := []string{"apply", "--server-side", "--force-conflicts", "-k", filepath.Join(node.root, "deploy/crds")}
	older := filepath.Join(node.root, "internal/operator/reconcile/testdata/older-definitions.yaml")
	kubectl(t, "", "apply", "--server-side", "--force-conflicts", "-f", older)
	installed := false
	t.Cleanup(func() {
		if !installed {
			command := exec.Command(node.Program("kubectl"), install...) // the test's context has ended
			command.Env = append(os.Environ(), "KUBECONFIG="+node.Kubeconfig)
			if out, err := command.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		}
	})
	namespace := newNamespace(t)
	apply(t, namespace, strings.Replace(probeServer, "replicas: 1", "replicas: 2", 1))
	w := server(namespace, "probe")
	calls := newCaller(t, fresh(), w.ready(t))
	calls.more(t, 10)
	pods := podStates(w.pods(t))
	patch := []string{"patch", "mcpserver", "probe", "-n", namespace, "--type=merge", "-p", `{"spec":{"allowedHosts":["tools.example"]}}`}
	eventually(t, "the older definitions do not have the field", func(context.Context) error {
		if out, err := node.Kubectl(t, "", append(patch, "--dry-run=server")...); err != nil || !strings.Contains(out, "unknown field") {
			return errors.New(out)
		}
		return nil
	})

	kubectl(t, "", install...)
	installed = true
	kubectl(t, "", "rollout", "restart", "deployment", "-n", operatorKey.Namespace, operatorKey.Name)
	eventually(t, "the operator is replaced", func(ctx context.Context) error { return node.available(ctx, operatorKey) })
	calls.more(t, 10)
	if got := podStates(w.pods(t)); !slices.Equal(got, pods) {
		t.Errorf("the pods were %v and are %v", pods, got)
	}

	inside, err := url.Parse(w.ready(t))
	if err != nil {
		t.Fatal(err)
	}
	h := fresh()
	h.Transport = through{inside}
	if _, err := dialWith(t.Context(), h, "http://tools.example/mcp", stateless); err == nil {
		t.Error("a host that is not allowed is accepted")
	}
	eventually(t, "the webhook answers", func(context.Context) error {
		out, err := node.Kubectl(t, "", patch...)
		if err != nil || strings.Contains(out, "Warning") {
			return errors.New(out)
		}
		return nil
	})
	w.ready(t)
	eventually(t, "the added field is used", func(ctx context.Context) error {
		s, err := dialWith(ctx, h, "http://tools.example/mcp", stateless)
		if err != nil {
			return err
		}
		return s.Close()
	})
	if n, errs := calls.end(); len(errs) > 0 {
		t.Errorf("of %d calls %d failed: %v", n, len(errs), errors.Join(errs...))
	} else {
		t.Logf("%d calls, none failed", n)
	}
}
