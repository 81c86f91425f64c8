//go:build unix && integration

package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/toolhaven/toolhaven/api/v1beta1"
	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/internal/operator/reconcile"
	"github.com/toolhaven/toolhaven/test/kube"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	kube.Main(m)
}

// patience bounds what takes milliseconds on a quiet machine.
const patience = 90 * time.Second

// world is a namespace with an operator.
type world struct {
	*testing.T
	cluster   *kube.Cluster
	client    client.Client
	namespace string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	cluster := kube.Start(t)
	rights.Do(func() { grant(t, cluster.Client(t)) })
	return &world{t, cluster, cluster.Client(t), cluster.Namespace(t)}
}

// grant makes the objects of the operator's manifest.
func grant(t *testing.T, c client.Client) {
	t.Helper()
	manifest, err := os.ReadFile("../../../deploy/operator/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: named("toolhaven")}); err != nil {
		t.Fatal(err)
	}
	for text := range strings.SplitSeq(string(manifest), "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// rights are those of the operator's own manifest: every test runs with them alone.
var rights sync.Once

// operator is one that runs.
type operator struct {
	// writes counts requests that change something, requests all but watches.
	writes, requests atomic.Int64
	// failAfter makes every write fail after so many; negative for never.
	failAfter atomic.Int64
	failed    chan struct{} // closed at the first that fails
	once      sync.Once
	flight    sync.RWMutex // of writes that do not fail, for reading
	stop      func()
}

var errEnded = errors.New("the operator is being ended")

func (o *operator) wrap(next http.RoundTripper) http.RoundTripper {
	return transport(func(r *http.Request) (*http.Response, error) {
		event := strings.HasSuffix(r.URL.Path, "/events")
		if r.URL.Query().Get("watch") != "true" && !event {
			o.requests.Add(1)
		}
		if r.Method != http.MethodGet && !event {
			o.flight.RLock()
			n := o.writes.Add(1)
			if limit := o.failAfter.Load(); limit >= 0 && n > limit {
				o.flight.RUnlock()
				o.flight.Lock() // those before it reach the server
				o.once.Do(func() { close(o.failed) })
				o.flight.Unlock()
				return nil, errEnded
			}
			defer o.flight.RUnlock()
		}
		response, err := next.RoundTrip(r)
		if err == nil && r.Method == http.MethodPost && response.StatusCode == http.StatusConflict {
			o.writes.Add(-1) // it was there already
		}
		return response, err
	})
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type programs struct{}

func (programs) EntryPoint(_ context.Context, image string, _ bool) ([]string, error) {
	if strings.Contains(image, "private") {
		return nil, errors.New("the registry requires a login or has no such image")
	}
	return []string{"/server"}, nil
}

// start runs an operator until the test ends or it is stopped. failAfter is that of operator.
func (w *world) start(failAfter int64) *operator {
	w.Helper()
	o := &operator{failed: make(chan struct{})}
	o.failAfter.Store(failAfter)
	config := w.cluster.As("system:serviceaccount:toolhaven:thv-operator")
	config.Wrap(o.wrap)
	config.QPS, config.Burst = 200, 400
	scheme, err := reconcile.Scheme()
	if err != nil {
		w.Fatal(err)
	}
	caching := reconcile.Cache()
	caching.DefaultNamespaces = map[string]cache.Config{w.namespace: {}}
	mgr, err := manager.New(rest.CopyConfig(config), manager.Options{
		Scheme: scheme, Cache: caching, Logger: logr.Discard(),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: ctrlconfig.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.Context())
	if err := reconcile.Setup(ctx, mgr, reconcile.Options{GatewayImage: "thv:1", Programs: programs{}}); err != nil {
		w.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	o.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("the operator ended: %v", err)
		}
	})
	w.Cleanup(o.stop)
	return o
}

// settled waits until nothing is written for a second.
func (w *world) settled(o *operator) {
	w.Helper()
	deadline := time.Now().Add(patience)
	for last, since := o.writes.Load(), time.Now(); time.Since(since) < time.Second; time.Sleep(20 * time.Millisecond) {
		if now := o.writes.Load(); now != last {
			last, since = now, time.Now()
		}
		if time.Now().After(deadline) {
			w.Fatal("the operator does not come to rest")
		}
	}
}

func (w *world) create(objects ...client.Object) {
	w.Helper()
	for _, o := range objects {
		o.SetNamespace(w.namespace)
		if err := w.client.Create(w.Context(), o); err != nil {
			w.Fatal(err)
		}
	}
}

func (w *world) delete(o client.Object) {
	w.Helper()
	o.SetNamespace(w.namespace)
	if err := w.client.Delete(w.Context(), o); err != nil {
		w.Fatal(err)
	}
}

// edit changes an object as it is in the cluster.
func (w *world) edit(o client.Object, change func()) {
	w.Helper()
	for {
		w.read(o)
		change()
		err := w.client.Update(w.Context(), o)
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "the object has been modified") {
			w.Fatal(err)
		}
	}
}

func (w *world) read(o client.Object) {
	w.Helper()
	if err := w.client.Get(w.Context(), key(w.namespace, o), o); err != nil {
		w.Fatal(err)
	}
}

// until reads o until check passes: it returns what is wrong, or "".
func (w *world) until(o client.Object, check func() string) {
	w.Helper()
	var wrong string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		fresh(o)
		if err := w.client.Get(w.Context(), key(w.namespace, o), o); err != nil {
			wrong = err.Error()
			continue
		}
		if wrong = check(); wrong == "" {
			return
		}
	}
	w.Fatalf("%T %s: %s", o, o.GetName(), wrong)
}

