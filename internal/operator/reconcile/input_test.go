//go:build unix && integration

package reconcile_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/toolhaven/toolhaven/api/v1beta1"
	"github.com/toolhaven/toolhaven/internal/externalauth"
)

// What a resource refers to is of the wrong type, or in another namespace: the condition has the
// reason, and nothing is made.
func TestWrongReferences(t *testing.T) {
	w := newWorld(t)
	w.start(-1)
	elsewhere := header("elsewhere")
	elsewhere.Namespace = w.cluster.Namespace(t)
	if err := w.client.Create(t.Context(), elsewhere); err != nil {
		t.Fatal(err)
	}
	two := signIn("two")
	second := *two.Spec.EmbeddedAuthServer.UpstreamProviders[0].DeepCopy()
	second.Name = "other"
	two.Spec.EmbeddedAuthServer.UpstreamProviders = append(two.Spec.EmbeddedAuthServer.UpstreamProviders, second)
	scopes := signIn("scopes")
	scopes.Spec.EmbeddedAuthServer.BaselineClientScopes = []string{"unheard"}
	w.create(header("header"), signIn("signin"), two, scopes, &v1beta1.MCPGroup{ObjectMeta: named("g")})
	one := ptr.To[int32](1)
	for name, row := range map[string]struct {
		change func(*v1beta1.MCPServer)
		reason string
		text   string
	}{
		"another-namespace": {func(s *v1beta1.MCPServer) { s.Spec.ExternalAuthConfigRef = to("elsewhere") }, "NotFound", "in this namespace"},
		"wrong-type":        {func(s *v1beta1.MCPServer) { s.Spec.AuthServerRef = &v1beta1.AuthServerRef{Name: "header"} }, "WrongType", "refer to one of type embeddedAuthServer"},
		"two-servers": {func(s *v1beta1.MCPServer) {
			s.Spec.AuthServerRef, s.Spec.ExternalAuthConfigRef, s.Spec.Replicas = &v1beta1.AuthServerRef{Name: "signin"}, to("signin"), one
		}, "Conflict", "spec.externalAuthConfigRef"},
		"two-providers": {func(s *v1beta1.MCPServer) {
			s.Spec.AuthServerRef, s.Spec.Replicas = &v1beta1.AuthServerRef{Name: "two"}, one
		}, "MultiUpstreamNotSupported", "2 upstream providers"},
		"no-such-scope": {func(s *v1beta1.MCPServer) {
			s.Spec.AuthServerRef, s.Spec.Replicas = &v1beta1.AuthServerRef{Name: "scopes"}, one
		}, "Invalid", "baselineClientScopes: no upstream provider has unheard"},
		"replicas": {func(s *v1beta1.MCPServer) {
			s.Spec.AuthServerRef, s.Spec.Replicas = &v1beta1.AuthServerRef{Name: "signin"}, ptr.To[int32](2)
		}, "NotDurable", "signingKeySecretRefs, hmacSecretRefs and storage of type redis"},
		"stdio": {func(s *v1beta1.MCPServer) {
			s.Spec.Transport, s.Spec.ExternalAuthConfigRef = "stdio", to("header")
		}, "TypeNotSupported", "a stdio server receives no HTTP requests"},
	} {
		s := server(name)
		row.change(s)
		w.create(s)
		w.until(s, func() string { return want(condition(s.Status.Conditions, "AuthReady"), "False "+row.reason) })
		if message := messageOf(s.Status.Conditions, "AuthReady"); !strings.Contains(message, row.text) {
			t.Errorf("%s: the message is %q, without %q", name, message, row.text)
		}
		if err := w.client.Get(t.Context(), key(w.namespace, s), &appsv1.Deployment{}); err == nil {
			t.Errorf("%s: there is a Deployment", name)
		}
	}
	entry := &v1beta1.MCPServerEntry{ObjectMeta: named("e"), Spec: v1beta1.MCPServerEntrySpec{
		RemoteServer: v1beta1.RemoteServer{RemoteURL: "https://mcp.example/mcp"}, Transport: "streamable-http", GroupRef: to("g"), ExternalAuthConfigRef: to("signin"),
	}}
	w.create(entry)
	w.until(entry, func() string { return want(condition(entry.Status.Conditions, "AuthReady"), "False WrongType") })
}

