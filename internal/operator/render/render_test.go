package render

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/toolhaven/toolhaven/internal/workload"
)

var update = flag.Bool("update", false, "write the golden files")

func spec(transport workload.Transport) *workload.Spec {
	s := &workload.Spec{
		Schema: workload.Schema, Name: "fetch", Image: "ghcr.io/example/fetch:1", Source: workload.Source{Kind: "image", Ref: "ghcr.io/example/fetch:1"},
		Transport: transport,
		Proxy:     workload.Proxy{Host: "0.0.0.0", Port: 8080, Mode: "streamable-http"},
	}
	if transport != workload.Stdio {
		s.TargetHost, s.TargetPort = "127.0.0.1", 9000
	}
	return s
}

func stdio() *Workload {
	return &Workload{
		Owner: metav1.OwnerReference{APIVersion: "toolhaven.dev/v1beta1", Kind: "MCPServer", Name: "fetch", UID: "0f", Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)},
		Name:  "fetch", Namespace: "tools", Spec: spec(workload.Stdio), GatewayImage: "ghcr.io/toolhaven/thv:1", ServicePort: 8080,
		Server: &Server{Image: "ghcr.io/example/fetch:1", EntryPoint: []string{"/fetch"}, Args: []string{"--quiet"}, Env: []corev1.EnvVar{{Name: "MCP_TRANSPORT", Value: "stdio2"}}},
	}
}

func serverOverHTTP() *Workload {
	w := stdio()
	w.Spec, w.Replicas = spec(workload.StreamableHTTP), ptr.To[int32](3)
	w.Server.EntryPoint, w.Server.Env = nil, nil
	w.Secrets = map[string][]string{"upstream.creds": {"id", "secret", "id"}}
	w.ConfigMaps = map[string][]string{"ca": {"ca.crt"}}
	w.Template = &runtime.RawExtension{Raw: []byte(`{"metadata":{"annotations":{"team":"x"}},"spec":{"nodeSelector":{"a":"b"},
		"containers":[{"name":"mcp","env":[{"name":"MORE","value":"1"}]},{"name":"sidecar","image":"s:1"}]}}`)}
	return w
}

// private is a server whose image needs a password: its pod finds the program itself.
func private() *Workload {
	w := stdio()
	w.Server.EntryPoint, w.ImagePullSecrets = nil, []corev1.LocalObjectReference{{Name: "registry.creds"}}
	w.Spec.CABundle, w.ConfigMaps = ConfigMapsDir+"/ca/ca.crt", map[string][]string{"ca": {"ca.crt"}}
	return w
}

func remote() *Workload {
	w := stdio()
	w.Owner.Kind = "MCPRemoteProxy"
	w.Server, w.ServiceAccount = nil, "mine"
	w.Spec.Image, w.Spec.Transport = "", workload.StreamableHTTP
	w.Spec.Source = workload.Source{Kind: "remote", Ref: "https://x.example/mcp"}
	w.Spec.Remote = &workload.Remote{URL: "https://x.example/mcp"}
	return w
}

