//go:build cluster && linux

package cluster

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pushImages fills the registry: the product's images by the tool of `make images`, and those
// of one program each.
func (c *cluster) pushImages() error {
	built := filepath.Join(c.root, "dist/cluster")
	if _, err := os.Stat(filepath.Join(built, "images")); err != nil {
		return fmt.Errorf("%w; `make cluster-test` builds what the tests need", err)
	}
	arches, err := builtArches(c.root)
	if err != nil {
		return err
	}
	tool := exec.Command(filepath.Join(built, "images"), "-programs", filepath.Join(c.root, "dist"), "-arches", arches,
		"-out", filepath.Join(c.dir, "images"), "-version", "test", "-push", c.registry+"/toolhaven")
	tool.Env = append(os.Environ(), "SSL_CERT_FILE="+c.File("server.crt"))
	if out, err := tool.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	coredns, err := builtDNS(c.root)
	if err != nil {
		return err
	}
	for _, i := range []struct{ name, program string }{
		{"pause:1", filepath.Join(built, "pause")},
		{"probe:1", filepath.Join(built, "probe")},
		{"coredns:1", coredns},
	} {
		if err := c.pushProgram(i.name, i.program); err != nil {
			return fmt.Errorf("%s: %w", i.name, err)
		}
	}
	return nil
}

// builtArches are the architectures whose programs `make images` built.
func builtArches(root string) (string, error) {
	dirs, err := filepath.Glob(filepath.Join(root, "dist/linux-*/thv-operator"))
	if err != nil || len(dirs) == 0 {
		return "", fmt.Errorf("no programs in dist/linux-*; `make cluster-test` builds what the tests need")
	}
	var arches []string
	for _, dir := range dirs {
		arches = append(arches, strings.TrimPrefix(filepath.Base(filepath.Dir(dir)), "linux-"))
	}
	return strings.Join(arches, ","), nil
}

// builtDNS is what test/setup/cluster.sh built of CoreDNS.
func builtDNS(root string) (string, error) {
	mod, err := os.ReadFile(filepath.Join(root, "test/cluster/coredns/go.mod"))
	if err != nil {
		return "", err
	}
	cache := os.Getenv("THV_KUBERNETES")
	if cache == "" {
		if cache, err = os.UserCacheDir(); err != nil {
			return "", err
		}
		cache = filepath.Join(cache, "toolhaven")
	}
	for line := range strings.Lines(string(mod)) {
		if f := strings.Fields(line); len(f) == 3 && f[1] == "github.com/coredns/coredns" {
			return filepath.Join(cache, "coredns-"+f[2], "coredns"), nil
		}
	}
	return "", fmt.Errorf("no version of CoreDNS in test/cluster/coredns/go.mod")
}

// pushProgram makes an image of one static program, which is its entry point.
func (c *cluster) pushProgram(ref, program string) error {
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	if err := w.WriteHeader(&tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}); err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: "program", Mode: 0o755, Size: int64(len(content))}); err != nil {
		return err
	}
	if _, err := w.Write(content); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		return err
	}
	image, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		return err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", runtime.GOARCH, v1.Config{Entrypoint: []string{"/program"}, WorkingDir: "/"}
	if image, err = mutate.ConfigFile(image, file); err != nil {
		return err
	}
	to, err := name.ParseReference(c.registry + "/" + ref)
	if err != nil {
		return err
	}
	return remote.Write(to, image, remote.WithTransport(c.transport))
}

// install applies CoreDNS, and the operator as docs/kubernetes.md does, with the images of the
// registry.
func (c *cluster) install() error {
	base, err := filepath.Rel(filepath.Join(c.dir, "install"), filepath.Join(c.root, "deploy/operator"))
	if err != nil {
		return err
	}
	replace := strings.NewReplacer("$BASE", base, "$REGISTRY", c.registry, "$NODE", nodeAddress)
	dns, err := c.write("dns.yaml", replace.Replace(dnsObjects))
	if err != nil {
		return err
	}
	overlay, err := c.write("install/kustomization.yaml", replace.Replace(installation))
	if err != nil {
		return err
	}
	for _, args := range [][]string{{"-f", dns}, {"-k", filepath.Dir(overlay)}} {
		apply := exec.Command(c.Program("kubectl"), append([]string{"apply", "--server-side"}, args...)...)
		apply.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig, "HOME="+c.dir)
		if out, err := apply.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	for _, d := range []client.ObjectKey{{Namespace: "kube-system", Name: "coredns"}, operatorKey} {
		if err := poll(startTimeout, func(ctx context.Context) error { return c.available(ctx, d) }); err != nil {
			return fmt.Errorf("%s: %w\n%s", d, err, c.explain(d.Namespace))
		}
	}
	return nil
}