// What is as large as the API server stores it, or becomes too large together with what it refers
// to, or is not accepted as an object, is a condition and no endless attempt.
func TestLargeAndRefused(t *testing.T) {
	w := newWorld(t)
	o := w.start(-1)
	policies := func(bytes int) []string {
		return []string{"permit(principal, action, resource);\n//" + strings.Repeat("x", bytes)}
	}
	beyond := server("beyond")
	beyond.Spec.AuthzConfig = &v1beta1.AuthzConfig{Type: "inline", Inline: &v1beta1.InlineAuthz{Policies: policies(4 << 20)}}
	beyond.Namespace = w.namespace
	if err := w.client.Create(t.Context(), beyond); !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("4 MB: %v", err)
	}
	large := server("large")
	large.Spec.AuthzConfig = &v1beta1.AuthzConfig{Type: "inline", Inline: &v1beta1.InlineAuthz{Policies: policies(1<<20 - 500)}}
	tools := &v1beta1.MCPToolConfig{ObjectMeta: named("tools"), Spec: v1beta1.MCPToolConfigSpec{ToolsOverride: map[string]v1beta1.ToolOverride{}}}
	for i := range 100 {
		tools.Spec.ToolsOverride[fmt.Sprint("t", i)] = v1beta1.ToolOverride{Description: strings.Repeat("y", 6000)}
	}
	both := server("both")
	both.Spec.AuthzConfig = &v1beta1.AuthzConfig{Type: "inline", Inline: &v1beta1.InlineAuthz{Policies: policies(600 << 10)}}
	both.Spec.ToolConfigRef = to("tools")
	// The template fits by itself, and Kubernetes does not accept the pods.
	refused := server("refused")
	refused.Spec.PodTemplateSpec = raw(`{"spec":{"containers":[{"name":"mcp","ports":[{"containerPort":70000}]}]}}`)
	w.create(tools, large, both, refused)
	for _, row := range []struct {
		s            *v1beta1.MCPServer
		reason, text string
	}{
		{large, "Invalid", "the run configuration has "}, {both, "Invalid", "the run configuration has "}, {refused, "Refused", "containerPort"},
	} {
		w.until(row.s, func() string { return want(condition(row.s.Status.Conditions, "Valid"), "False "+row.reason) })
		if message := messageOf(row.s.Status.Conditions, "Valid"); !strings.Contains(message, row.text) || len(message) > 9000 {
			t.Errorf("%s: the message is %.500q, without %q", row.s.Name, message, row.text)
		}
	}
	w.settled(o)
	// The next edit repairs it.
	w.edit(refused, func() { refused.Spec.PodTemplateSpec = nil })
	w.until(refused, func() string { return want(condition(refused.Status.Conditions, "Valid"), "True Valid") })
	w.edit(both, func() { both.Spec.ToolConfigRef = nil })
	w.until(both, func() string { return want(condition(both.Status.Conditions, "Valid"), "True Valid") })
	// An environment of a megabyte is in the pods, and not in the run configuration.
	env := server("env")
	for i := range 16 {
		env.Spec.Env = append(env.Spec.Env, v1beta1.EnvVar{Name: fmt.Sprint("V", i), Value: strings.Repeat("z", 60<<10)})
	}
	w.create(env)
	w.until(env, func() string { return want(condition(env.Status.Conditions, "Valid"), "True Valid") })
	w.settled(o)
}