func key(namespace string, o client.Object) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: o.GetName()}
}

// fresh empties the parts that a response does not have when they are empty.
func fresh(o client.Object) {
	o.SetOwnerReferences(nil)
	o.SetFinalizers(nil)
	o.SetDeletionTimestamp(nil)
	o.SetAnnotations(nil)
}

// gone waits until o is not there.
func (w *world) gone(o client.Object) {
	w.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err := w.client.Get(w.Context(), key(w.namespace, o), o); client.IgnoreNotFound(err) == nil && err != nil {
			return
		}
	}
	w.Fatalf("%T %s is still there", o, o.GetName())
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

func condition(conditions []metav1.Condition, typ string) string {
	for _, c := range conditions {
		if c.Type == typ {
			return string(c.Status) + " " + c.Reason
		}
	}
	return "none"
}

func header(name string) *v1beta1.MCPExternalAuthConfig {
	return &v1beta1.MCPExternalAuthConfig{ObjectMeta: named(name), Spec: externalauth.Spec{
		Type: externalauth.TypeHeaderInjection, HeaderInjection: &externalauth.HeaderInjection{HeaderName: "X-Key", ValueSecretRef: &externalauth.SecretRef{Name: "keys", Key: "x"}},
	}}
}

func server(name string) *v1beta1.MCPServer {
	return &v1beta1.MCPServer{ObjectMeta: named(name), Spec: v1beta1.MCPServerSpec{Image: "fetch:1", Transport: "streamable-http"}}
}

func proxy(name string) *v1beta1.MCPRemoteProxy {
	return &v1beta1.MCPRemoteProxy{ObjectMeta: named(name), Spec: v1beta1.MCPRemoteProxySpec{RemoteServer: v1beta1.RemoteServer{RemoteURL: "https://mcp.example/mcp"}}}
}

func to(name string) *v1beta1.NameRef { return &v1beta1.NameRef{Name: name} }

func references(s *v1beta1.ConfigStatus) string {
	names := make([]string, len(s.ReferencingWorkloads))
	for i, r := range s.ReferencingWorkloads {
		names[i] = r.Kind + "/" + r.Name
	}
	if int(s.ReferenceCount) != len(names) {
		return fmt.Sprintf("referenceCount is %d with %d referencingWorkloads", s.ReferenceCount, len(names))
	}
	return strings.Join(names, " ")
}

