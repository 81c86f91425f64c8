//go:build cluster && linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-containerregistry/pkg/registry"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/toolhaven/toolhaven/test/kube"
	"github.com/toolhaven/toolhaven/test/local"
)

// startTimeout bounds each step of the cluster's start. Machines that test are often busy.
const startTimeout = 4 * time.Minute

// node is the cluster of this program.
var node *cluster

// cluster is a control plane with one node.
type cluster struct {
	*kube.Cluster
	api      client.Client
	dir      string // of this run
	root     string // of the repository
	registry string // host:port

	transport http.RoundTripper // to the registry
}

// runInside starts the cluster, runs the tests, and ends it.
func runInside(m *testing.M, dir string) int {
	// Go's test program looks for its temporary directories there.
	tmp := filepath.Join(dir, "tmp")
	err := errors.Join(os.Mkdir(tmp, 0o755), os.Setenv("TMPDIR", tmp))
	if err == nil {
		node, err = startCluster(dir)
	}
	if node != nil && node.Cluster != nil {
		defer node.end()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the cluster:", err)
		if node != nil && node.Cluster != nil {
			for _, name := range []string{"kubelet", "containerd", "kube-proxy", "kube-controller-manager", "kube-scheduler", "kube-apiserver"} {
				fmt.Fprintf(os.Stderr, "--- %s\n%s\n", name, node.Log(name))
			}
		}
		return 1
	}
	return m.Run()
}

// step reports how long a part of the start takes.
func step(name string, run func() error) error {
	began := time.Now()
	if err := run(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Fprintf(os.Stderr, "cluster: %s after %.1f s\n", name, time.Since(began).Seconds())
	return nil
}

func startCluster(dir string) (*cluster, error) {
	c := &cluster{dir: dir}
	var err error
	if c.root, err = local.Root(); err != nil {
		return c, err
	}
	err = step("the API server is ready", func() error {
		c.Cluster, err = kube.StartControlPlane(nodeAddress)
		return err
	})
	if err != nil {
		return c, err
	}
	ctrllog.SetLogger(logr.Discard())
	if c.api, err = client.New(c.Config, client.Options{Scheme: kube.Scheme()}); err != nil {
		return c, err
	}
	config := rest.CopyConfig(c.Config)
	config.BearerToken = ""
	if c.transport, err = rest.TransportFor(config); err != nil {
		return c, err
	}
	if err := c.startRegistry(); err != nil {
		return c, err
	}
	for _, s := range []struct {
		name string
		run  func() error
	}{
		{"images are in the registry", c.pushImages},
		{"containerd, kubelet and controllers run", c.startNode},
		{"the node is ready", c.awaitNode},
		{"CoreDNS and the operator are ready", c.install},
	} {
		if err := step(s.name, s.run); err != nil {
			return c, err
		}
	}
	return c, nil
}

// end ends the pods' tasks with the namespace of processes, and the programs here.
func (c *cluster) end() {
	c.Kill("kubelet") // first, so that it starts nothing again
	c.End()
}

// startRegistry serves images on the node's address. Its certificate is that of the API server,
// whose authority pods have in the ConfigMap kube-root-ca.crt.
func (c *cluster) startRegistry() error {
	l, err := net.Listen("tcp", nodeAddress+":5000")
	if err != nil {
		return err
	}
	c.registry = l.Addr().String()
	server := &http.Server{Handler: registry.New(registry.Logger(log.New(io.Discard, "", 0))), ReadHeaderTimeout: time.Minute}
	// Uploads in parallel over one connection of HTTP/2 hang.
	server.Protocols = &http.Protocols{}
	server.Protocols.SetHTTP1(true)
	go func() { _ = server.ServeTLS(l, c.File("server.crt"), c.File("server.key")) }()
	return nil
}

// write makes a file in the run's directory.
func (c *cluster) write(name, content string) (path string, err error) {
	path = filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, []byte(content), 0o644)
}

// startNode starts what a cluster needs beside its API server.
func (c *cluster) startNode() error {
	replace := strings.NewReplacer("$DIR", c.dir, "$REGISTRY", c.registry, "$NODE", kube.NodeName, "$KUBECONFIG", c.Kubeconfig, "$AUTHORITY", c.File("server.crt"), "$CGROUP", "/"+filepath.Base(c.dir))
	for name, content := range nodeFiles {
		if _, err := c.write(replace.Replace(name), replace.Replace(content)); err != nil {
			return err
		}
	}
	if err := c.Run("containerd", "containerd", "--config", filepath.Join(c.dir, "containerd.toml")); err != nil {
		return err
	}
	for _, p := range []struct {
		name string
		args []string
	}{
		{"kube-controller-manager", []string{
			"--kubeconfig=" + c.Kubeconfig, "--service-account-private-key-file=" + c.File("account.key"), "--root-ca-file=" + c.File("server.crt"),
			"--use-service-account-credentials=true", "--leader-elect=false", "--bind-address=127.0.0.1",
		}},
		{"kube-scheduler", []string{"--kubeconfig=" + c.Kubeconfig, "--leader-elect=false", "--bind-address=127.0.0.1"}},
		{"kube-proxy", []string{"--config=" + filepath.Join(c.dir, "proxy.yaml")}},
		{"kubelet", []string{
			"--config=" + filepath.Join(c.dir, "kubelet.yaml"), "--kubeconfig=" + c.File(kube.NodeKubeconfig), "--hostname-override=" + kube.NodeName,
			"--node-ip=" + nodeAddress, "--root-dir=" + filepath.Join(c.dir, "kubelet"), "--cert-dir=" + filepath.Join(c.dir, "kubelet/pki"),
		}},
	} {
		if err := c.Run(p.name, c.Program(p.name), p.args...); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) awaitNode() error {
	return poll(startTimeout, func(ctx context.Context) error {
		var n corev1.Node
		if err := c.api.Get(ctx, client.ObjectKey{Name: kube.NodeName}, &n); err != nil {
			return err
		}
		for _, condition := range n.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("it is not: %v", n.Status.Conditions)
	})
}

// poll runs check until it succeeds.
func poll(limit time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not within %s: %w", limit, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// nodeFiles are the configurations of the node's programs, by their names in the directory.
var nodeFiles = map[string]string{
	"containerd.toml": `version = 2
root = "$DIR/containerd"
state = "/run/containerd-cluster"
[grpc]
  address = "/run/containerd-cluster.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "$REGISTRY/pause:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$DIR/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "$DIR/registries"
`,
	"registries/$REGISTRY/hosts.toml": "[host.\"https://$REGISTRY\"]\n  ca = \"$AUTHORITY\"\n",
	"cni/10-bridge.conflist": `{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}
]}
`,
	// A short syncFrequency brings changed Secrets into pods soon. The evictions are off:
	// disks of machines that test are often nearly full.
	"kubelet.yaml": `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
syncFrequency: 5s
failCgroupV1: false
failSwapOn: false
cgroupDriver: cgroupfs
cgroupRoot: $CGROUP
containerRuntimeEndpoint: unix:///run/containerd-cluster.sock
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
resolvConf: $DIR/resolv.conf
readOnlyPort: 0
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard: {memory.available: "50Mi", nodefs.available: "1%", nodefs.inodesFree: "1%", imagefs.available: "1%"}
enforceNodeAllocatable: [pods]
`,
	"proxy.yaml": `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clusterCIDR: 10.244.0.0/16
hostnameOverride: $NODE
clientConnection: {kubeconfig: $KUBECONFIG}
conntrack: {maxPerCore: 0, min: 0}
metricsBindAddress: 127.0.0.1:10249
`,
}