// A resource that is edited as fast as the API server takes it ends as the last edit says, and
// the operator writes no more often than it was edited.
func TestManyEdits(t *testing.T) {
	w := newWorld(t)
	o := w.start(-1)
	a, s := header("a"), server("s")
	s.Spec.ExternalAuthConfigRef = to("a")
	w.create(a, s)
	w.until(s, func() string { return want(condition(s.Status.Conditions, "AuthReady"), "True AuthReady") })
	w.settled(o)
	before := o.writes.Load()
	const editors, edits = 4, 25
	began := time.Now()
	var all sync.WaitGroup
	for e := range editors {
		all.Go(func() {
			for i := range edits {
				name := fmt.Sprintf("X-%d-%d", e, i)
				if i%5 == 4 {
					name = "Host" // not valid
				}
				patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"headerInjection":{"headerName":%q}}}`, name))
				if err := w.client.Patch(t.Context(), &v1beta1.MCPExternalAuthConfig{ObjectMeta: a.ObjectMeta}, patch); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%.0f edits a second", editors*edits/time.Since(began).Seconds())
	w.edit(a, func() { a.Spec.HeaderInjection.HeaderName = "X-Last" })
	w.until(a, func() string {
		if a.Status.ObservedGeneration != a.Generation {
			return fmt.Sprintf("observedGeneration is %d of %d", a.Status.ObservedGeneration, a.Generation)
		}
		return want(condition(a.Status.Conditions, "Valid"), "True Valid")
	})
	config := &corev1.ConfigMap{ObjectMeta: named("mcp-s-proxy-config")}
	w.until(config, func() string {
		if !strings.Contains(config.Data["workload.json"], "X-Last") {
			return "the last edit is not in the run configuration"
		}
		return ""
	})
	w.until(s, func() string {
		return want(condition(s.Status.Conditions, "AuthReady")+" "+s.Status.ExternalAuthConfigHash, "True AuthReady "+a.Status.ConfigHash)
	})
	w.settled(o)
	// One status of the configuration, and three objects of the server, for each edit.
	if n := o.writes.Load() - before; n > 4*(editors*edits+1)+8 {
		t.Errorf("%d writes for %d edits", n, editors*edits)
	}
}

// An API server that is gone for a while, while resources are changed as far as that is possible:
// the operator lives, and completes what was begun.
func TestAPIServerGone(t *testing.T) {
	w := newWorld(t)
	o := w.start(-1)
	w.create(header("a"))
	for i := range 5 {
		s := server(fmt.Sprintf("s%d", i))
		s.Spec.ExternalAuthConfigRef = to("a")
		w.create(s)
	}
	w.cluster.Stop(t) // in the middle of what it does for them
	time.Sleep(2 * time.Second)
	w.cluster.Restart(t)
	a := header("a")
	w.until(a, func() string {
		return want(condition(a.Status.Conditions, "Valid")+" "+references(&a.Status), "True Valid MCPServer/s0 MCPServer/s1 MCPServer/s2 MCPServer/s3 MCPServer/s4")
	})
	for i := range 5 {
		for _, child := range children(fmt.Sprintf("s%d", i)) {
			w.until(child, func() string { return "" })
		}
	}
	w.edit(a, func() { a.Spec = externalauth.Spec{Type: externalauth.TypeUnauthenticated} })
	config := &corev1.ConfigMap{ObjectMeta: named("mcp-s4-proxy-config")}
	w.until(config, func() string {
		if strings.Contains(config.Data["workload.json"], "X-Key") {
			return "the edit is not in the run configuration"
		}
		return ""
	})
	w.settled(o)
}

// An operator that ends after any write of an edit, or of a deletion, leaves what the next one
// completes: nothing stays that is no longer needed.
func TestEndedAnywhere_EditsAndDeletions(t *testing.T) {
	w := newWorld(t)
	first := w.start(-1)
	a, b, s := header("a"), header("b"), server("s")
	s.Spec.ExternalAuthConfigRef, s.Spec.Replicas = to("a"), ptr.To[int32](2)
	w.create(a, b, s)
	budget, account := &policyv1.PodDisruptionBudget{ObjectMeta: named("mcp-s-proxy")}, &corev1.ServiceAccount{ObjectMeta: named("mcp-s-proxy")}
	w.until(budget, func() string { return "" })
	w.until(a, func() string { return want(references(&a.Status), "MCPServer/s") })
	w.settled(first)
	first.stop()

	// It refers to the other configuration, needs no budget and no account of ours, and the
	// first configuration is deleted.
	w.edit(s, func() {
		s.Spec.ExternalAuthConfigRef, s.Spec.Replicas, s.Spec.ServiceAccount, s.Spec.ProxyPort = to("b"), ptr.To[int32](1), "mine", 9090
	})
	w.delete(a)
	if writes := w.endOften(); writes < 6 {
		t.Errorf("the edits took %d writes only", writes)
	}
	w.gone(a)
	w.gone(budget)
	w.gone(account)
	w.until(b, func() string { return want(references(&b.Status), "MCPServer/s") })
	service, config := &corev1.Service{ObjectMeta: named("mcp-s-proxy")}, &corev1.ConfigMap{ObjectMeta: named("mcp-s-proxy-config")}
	w.until(service, func() string { return want(fmt.Sprint(service.Spec.Ports[0].Port), "9090") })
	w.until(config, func() string { return want(fmt.Sprint(strings.Contains(config.Data["workload.json"], "9090")), "true") })
	w.until(s, func() string {
		if s.Status.ObservedGeneration != s.Generation {
			return "the status is of the generation before"
		}
		return want(s.Status.ExternalAuthConfigHash, b.Status.ConfigHash)
	})

	w.delete(b)
	w.delete(s)
	last := w.start(0) // a deletion is one write: that of the finalizer
	<-last.failed
	last.stop()
	w.start(-1)
	w.gone(s)
	w.gone(b)
}

// endOften starts operators that end after a write each, until one has nothing to write, and
// returns how many there were before.
func (w *world) endOften() int {
	w.Helper()
	for n := range 40 {
		o := w.start(1)
		select {
		case <-o.failed:
			o.stop()
		case <-time.After(3 * time.Second):
			o.stop()
			w.Logf("%d operators ended after a write each", n)
			return n
		}
	}
	w.Fatal("the operator does not come to rest")
	return 0
}