func want(got, want string) string {
	if got == want {
		return ""
	}
	return fmt.Sprintf("it is %q, not %q", got, want)
}

// Every field that refers to an MCPExternalAuthConfig counts after create, edit, rename and
// delete, and keeps the resource.
func TestReferences(t *testing.T) {
	w := newWorld(t)
	w.start(-1)
	a, b := header("a"), header("b")
	w.create(a, b, &v1beta1.MCPGroup{ObjectMeta: named("g")})
	w.until(a, func() string {
		if a.Status.ConfigHash == "" || len(a.Finalizers) != 1 {
			return "it has no hash, or no finalizer"
		}
		return want(condition(a.Status.Conditions, "Valid")+" "+references(&a.Status), "True Valid ")
	})
	first, second := server("s"), proxy("p")
	first.Spec.ExternalAuthConfigRef, second.Spec.ExternalAuthConfigRef = to("a"), to("a")
	entry := &v1beta1.MCPServerEntry{ObjectMeta: named("e"), Spec: v1beta1.MCPServerEntrySpec{
		RemoteServer: v1beta1.RemoteServer{RemoteURL: "https://mcp.example/mcp"}, Transport: "streamable-http", GroupRef: to("g"), ExternalAuthConfigRef: to("a"),
	}}
	virtual := &v1beta1.VirtualMCPServer{ObjectMeta: named("v"), Spec: v1beta1.VirtualMCPServerSpec{
		GroupRef: to("g"), IncomingAuth: &v1beta1.IncomingAuth{Type: "anonymous"},
		OutgoingAuth: &v1beta1.OutgoingAuth{Backends: map[string]v1beta1.BackendAuth{"s": {Type: "externalAuthConfigRef", ExternalAuthConfigRef: to("a")}}},
	}}
	w.create(first, second, entry, virtual)
	w.until(a, func() string {
		return want(references(&a.Status), "MCPRemoteProxy/p MCPServer/s MCPServerEntry/e VirtualMCPServer/v")
	})
	// The last reference of the virtual server moves to what it found at its backends.
	w.edit(virtual, func() { virtual.Spec.OutgoingAuth = nil })
	w.until(a, func() string { return want(references(&a.Status), "MCPRemoteProxy/p MCPServer/s MCPServerEntry/e") })
	w.read(virtual)
	virtual.Status.DiscoveredBackends = []v1beta1.DiscoveredBackend{{Name: "s", AuthConfigRef: "a"}}
	if err := w.client.Status().Update(w.Context(), virtual); err != nil {
		// The operator wrote the status meanwhile.
		w.read(virtual)
		virtual.Status.DiscoveredBackends = []v1beta1.DiscoveredBackend{{Name: "s", AuthConfigRef: "a"}}
		if err := w.client.Status().Update(w.Context(), virtual); err != nil {
			t.Fatal(err)
		}
	}
	w.until(a, func() string {
		return want(references(&a.Status), "MCPRemoteProxy/p MCPServer/s MCPServerEntry/e VirtualMCPServer/v")
	})
	w.until(virtual, func() string { return want(condition(virtual.Status.Conditions, "Ready"), "False DataPlaneMissing") })
	w.edit(first, func() { first.Spec.ExternalAuthConfigRef = to("b") })
	w.until(a, func() string {
		return want(references(&a.Status), "MCPRemoteProxy/p MCPServerEntry/e VirtualMCPServer/v")
	})
	w.until(b, func() string { return want(references(&b.Status), "MCPServer/s") })
	w.delete(entry)
	w.delete(virtual)

	w.delete(a)
	w.until(a, func() string {
		return want(condition(a.Status.Conditions, "DeletionBlocked")+" "+references(&a.Status), "True ReferencedByWorkloads MCPRemoteProxy/p")
	})
	w.delete(second)
	w.gone(a)
	w.delete(first)
	w.until(b, func() string { return want(references(&b.Status), "") })
	w.delete(b)
	w.gone(b)
}

