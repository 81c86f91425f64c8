//go:build cluster && linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// The operator is killed while servers are made and deleted: state converges, and its
// successor makes and removes what is missing.
//
// It is not parallel: others wait for the operator.
func TestOperator_Killed(t *testing.T) {
	namespace := newNamespace(t)
	const servers = 3
	for i := range servers {
		apply(t, namespace, strings.Replace(probeServer, "name: probe}", fmt.Sprintf("name: probe-%d}", i), 1))
		kubectl(t, "", "delete", "pod", "-n", operatorKey.Namespace, "-l", "app.kubernetes.io/name=thv-operator", "--grace-period=0", "--force")
		// While no operator answers, its webhook refuses.
		eventually(t, "the operator is back", func(ctx context.Context) error { return node.available(ctx, operatorKey) })
	}
	for i := range servers {
		w := server(namespace, fmt.Sprintf("probe-%d", i))
		mustCall(t, connect(t, w.ready(t), stateless), "echo", map[string]any{"text": "x"})
	}
	// Pods serve without an operator, and what is deleted meanwhile goes with its owner.
	kubectl(t, "", "scale", "deployment", "-n", operatorKey.Namespace, operatorKey.Name, "--replicas=0")
	defer func() {
		kubectl(t, "", "scale", "deployment", "-n", operatorKey.Namespace, operatorKey.Name, "--replicas=1")
		eventually(t, "the operator is back", func(ctx context.Context) error { return node.available(ctx, operatorKey) })
	}()
	eventually(t, "the operator has ended", func(ctx context.Context) error { return node.available(ctx, operatorKey) })
	mustCall(t, connect(t, server(namespace, "probe-0").ready(t), stateless), "echo", map[string]any{"text": "x"})
	kubectl(t, "", "delete", "mcpserver", "-n", namespace, "--all")
	eventually(t, "nothing is left", func(context.Context) error {
		out := kubectl(t, "", "get", "-n", namespace, "-o", "name", "-l", "toolhaven.dev/workload",
			"deployment,replicaset,pod,service,configmap,secret,serviceaccount,networkpolicy,poddisruptionbudget")
		if strings.Contains(out, "/") {
			return errors.New(out)
		}
		return nil
	})
}