func TestObjects_Golden(t *testing.T) {
	for name, w := range map[string]*Workload{"stdio": stdio(), "http": serverOverHTTP(), "remote": remote(), "private": private()} {
		t.Run(name, func(t *testing.T) {
			objects, err := Objects(w)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Objects(w)
			if err != nil {
				t.Fatal(err)
			}
			got := manifests(t, objects)
			if !bytes.Equal(got, manifests(t, again)) {
				t.Error("the same workload gives other objects the second time")
			}
			golden := filepath.Join("testdata", name+".yaml")
			if *update {
				if err := os.WriteFile(golden, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("objects differ from %s (-want +got); go test -update writes it:\n%s", golden, diff)
			}
			if err := workload.Validate(w.Spec); err != nil {
				t.Errorf("the run configuration is not valid: %v", err)
			}
		})
	}
}

func manifests(t *testing.T, objects []client.Object) []byte {
	t.Helper()
	var all bytes.Buffer
	for _, o := range objects {
		content, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString("---\n")
		all.Write(content)
	}
	return all.Bytes()
}

// Each row takes hardening away, or is no template; a near miss is accepted.
func TestObjects_Template(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ template, field string }{
		"empty":                   {`{}`, ""},
		"another user":            {`{"spec":{"securityContext":{"runAsUser":1000}}}`, ""},
		"a port below 1024":       {`{"spec":{"containers":[{"name":"mcp","securityContext":{"capabilities":{"add":["NET_BIND_SERVICE"]}}}]}}`, ""},
		"an emptyDir":             {`{"spec":{"volumes":[{"name":"x","emptyDir":{}}]}}`, ""},
		"a profile of one's own":  {`{"spec":{"securityContext":{"seccompProfile":{"type":"Localhost","localhostProfile":"p.json"}}}}`, ""},
		"the user root":           {`{"spec":{"securityContext":{"runAsUser":0}}}`, "spec.securityContext.runAsUser"},
		"root in a container":     {`{"spec":{"containers":[{"name":"mcp","securityContext":{"runAsUser":0}}]}}`, "spec.containers[mcp].securityContext.runAsUser"},
		"root is allowed":         {`{"spec":{"securityContext":{"runAsNonRoot":false}}}`, "spec.securityContext.runAsNonRoot"},
		"privileged":              {`{"spec":{"containers":[{"name":"mcp","securityContext":{"privileged":true}}]}}`, "spec.containers[mcp].securityContext.privileged"},
		"a privileged sidecar":    {`{"spec":{"initContainers":[{"name":"x","image":"y","securityContext":{"privileged":true}}]}}`, "spec.initContainers[x].securityContext.privileged"},
		"escalation":              {`{"spec":{"containers":[{"name":"mcp","securityContext":{"allowPrivilegeEscalation":true}}]}}`, "spec.containers[mcp].securityContext.allowPrivilegeEscalation"},
		"a root that is writable": {`{"spec":{"containers":[{"name":"gateway","securityContext":{"readOnlyRootFilesystem":false}}]}}`, "spec.containers[gateway].securityContext.readOnlyRootFilesystem"},
		"a capability":            {`{"spec":{"containers":[{"name":"mcp","securityContext":{"capabilities":{"add":["SYS_ADMIN"]}}}]}}`, "spec.containers[mcp].securityContext.capabilities.add"},
		"fewer dropped":           {`{"spec":{"containers":[{"name":"mcp","securityContext":{"capabilities":{"drop":["KILL"]}}}]}}`, "spec.containers[mcp].securityContext.capabilities.drop"},
		"no seccomp":              {`{"spec":{"securityContext":{"seccompProfile":{"type":"Unconfined"}}}}`, "spec.securityContext.seccompProfile"},
		"seccomp taken away":      {`{"spec":{"securityContext":null}}`, "spec.securityContext"},
		"the node's network":      {`{"spec":{"hostNetwork":true}}`, "spec.hostNetwork"},
		"the node's processes":    {`{"spec":{"hostPID":true}}`, "spec.hostPID"},
		"shared processes":        {`{"spec":{"shareProcessNamespace":true}}`, "spec.shareProcessNamespace"},
		"a token":                 {`{"spec":{"automountServiceAccountToken":true}}`, "spec.automountServiceAccountToken"},
		"a path of the node":      {`{"spec":{"volumes":[{"name":"x","hostPath":{"path":"/"}}]}}`, "spec.volumes[x].hostPath"},
		"a port of the node":      {`{"spec":{"containers":[{"name":"mcp","ports":[{"containerPort":1,"hostPort":1}]}]}}`, "spec.containers[mcp].ports"},
		"a directive":             {`{"spec":{"containers":[{"$patch":"delete","name":"gateway"}]}}`, ""},
		"an unknown field":        {`{"spec":{"nodeSelectr":{}}}`, ""},
		"another type":            {`{"spec":[]}`, ""},
		"another command":         {`{"spec":{"containers":[{"name":"gateway","command":["sh"]}]}}`, "spec.containers[gateway]"},
		"our labels":              {`{"metadata":{"labels":{"toolhaven.dev/workload":"x"}}}`, "metadata.labels"},
		"another account":         {`{"spec":{"serviceAccountName":"admin"}}`, "spec.serviceAccountName"},
	} {
		accepted := row.field == "" && name != "a directive" && name != "an unknown field" && name != "another type"
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := stdio()
			w.Template = &runtime.RawExtension{Raw: []byte(row.template)}
			_, err := Objects(w)
			if accepted {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var faults Faults
			if !errors.As(err, &faults) || len(faults) != 1 || faults[0].Field != strings.TrimSuffix(templateField+"."+row.field, ".") {
				t.Errorf("the error is %v, not one of %s", err, row.field)
			}
		})
	}
}

