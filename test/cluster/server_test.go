//go:build cluster && linux

package cluster

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

const probeServer = `
apiVersion: toolhaven.dev/v1beta1
kind: MCPServer
metadata: {name: probe}
spec:
  image: $REGISTRY/probe:1
  transport: stdio
  replicas: 1
  env: [{name: GREETING, value: hello}]
`

// The program of the image is found at the registry, and clients use the Service's name.
func TestServer_Stdio(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	apply(t, namespace, probeServer)
	target := server(namespace, "probe").ready(t)
	if host := "mcp-probe-proxy." + namespace + ".svc"; !strings.Contains(target, host) {
		t.Errorf("the URL is %s, want one of the Service %s", target, host)
	}
	for _, version := range []string{sessionEra, stateless} {
		s := connect(t, target, version)
		if got := mustCall(t, s, "echo", map[string]any{"text": "through the Service"}); got != "through the Service" {
			t.Errorf("%s: echo: %q", version, got)
		}
		if got := mustCall(t, s, "env", map[string]any{"name": "GREETING"}); got != "hello" {
			t.Errorf("%s: the variable is %q", version, got)
		}
	}
}

// What the server's own process sees of its container.
func TestServer_Hardened(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	apply(t, namespace, probeServer)
	s := connect(t, server(namespace, "probe").ready(t), sessionEra)
	for field, want := range map[string]string{
		"Uid": "65532\t65532\t65532\t65532", "Gid": "65532\t65532\t65532\t65532",
		"CapEff": "0000000000000000", "CapPrm": "0000000000000000", "CapBnd": "0000000000000000",
		"NoNewPrivs": "1", "Seccomp": "2", // a filter
	} {
		if got := mustCall(t, s, "self", map[string]any{"field": field}); got != want {
			t.Errorf("%s is %q, want %q", field, got, want)
		}
	}
	if got := mustCall(t, s, "write", map[string]any{"path": "/tmp/file", "text": "x"}); got != "written" {
		t.Errorf("/tmp: %s", got)
	}
	refused := func(tool string, arguments map[string]any) {
		t.Helper()
		if got, err := call(t.Context(), s, tool, arguments); err == nil {
			t.Errorf("%s %v succeeds: %.80q", tool, arguments, got)
		}
	}
	for _, path := range []string{"/file", "/program", "/thv/guest", "/etc/file"} {
		refused("write", map[string]any{"path": path, "text": "x"})
	}
	for _, path := range []string{"/var/run/secrets/kubernetes.io/serviceaccount/token", "/etc/thv/key/key", "/etc/thv/config/workload.json"} {
		refused("read", map[string]any{"path": path})
	}
}

// firstListLimit is far above a second: the machine may be loaded. The test's log has the time.
const firstListLimit = 30 * time.Second

// TestServer_FirstList measures how long after its gateway's start a pod lists its tools.
func TestServer_FirstList(t *testing.T) {
	namespace := newNamespace(t)
	began := sinceBoot(t)
	apply(t, namespace, probeServer)
	w := server(namespace, "probe")
	pod, ip := "", ""
	eventually(t, "the pod has an address", func(context.Context) error {
		for _, p := range w.pods(t) {
			pod, ip = p.Name, p.Status.PodIP
		}
		if ip == "" {
			return errors.New("it has none")
		}
		return nil
	})
	// To the pod itself, under the Service's name: the Service waits for the probes.
	u := &url.URL{Scheme: "http", Host: "mcp-probe-proxy." + namespace + ".svc.cluster.local:8080", Path: "/mcp"}
	h := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, net.JoinHostPort(ip, "8080"))
	}}}
	defer h.CloseIdleConnections()
	tools := 0
	eventually(t, "the pod lists its tools", func(ctx context.Context) error {
		s, err := dialWith(ctx, h, u.String(), stateless)
		if err != nil {
			return err
		}
		defer s.Close()
		list, err := s.ListTools(ctx, nil)
		if err == nil {
			tools = len(list.Tools)
		}
		return err
	})
	listed := sinceBoot(t)
	started, err := gatewayStart(pod)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d tools are listed %s after the gateway's start, %s after the resource was applied", tools, listed-started, listed-began)
	if listed-started > firstListLimit {
		t.Errorf("the first list takes longer than %s", firstListLimit)
	}
}

// What is deleted by hand is made again; what is deleted as a whole leaves nothing.
func TestServer_DeletedByHand(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	apply(t, namespace, probeServer)
	w := server(namespace, "probe")
	w.ready(t)
	kubectl(t, "", "delete", "-n", namespace, "deployment,service,configmap,serviceaccount,networkpolicy", "-l", "toolhaven.dev/workload=probe")
	eventually(t, "the server is called again", func(ctx context.Context) error {
		s, err := dial(ctx, w.ready(t), sessionEra)
		if err != nil {
			return err
		}
		defer s.Close()
		_, err = call(ctx, s, "echo", map[string]any{"text": "again"})
		return err
	})
	kubectl(t, "", "delete", "-n", namespace, "mcpserver", "probe")
	eventually(t, "nothing is left", func(context.Context) error {
		out := kubectl(t, "", "get", "-n", namespace, "-o", "name", "-l", "toolhaven.dev/workload=probe",
			"deployment,replicaset,pod,service,configmap,secret,serviceaccount,networkpolicy,poddisruptionbudget")
		if strings.Contains(out, "/") {
			return errors.New(out)
		}
		return nil
	})
}
