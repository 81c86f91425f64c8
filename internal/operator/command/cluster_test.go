//go:build unix && integration

package command

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/toolhaven/toolhaven/api/v1beta1"
	"github.com/toolhaven/toolhaven/internal/operator/admission"
	"github.com/toolhaven/toolhaven/test/kube"
	"github.com/toolhaven/toolhaven/test/local"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	kube.Main(m)
}

// patience bounds what takes a moment on a slow machine.
const patience = 2 * time.Minute

// namespaces of the documents and charts are made once.
var namespaces sync.Once

func start(t *testing.T) *kube.Cluster {
	t.Helper()
	cluster := kube.Start(t)
	namespaces.Do(func() {
		for _, name := range []string{"toolhaven", "leases", "team-a", "team-b", "team-c", "tools"} {
			kubectl(t, cluster, "", "create", "namespace", name)
		}
	})
	return cluster
}

func kubectl(t *testing.T, cluster *kube.Cluster, stdin string, args ...string) string {
	t.Helper()
	out, err := cluster.Kubectl(t, stdin, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// dryRun applies objects without storing them, as strictly as the API server can.
func dryRun(t *testing.T, cluster *kube.Cluster, name string, objects []map[string]any) {
	t.Helper()
	out, err := cluster.Kubectl(t, manifest(t, objects), "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-")
	if err != nil || strings.Contains(out, "Warning") {
		t.Errorf("%s: %v\n%s", name, err, out)
	}
}

func manifest(t *testing.T, objects []map[string]any) string {
	t.Helper()
	var all strings.Builder
	for _, o := range objects {
		content, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString("---\n" + string(content))
	}
	return all.String()
}

// The API server accepts what the kustomize base and the chart install.
func TestInstall(t *testing.T) {
	cluster := start(t)
	dryRun(t, cluster, "deploy/operator", documents(t, kubectl(t, cluster, "", "kustomize", base)))
	files, err := filepath.Glob(rendered + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		var here []map[string]any
		for _, o := range objects(t, file) {
			// The definitions of cert-manager are not here.
			if version, _ := o["apiVersion"].(string); !strings.HasPrefix(version, "cert-manager.io/") && version != "" {
				here = append(here, o)
			}
		}
		if len(here) > 0 {
			dryRun(t, cluster, file, here)
		}
	}
}

// fence is how a document of docs begins and ends.
var fence = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// What the documents show can be applied as it stands there.
func TestDocuments(t *testing.T) {
	cluster := start(t)
	files, err := filepath.Glob("../../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := map[string]int{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range fence.FindAllSubmatch(content, -1) {
			text := string(block[1])
			switch {
			case !regexp.MustCompile(`(?m)^apiVersion: `).MatchString(text):
				if filepath.Base(file) == "kubernetes.md" {
					t.Errorf("%s: this is no resource:\n%s", file, text)
				}
				continue // a part of one
			case strings.Contains(text, "kind: Kustomization"):
				overlay(t, cluster, text)
			default:
				dryRun(t, cluster, file, documents(t, text))
				for _, o := range resources(t, text) {
					if err := admission.Validate(o); err != nil {
						t.Errorf("%s: %s: %v", file, o.GetName(), err)
					}
				}
			}
			checked[filepath.Base(file)]++
		}
	}
	if checked["kubernetes.md"] < 4 {
		t.Errorf("checked %v", checked)
	}
}

// overlay builds a kustomization over the base of this checkout, and expects its image at both
// places.
func overlay(t *testing.T, cluster *kube.Cluster, text string) {
	t.Helper()
	dir := t.TempDir()
	path, err := filepath.Abs(base)
	if err != nil {
		t.Fatal(err)
	}
	if path, err = filepath.Rel(dir, path); err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`https://\S+`).ReplaceAllString(text, path)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out := kubectl(t, cluster, "", "kustomize", dir)
	for _, want := range []string{"image: registry.example/toolhaven/thv-operator:v1.2.3", "- --gateway-image=registry.example/toolhaven/thv:v1.2.3"} {
		if strings.Count(out, want) != 1 || strings.Contains(out, "ghcr.io") {
			t.Errorf("%s: %d times in the overlay of the docs", want, strings.Count(out, want))
		}
	}
}

// resources are those of toolhaven.dev.
func resources(t *testing.T, text string) (all []client.Object) {
	t.Helper()
	scheme := kube.Scheme()
	for _, o := range documents(t, text) {
		if o["apiVersion"] != v1beta1.GroupVersion.String() {
			continue
		}
		object, err := scheme.New(v1beta1.GroupVersion.WithKind(o["kind"].(string)))
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict([]byte(manifest(t, []map[string]any{o})), object); err != nil {
			t.Fatal(err)
		}
		all = append(all, object.(client.Object))
	}
	return all
}