func TestObjects_Faults(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		change func(*Workload)
		field  string
	}{
		"a long name":            {func(w *Workload) { w.Name = strings.Repeat("a", 54) }, "metadata.name"},
		"the longest name":       {func(w *Workload) { w.Name = strings.Repeat("a", 53) }, ""},
		"a dot":                  {func(w *Workload) { w.Name = "a.b" }, "metadata.name"},
		"the port of peers":      {func(w *Workload) { w.Spec.TargetPort = PeerPort }, "spec.mcpPort"},
		"no program of a server": {func(w *Workload) { w.Server.EntryPoint = nil }, "spec.command"},
		"a program in the pod": {func(w *Workload) {
			w.Server.EntryPoint, w.ImagePullSecrets = nil, []corev1.LocalObjectReference{{Name: "s"}}
		}, ""},
		"a program that the pod cannot fetch": {func(w *Workload) {
			w.Server.EntryPoint, w.ImagePullSecrets, w.NoEgress = nil, []corev1.LocalObjectReference{{Name: "s"}}, true
		}, "spec.command"},
		"a label":                   {func(w *Workload) { w.PodMeta.Labels = map[string]string{"a.example/b": "c_d"} }, ""},
		"no label":                  {func(w *Workload) { w.PodMeta.Labels = map[string]string{"a b": "c"} }, "spec.resourceOverrides.proxyDeployment.podTemplateMetadataOverrides.labels"},
		"a long label":              {func(w *Workload) { w.ServiceMeta.Labels = map[string]string{"a": strings.Repeat("b", 64)} }, "spec.resourceOverrides.proxyService.labels"},
		"no annotation":             {func(w *Workload) { w.DeploymentMeta.Annotations = map[string]string{"a/b/c": ""} }, "spec.resourceOverrides.proxyDeployment.annotations"},
		"no account":                {func(w *Workload) { w.ServiceAccount = "A" }, "spec.serviceAccount"},
		"no Secret":                 {func(w *Workload) { w.Secrets = map[string][]string{"a b": {"k"}} }, "the name of a Secret"},
		"no key of a Secret":        {func(w *Workload) { w.Secrets = map[string][]string{"a": {"b/c"}} }, "the key of the Secret a"},
		"a space in an image":       {func(w *Workload) { w.Server.Image = "a " }, "spec.image"},
		"no name of a volume":       {func(w *Workload) { w.Server.Volumes = []corev1.Volume{{Name: "host-A"}} }, "spec.volumes[A].name"},
		"a path that is mounted":    {func(w *Workload) { w.Server.Mounts = []corev1.VolumeMount{{Name: "x", MountPath: "/tmp/"}} }, "spec.volumes"},
		"the largest configuration": {func(w *Workload) { w.Spec.Env = map[string]string{"A": strings.Repeat("a", maxConfig-2000)} }, ""},
		"a larger one":              {func(w *Workload) { w.Spec.Env = map[string]string{"A": strings.Repeat("a", maxConfig)} }, "spec"},
	} {
		w := stdio()
		row.change(w)
		_, err := Objects(w)
		var faults Faults
		if errors.As(err, &faults) != (row.field != "") || len(faults) > 0 && faults[0].Field != row.field {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGatewayPort(t *testing.T) {
	t.Parallel()
	for _, row := range [][3]int32{{8080, 0, 8080}, {8080, 8080, 8082}, {80, 0, 8080}, {443, 8080, 8082}, {PeerPort, 0, 8080}, {9000, 8080, 9000}, {8082, 8080, 8082}} {
		if got := GatewayPort(row[0], row[1]); got != row[2] {
			t.Errorf("GatewayPort(%d, %d) = %d, want %d", row[0], row[1], got, row[2])
		}
	}
}