// An invalid edit passes the schema and not the validation: the status says so of this
// generation, and the workload keeps what ran.
func TestInvalidEdit(t *testing.T) {
	w := newWorld(t)
	w.start(-1)
	a, s := header("a"), server("s")
	s.Spec.ExternalAuthConfigRef = to("a")
	w.create(a, s)
	w.until(s, func() string { return want(condition(s.Status.Conditions, "AuthReady"), "True AuthReady") })
	deployment := &appsv1.Deployment{ObjectMeta: named("s")}
	w.until(deployment, func() string { return "" })
	version, before := deployment.ResourceVersion, a.Status.ConfigHash

	w.edit(a, func() { a.Spec.HeaderInjection.HeaderName = "Host" })
	w.until(a, func() string {
		if a.Status.ObservedGeneration != a.Generation || a.Status.ConfigHash == before {
			return "observedGeneration or the hash is that of the generation before"
		}
		return want(condition(a.Status.Conditions, "Valid"), "False Invalid")
	})
	w.until(s, func() string {
		return want(condition(s.Status.Conditions, "AuthReady")+", "+string(s.Status.Phase), "False ReferenceNotValid, Failed")
	})
	w.read(deployment)
	if deployment.ResourceVersion != version {
		t.Error("an invalid edit changed the Deployment")
	}
	w.edit(a, func() { a.Spec.HeaderInjection.HeaderName = "X-Other" })
	w.until(s, func() string { return want(condition(s.Status.Conditions, "AuthReady"), "True AuthReady") })
	w.until(deployment, func() string {
		if deployment.ResourceVersion == version {
			return "a valid edit does not roll the pods"
		}
		return ""
	})
}

// A reference to what is not there yet is a condition, which ends when it comes.
func TestReferenceThatComesLater(t *testing.T) {
	w := newWorld(t)
	w.start(-1)
	s := server("s")
	s.Spec.ExternalAuthConfigRef, s.Spec.GroupRef = to("a"), to("g")
	s.Spec.AuthzConfig = &v1beta1.AuthzConfig{Type: "configMap", ConfigMap: &v1beta1.AuthzConfigMap{Name: "policies"}}
	w.create(s)
	w.until(s, func() string {
		return want(condition(s.Status.Conditions, "AuthReady")+", "+condition(s.Status.Conditions, "ReferencesReady"), "False NotFound, False NotFound")
	})
	policies := &corev1.ConfigMap{ObjectMeta: named("policies"), Data: map[string]string{"authz.json": `{"version":"1.0","type":"cedarv1","cedar":{"policies":["permit(principal, action, resource);"]}}`}}
	w.create(header("a"), &v1beta1.MCPGroup{ObjectMeta: named("g")}, policies)
	w.until(s, func() string {
		return want(condition(s.Status.Conditions, "AuthReady")+", "+condition(s.Status.Conditions, "ReferencesReady"), "True AuthReady, True ReferencesReady")
	})
	group := &v1beta1.MCPGroup{ObjectMeta: named("g")}
	w.until(group, func() string { return want(fmt.Sprint(group.Status.Servers, group.Status.ServerCount), "[s] 1") })
	config := &corev1.ConfigMap{ObjectMeta: named("mcp-s-proxy-config")}
	w.until(config, func() string {
		if !strings.Contains(config.Data["workload.json"], "permit(principal, action, resource)") {
			return "the policies are not in the run configuration"
		}
		return ""
	})
	w.edit(policies, func() {
		policies.Data["authz.json"] = strings.Replace(policies.Data["authz.json"], "permit", "forbid", 1)
	})
	w.until(config, func() string {
		if !strings.Contains(config.Data["workload.json"], "forbid(principal, action, resource)") {
			return "the changed policies are not in the run configuration"
		}
		return ""
	})
}