// An operator with the rights that the chart gives in two namespaces works there, and what
// docs/kubernetes.md declares first is made as it is written there.
func TestRun_InItsNamespaces(t *testing.T) {
	cluster := start(t)
	api := cluster.Client(t)
	var configuration string
	var given []map[string]any
	for _, o := range objects(t, filepath.Join(rendered, "namespaced.yaml")) {
		if o["kind"] == "ValidatingWebhookConfiguration" {
			configuration = o["metadata"].(map[string]any)["name"].(string)
		}
		if o["kind"] != "Deployment" {
			given = append(given, o)
		}
	}
	kubectl(t, cluster, manifest(t, given), "apply", "--server-side", "-f", "-")

	// An operator that is gone has the lease, and its clock was decades ahead.
	ahead := metav1.NewMicroTime(time.Now().AddDate(50, 0, 0))
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "toolhaven", Name: "thv-operator"}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("gone"), LeaseDurationSeconds: ptr.To[int32](2), AcquireTime: &ahead, RenewTime: &ahead,
	}}
	if err := api.Create(t.Context(), lease); err != nil {
		t.Fatal(err)
	}

	logs := run(t, cluster)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the operator:\n%s", logs)
		}
	})
	// It keeps a certificate. The API server here does not reach the Service.
	eventually(t, "the webhook's authority", func() bool {
		var c admissionregistrationv1.ValidatingWebhookConfiguration
		return api.Get(t.Context(), client.ObjectKey{Name: configuration}, &c) == nil && len(c.Webhooks[0].ClientConfig.CABundle) > 0
	})
	kubectl(t, cluster, "", "delete", "validatingwebhookconfiguration", configuration)

	content, err := os.ReadFile("../../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	walk := walk(t, string(content))
	for _, namespace := range []string{"team-a", "team-c"} {
		for _, o := range resources(t, walk) {
			o.SetNamespace(namespace)
			if s, ok := o.(*v1beta1.MCPServer); ok {
				s.Spec.Command = []string{"everything"} // its registry is not asked here
			}
			if err := api.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
	}
	server := client.ObjectKey{Namespace: "team-a", Name: "everything"}
	eventually(t, "a Deployment", func() bool { return api.Get(t.Context(), server, &appsv1.Deployment{}) == nil })
	var s v1beta1.MCPServer
	eventually(t, "a status", func() bool {
		return api.Get(t.Context(), server, &s) == nil && meta.FindStatusCondition(s.Status.Conditions, v1beta1.ConditionReady) != nil
	})
	for _, condition := range []string{v1beta1.ConditionValid, v1beta1.ConditionAuthReady, v1beta1.ConditionReferencesReady} {
		if !meta.IsStatusConditionTrue(s.Status.Conditions, condition) {
			t.Errorf("%s is not True: %+v", condition, s.Status.Conditions)
		}
	}
	server.Namespace = "team-c"
	if err := api.Get(t.Context(), server, &appsv1.Deployment{}); err == nil {
		t.Error("a server outside of the operator's namespaces runs")
	}
	if text := logs.String(); strings.Contains(text, "forbidden") {
		t.Errorf("the operator lacks rights:\n%s", text)
	}
}

// walk is the manifest that docs/kubernetes.md calls everything.yaml.
func walk(t *testing.T, text string) string {
	t.Helper()
	for _, block := range fence.FindAllStringSubmatch(text, -1) {
		if strings.HasPrefix(block[1], "# everything.yaml\n") {
			return block[1]
		}
	}
	t.Fatal("docs/kubernetes.md has no everything.yaml")
	return ""
}

// output is what the operator writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// run runs the command with the rights of its ServiceAccount until the test ends. Its
// arguments are those of the chart but for addresses: other programs listen here, too.
func run(t *testing.T, cluster *kube.Cluster) *output {
	t.Helper()
	token := strings.TrimSpace(kubectl(t, cluster, "", "-n", "toolhaven", "create", "token", "thv-operator"))
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := writeKubeconfig(kubeconfig, cluster.Config, token); err != nil {
		t.Fatal(err)
	}
	var args []string
	for _, o := range objects(t, filepath.Join(rendered, "namespaced.yaml")) {
		if o["kind"] == "Deployment" {
			args = arguments(t, o)
		}
	}
	port, err := local.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "$(POD_NAMESPACE)", "toolhaven")
	}
	args = append(args, "--kubeconfig="+kubeconfig, "--leader-election-namespace=toolhaven", "--metrics-address=0", "--health-address=0", "--webhook-port="+strconv.Itoa(port))
	logs := &output{}
	command := New(Env{Out: logs, Err: logs})
	command.SetArgs(args)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := command.ExecuteContext(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return logs
}

func writeKubeconfig(path string, config *rest.Config, token string) error {
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"test": {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"operator": {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{"test": {Cluster: "test", AuthInfo: "operator"}},
		CurrentContext: "test",
	}, path)
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if done() {
			return
		}
	}
	t.Fatalf("%s: not within %s", what, patience)
}
