//go:build unix && integration

package kube

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/toolhaven/toolhaven/api/v1beta1"
)

func TestMain(m *testing.M) { Main(m) }

func TestCluster(t *testing.T) {
	cluster := Start(t)
	c := cluster.Client(t)
	namespace := cluster.Namespace(t)
	config := &v1beta1.MCPExternalAuthConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"},
		Spec:       v1beta1.MCPExternalAuthConfigSpec{Type: v1beta1.ExternalAuthUnauthenticated},
	}
	if err := c.Create(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	out, err := cluster.Kubectl(t, "", "-n", namespace, "get", "extauth")
	if err != nil || !strings.Contains(out, "unauthenticated") {
		t.Errorf("kubectl get extauth: %v\n%s", err, out)
	}
	// It keeps its data over a restart, and clients their connection.
	cluster.Stop(t)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(config), config); err == nil {
		t.Error("a server that is stopped answered")
	}
	cluster.Restart(t)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(config), config); err != nil {
		t.Error(err)
	}
	// A user without rights has none.
	if err := cluster.ClientFor(t, cluster.As("someone")).List(t.Context(), &v1beta1.MCPServerList{}); err == nil {
		t.Error("a user without rights listed servers")
	}
}