func children(name string) []client.Object {
	objects := []client.Object{&appsv1.Deployment{ObjectMeta: named(name)}}
	service := "mcp-" + name + "-proxy"
	return append(objects, &corev1.Service{ObjectMeta: named(service)}, &corev1.ConfigMap{ObjectMeta: named(service + "-config")}, &corev1.ServiceAccount{ObjectMeta: named(service)})
}

// Children are made again when they are deleted or changed, taken away when they are no
// longer wanted, and left alone otherwise.
func TestChildren(t *testing.T) {
	w := newWorld(t)
	o := w.start(-1)
	s := server("s")
	s.Spec.Replicas = ptr.To[int32](2)
	w.create(s)
	for _, child := range children("s") {
		w.until(child, func() string {
			if refs := child.GetOwnerReferences(); len(refs) != 1 || refs[0].Name != "s" {
				return "it is not owned by the server"
			}
			return ""
		})
		uid := child.GetUID()
		w.delete(child)
		w.until(child, func() string {
			if child.GetUID() == uid {
				return "it is still the deleted one"
			}
			return ""
		})
	}
	secret := &corev1.Secret{ObjectMeta: named("mcp-s-proxy-key")}
	w.until(secret, func() string { return want(fmt.Sprint(len(secret.Data["key"])), "32") })

	deployment := &appsv1.Deployment{ObjectMeta: named("s")}
	w.edit(deployment, func() { deployment.Spec.Template.Spec.Containers[0].Image = "other:1" })
	w.until(deployment, func() string { return want(deployment.Spec.Template.Spec.Containers[0].Image, "thv:1") })
	w.settled(o)
	writes, requests := o.writes.Load(), o.requests.Load()
	// What others add is theirs, and is no reason to write.
	w.edit(deployment, func() { deployment.Labels["team"] = "x" })
	w.settled(o)
	if n := o.writes.Load() - writes; n != 0 {
		t.Errorf("%d writes in the steady state", n)
	}
	if n := o.requests.Load() - requests; n > 1 { // the key is made sure of while no pod is available
		t.Errorf("%d requests in the steady state", n)
	}
	w.until(deployment, func() string { return want(deployment.Labels["team"], "x") })

	w.edit(s, func() { s.Spec.Replicas = nil; s.Spec.ServiceAccount = "mine" })
	w.gone(&corev1.ServiceAccount{ObjectMeta: named("mcp-s-proxy")})
	// Without a number the Deployment's own stays, for an autoscaler.
	w.settled(o)
	w.edit(deployment, func() { deployment.Spec.Replicas = ptr.To[int32](5) })
	w.settled(o)
	w.until(deployment, func() string { return want(fmt.Sprint(*deployment.Spec.Replicas), "5") })
}