var operatorKey = client.ObjectKey{Namespace: "toolhaven", Name: "thv-operator"}

// available is nil when a Deployment has rolled out.
func (c *cluster) available(ctx context.Context, key client.ObjectKey) error {
	var d appsv1.Deployment
	if err := c.api.Get(ctx, key, &d); err != nil {
		return err
	}
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	s := d.Status
	if s.ObservedGeneration != d.Generation || s.UpdatedReplicas != want || s.AvailableReplicas != want || s.Replicas != want {
		return fmt.Errorf("of %d pods %d are new, %d available, %d there", want, s.UpdatedReplicas, s.AvailableReplicas, s.Replicas)
	}
	return nil
}

// explain is what a person looks at first.
func (c *cluster) explain(namespace string) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var out strings.Builder
	for _, args := range []string{
		"get all -n " + namespace + " -o wide", "describe pods -n " + namespace, "get events -n " + namespace + " --sort-by=.lastTimestamp",
		"get mcpservers,mcpremoteproxies,mcpexternalauthconfigs -n " + namespace + " -o yaml --ignore-not-found", "logs -n toolhaven deployment/thv-operator --tail=20",
		"logs -n " + namespace + " -l toolhaven.dev/workload --all-containers --prefix --tail=60",
	} {
		command := exec.CommandContext(ctx, c.Program("kubectl"), strings.Fields(args)...)
		command.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig, "HOME="+c.dir)
		text, _ := command.CombinedOutput()
		fmt.Fprintf(&out, "--- kubectl %s\n%s\n", args, text)
	}
	return out.String()
}

const installation = `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [$BASE]
images:
- {name: ghcr.io/toolhaven/thv-operator, newName: $REGISTRY/toolhaven/thv-operator, newTag: test}
patches:
- target: {kind: Deployment, name: thv-operator}
  patch: |
    - op: replace
      path: /spec/template/spec/containers/0/args
      value: [run, --gateway-image=$REGISTRY/toolhaven/thv:test, --allow-private-registries]
    - op: add # the registry's authority
      path: /spec/template/spec/containers/0/env
      value: [{name: SSL_CERT_DIR, value: "/etc/ssl/certs:/etc/authority"}]
    - op: add
      path: /spec/template/spec/containers/0/volumeMounts
      value: [{name: authority, mountPath: /etc/authority}]
    - op: add
      path: /spec/template/spec/volumes
      value: [{name: authority, configMap: {name: kube-root-ca.crt}}]
`

const dnsObjects = `apiVersion: v1
kind: ServiceAccount
metadata: {name: coredns, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: coredns}
rules:
- {apiGroups: [""], resources: [endpoints, services, pods, namespaces], verbs: [list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: coredns}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: coredns}
subjects: [{kind: ServiceAccount, name: coredns, namespace: kube-system}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: coredns, namespace: kube-system}
data:
  Corefile: |
    .:1053 {
      errors
      ready
      hosts {
        $NODE ` + stsHost + `
        fallthrough
      }
      kubernetes cluster.local in-addr.arpa {
        ttl 1
      }
    }
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: coredns, namespace: kube-system}
spec:
  selector: {matchLabels: {app: coredns}}
  template:
    metadata: {labels: {app: coredns}}
    spec:
      serviceAccountName: coredns
      dnsPolicy: Default
      containers:
      - name: coredns
        image: $REGISTRY/coredns:1
        args: [-conf, /etc/coredns/Corefile]
        readinessProbe: {httpGet: {path: /ready, port: 8181}, periodSeconds: 1}
        volumeMounts: [{name: config, mountPath: /etc/coredns}]
      volumes: [{name: config, configMap: {name: coredns}}]
---
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec:
  clusterIP: 10.96.0.10
  selector: {app: coredns}
  ports:
  - {name: dns, port: 53, protocol: UDP, targetPort: 1053}
  - {name: dns-tcp, port: 53, protocol: TCP, targetPort: 1053}
`
