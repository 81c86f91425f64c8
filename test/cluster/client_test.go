//go:build cluster && linux

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/toolhaven/toolhaven/api/v1beta1"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// patience bounds what a test waits for.
const patience = 3 * time.Minute

// The newest protocol versions with sessions and without.
const (
	sessionEra = "2025-11-25"
	stateless  = string(mcp.LatestStateless)
)

// eventually waits until check succeeds.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	if err := poll(patience, check); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// newNamespace makes one for the test, and removes it with all that is in it. When the test has
// failed, it first reports what is there.
func newNamespace(t *testing.T) string {
	t.Helper()
	name := node.Namespace(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(node.explain(name))
		}
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := node.api.Delete(context.WithoutCancel(t.Context()), namespace); err != nil {
			t.Error(err)
		}
	})
	return name
}

// kubectl runs it with standard input, and fails the test when it fails.
func kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := node.Kubectl(t, stdin, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// apply applies YAML, in which $REGISTRY and $NODE are replaced. It tries again while the node
// does not route to the webhook of an operator that was started again.
func apply(t *testing.T, namespace, yaml string) {
	t.Helper()
	yaml = strings.NewReplacer("$REGISTRY", node.registry, "$NODE", nodeAddress, "$NAMESPACE", namespace).Replace(yaml)
	eventually(t, "the resources are applied", func(context.Context) error {
		out, err := node.Kubectl(t, yaml, "apply", "-n", namespace, "-f", "-")
		if err != nil && strings.Contains(out, "failed to call webhook") {
			return errors.New(out)
		}
		if err != nil {
			t.Fatalf("kubectl apply: %v\n%s", err, out)
		}
		return nil
	})
}

// workload is an MCPServer or MCPRemoteProxy.
type workload struct{ kind, namespace, name string }

func server(namespace, name string) workload { return workload{v1beta1.KindMCPServer, namespace, name} }
func remoteProxy(namespace, name string) workload {
	return workload{v1beta1.KindMCPRemoteProxy, namespace, name}
}

// ready waits until the resource's condition Ready, of its present generation, is True, and
// all its pods are there, and returns its URL.
func (w workload) ready(t *testing.T) string {
	t.Helper()
	url := ""
	eventually(t, w.kind+" "+w.name+" is ready", func(ctx context.Context) error {
		var o client.Object
		var status *v1beta1.WorkloadStatus
		if w.kind == v1beta1.KindMCPServer {
			s := &v1beta1.MCPServer{}
			o, status = s, &s.Status
		} else {
			s := &v1beta1.MCPRemoteProxy{}
			o, status = s, &s.Status
		}
		if err := node.api.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: w.name}, o); err != nil {
			return err
		}
		for _, c := range status.Conditions {
			if c.Type == v1beta1.ConditionReady && c.Status == metav1.ConditionTrue && c.ObservedGeneration == o.GetGeneration() {
				url = status.URL
				return node.available(ctx, client.ObjectKey{Namespace: w.namespace, Name: w.name})
			}
		}
		return fmt.Errorf("conditions %v", status.Conditions)
	})
	// kube-proxy receives the pods from the API server as the operator does, and may be later.
	eventually(t, "the Service of "+w.name+" accepts connections", func(ctx context.Context) error {
		host, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", host)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	return url
}

// pods are the workload's that are not ending.
func (w workload) pods(t *testing.T) []corev1.Pod {
	t.Helper()
	var list corev1.PodList
	labels := client.MatchingLabels{"toolhaven.dev/workload": w.name, "toolhaven.dev/kind": w.kind}
	if err := node.api.List(t.Context(), &list, client.InNamespace(w.namespace), labels); err != nil {
		t.Fatal(err)
	}
	var pods []corev1.Pod
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			pods = append(pods, p)
		}
	}
	return pods
}

// replaced waits until the workload has another pod instead of the one of that name, and n that
// are ready.
func (w workload) replaced(t *testing.T, name string, n int) {
	t.Helper()
	eventually(t, "the pod is replaced", func(ctx context.Context) error {
		pods := w.pods(t)
		if len(pods) != n {
			return fmt.Errorf("%d pods, want %d", len(pods), n) // the new one may not be there yet
		}
		for _, p := range pods {
			ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			})
			if p.Name == name || !ready {
				return fmt.Errorf("pod %s, ready: %t", p.Name, ready)
			}
		}
		return node.available(ctx, client.ObjectKey{Namespace: w.namespace, Name: w.name})
	})
}

// podStates are names of pods with the restarts of their containers.
func podStates(pods []corev1.Pod) []string {
	var states []string
	for _, p := range pods {
		restarts := int32(0)
		for _, c := range p.Status.ContainerStatuses {
			restarts += c.RestartCount
		}
		states = append(states, fmt.Sprintf("%s (%d restarts)", p.Name, restarts))
	}
	slices.Sort(states)
	return states
}

// connect connects an SDK client.
func connect(t *testing.T, url, version string) *sdk.ClientSession {
	t.Helper()
	session, err := dial(t.Context(), url, version)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

func dial(ctx context.Context, url, version string) (*sdk.ClientSession, error) {
	return dialWith(ctx, http.DefaultClient, url, version)
}

func dialWith(ctx context.Context, h *http.Client, url, version string) (*sdk.ClientSession, error) {
	c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	// No stream for notifications: a pod that ends would wait for it.
	transport := &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: h, DisableStandaloneSSE: true}
	return c.Connect(ctx, transport, &sdk.ClientSessionOptions{ProtocolVersion: version})
}

// call calls a tool and returns its text.
func call(ctx context.Context, s *sdk.ClientSession, tool string, arguments map[string]any) (string, error) {
	r, err := s.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return "", err
	}
	text := ""
	if len(r.Content) > 0 {
		text = r.Content[0].(*sdk.TextContent).Text
	}
	if r.IsError {
		return "", errors.New(text)
	}
	return text, nil
}

func mustCall(t *testing.T, s *sdk.ClientSession, tool string, arguments map[string]any) string {
	t.Helper()
	got, err := call(t.Context(), s, tool, arguments)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return got
}

// gatewayStart is when the gateway of a pod started, since the machine's own start: the kubelet
// reports whole seconds only.
func gatewayStart(pod string) (time.Duration, error) {
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return 0, err
	}
	for _, file := range environs {
		environ, _ := os.ReadFile(file) // gone meanwhile
		if bytes.Contains(environ, []byte("\x00POD_NAME="+pod+"\x00")) {
			return processStart(filepath.Dir(file))
		}
	}
	return 0, fmt.Errorf("no process of %s", pod)
}

func processStart(dir string) (time.Duration, error) {
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return 0, err
	}
	// After the name in parentheses, the 20th field is the start in ticks of 10 ms (proc(5)).
	_, after, _ := bytes.Cut(stat, []byte(") "))
	fields := strings.Fields(string(after))
	if len(fields) < 20 {
		return 0, fmt.Errorf("%s: %s", dir, stat)
	}
	ticks, err := strconv.ParseInt(fields[19], 10, 64)
	return time.Duration(ticks) * 10 * time.Millisecond, err
}

// sinceBoot is the same clock as that of processStart.
func sinceBoot(t *testing.T) time.Duration {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		t.Fatal(err)
	}
	return time.Duration(now.Nano())
}