// The status follows the Deployment.
func TestReady(t *testing.T) {
	w := newWorld(t)
	w.start(-1)
	s := server("s")
	w.create(s)
	deployment := &appsv1.Deployment{ObjectMeta: named("s")}
	w.until(deployment, func() string { return "" })
	w.until(s, func() string {
		return want(string(s.Status.Phase)+" "+s.Status.URL, "Pending http://mcp-s-proxy."+w.namespace+".svc:8080/mcp")
	})
	deployment.Status = appsv1.DeploymentStatus{ObservedGeneration: deployment.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
	if err := w.client.Status().Update(w.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	w.until(s, func() string {
		return want(string(s.Status.Phase)+" "+condition(s.Status.Conditions, "Ready"), "Ready True Ready")
	})
	w.edit(s, func() { s.Spec.PodTemplateSpec = raw(`{"spec":{"hostNetwork":true}}`) })
	w.until(s, func() string {
		return want(string(s.Status.Phase)+" "+condition(s.Status.Conditions, "Ready")+" "+condition(s.Status.Conditions, "PodTemplateValid"), "Failed False Invalid False Invalid")
	})
	private := &v1beta1.MCPServer{ObjectMeta: named("private"), Spec: v1beta1.MCPServerSpec{Image: "private:1"}}
	w.create(private)
	w.until(private, func() string { return want(condition(private.Status.Conditions, "Valid"), "False EntryPointUnknown") })
}

// An object that is there is adopted, unless it is another one's.
func TestAdoption(t *testing.T) {
	w := newWorld(t)
	service := &corev1.Service{ObjectMeta: named("mcp-s-proxy"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 8080}}}}
	w.create(service)
	w.start(-1)
	s := server("s")
	w.create(s)
	w.until(service, func() string {
		return want(fmt.Sprintf("%d %s", len(service.OwnerReferences), service.Spec.Selector["toolhaven.dev/workload"]), "1 s")
	})

	// The second of two resources that claim one name says so, until the first is gone.
	p := proxy("s")
	w.create(p)
	w.until(p, func() string { return want(condition(p.Status.Conditions, "Valid"), "False Conflict") })
	w.delete(s)
	for _, child := range children("s") { // what the garbage collector does in a cluster
		w.delete(child)
	}
	w.until(p, func() string { return want(condition(p.Status.Conditions, "Valid"), "True Valid") })
	deployment := &appsv1.Deployment{ObjectMeta: named("s")}
	w.until(deployment, func() string { return want(deployment.OwnerReferences[0].Kind, "MCPRemoteProxy") })
}

// An operator that ends after any write leaves what the next one completes.
func TestEndedAnywhere(t *testing.T) {
	w := newWorld(t)
	s := server("s")
	s.Spec.ExternalAuthConfigRef, s.Spec.Replicas = to("a"), ptr.To[int32](2)
	w.create(header("a"), s)
	if writes := w.endOften(); writes < 6 {
		t.Errorf("the operator came to rest after %d writes", writes)
	}
	w.complete("s")
}

// complete checks that all of a server is there.
func (w *world) complete(name string) {
	w.Helper()
	for _, child := range children(name) {
		w.until(child, func() string { return "" })
	}
	s := server(name)
	w.until(s, func() string {
		return want(condition(s.Status.Conditions, "AuthReady")+" "+string(s.Status.Phase), "True AuthReady Pending")
	})
	a := header("a")
	w.until(a, func() string {
		return want(condition(a.Status.Conditions, "Valid")+" "+references(&a.Status), "True Valid MCPServer/"+name)
	})
}

// Two operators at once, without a lease, come to the same, and to rest.
func TestTwoOperators(t *testing.T) {
	w := newWorld(t)
	first, second := w.start(-1), w.start(-1)
	a := header("a")
	w.create(a)
	var names []string
	for i := range 10 {
		s := server(fmt.Sprintf("s%d", i))
		s.Spec.ExternalAuthConfigRef = to("a")
		w.create(s)
		names = append(names, "MCPServer/"+s.Name)
	}
	slices.Sort(names)
	w.until(a, func() string { return want(references(&a.Status), strings.Join(names, " ")) })
	for i := range 10 {
		for _, child := range children(fmt.Sprintf("s%d", i)) {
			w.until(child, func() string { return "" })
		}
	}
	w.settled(first)
	w.settled(second)
}

// The operator cannot read a Secret.
func TestNoRightOnSecrets(t *testing.T) {
	w := newWorld(t)
	w.create(&corev1.Secret{ObjectMeta: named("theirs")})
	c := w.cluster.ClientFor(t, w.cluster.As("system:serviceaccount:toolhaven:thv-operator"))
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "theirs"}, &corev1.Secret{}); err == nil {
		t.Error("the operator can read a Secret")
	}
	if err := c.List(t.Context(), &corev1.SecretList{}, client.InNamespace(w.namespace)); err == nil {
		t.Error("the operator can list Secrets")
	}
}

func raw(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }
