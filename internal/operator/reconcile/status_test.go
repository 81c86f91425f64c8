//go:build unix && integration

package reconcile_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/toolhaven/toolhaven/api/v1beta1"
	"github.com/toolhaven/toolhaven/internal/externalauth"
)

// referrer is a resource with a field that refers to an MCPExternalAuthConfig.
type referrer struct {
	kind, field string
	make        func(name string) client.Object
	refer       func(o client.Object, to string)
}

func referrers() []referrer {
	makeServer := func(name string) client.Object { return server(name) }
	makeProxy := func(name string) client.Object { return proxy(name) }
	makeVirtual := func(name string) client.Object {
		return &v1beta1.VirtualMCPServer{ObjectMeta: named(name), Spec: v1beta1.VirtualMCPServerSpec{GroupRef: to("g"), IncomingAuth: &v1beta1.IncomingAuth{Type: "anonymous"}}}
	}
	return []referrer{
		{"MCPServer", "externalAuthConfigRef", makeServer, func(o client.Object, name string) { o.(*v1beta1.MCPServer).Spec.ExternalAuthConfigRef = to(name) }},
		{"MCPServer", "authServerRef", makeServer, func(o client.Object, name string) {
			o.(*v1beta1.MCPServer).Spec.AuthServerRef = &v1beta1.AuthServerRef{Name: name}
		}},
		{"MCPRemoteProxy", "externalAuthConfigRef", makeProxy, func(o client.Object, name string) {
			o.(*v1beta1.MCPRemoteProxy).Spec.ExternalAuthConfigRef = to(name)
		}},
		{"MCPRemoteProxy", "authServerRef", makeProxy, func(o client.Object, name string) {
			o.(*v1beta1.MCPRemoteProxy).Spec.AuthServerRef = &v1beta1.AuthServerRef{Name: name}
		}},
		{"MCPServerEntry", "externalAuthConfigRef", func(name string) client.Object {
			return &v1beta1.MCPServerEntry{ObjectMeta: named(name), Spec: v1beta1.MCPServerEntrySpec{
				RemoteServer: v1beta1.RemoteServer{RemoteURL: "https://mcp.example/mcp"}, Transport: "streamable-http", GroupRef: to("g"),
			}}
		}, func(o client.Object, name string) {
			o.(*v1beta1.MCPServerEntry).Spec.ExternalAuthConfigRef = to(name)
		}},
		{"VirtualMCPServer", "outgoingAuth.default", makeVirtual, func(o client.Object, name string) {
			o.(*v1beta1.VirtualMCPServer).Spec.OutgoingAuth = &v1beta1.OutgoingAuth{Default: &v1beta1.BackendAuth{Type: "externalAuthConfigRef", ExternalAuthConfigRef: to(name)}}
		}},
		{"VirtualMCPServer", "outgoingAuth.backends", makeVirtual, func(o client.Object, name string) {
			o.(*v1beta1.VirtualMCPServer).Spec.OutgoingAuth = &v1beta1.OutgoingAuth{Backends: map[string]v1beta1.BackendAuth{"x": {Type: "externalAuthConfigRef", ExternalAuthConfigRef: to(name)}}}
		}},
	}
}

// Every field of every kind that refers to an MCPExternalAuthConfig counts after create, edit,
// rename and delete, and keeps the resource until the last reference goes.
func TestEveryReferrer(t *testing.T) {
	w := newWorld(t)
	w.start(-1)
	w.create(&v1beta1.MCPGroup{ObjectMeta: named("g")})
	for i, row := range referrers() {
		t.Run(row.kind+" "+row.field, func(t *testing.T) {
			w := &world{t, w.cluster, w.client, w.namespace}
			a, b := header(fmt.Sprintf("a%d", i)), header(fmt.Sprintf("b%d", i))
			w.create(a, b)
			expect := func(config *v1beta1.MCPExternalAuthConfig, names ...string) {
				t.Helper()
				var all []string
				for _, name := range names {
					all = append(all, row.kind+"/"+name)
				}
				w.until(config, func() string { return want(references(&config.Status), strings.Join(all, " ")) })
			}
			first, second := fmt.Sprintf("first%d", i), fmt.Sprintf("second%d", i)
			o := row.make(first)
			row.refer(o, a.Name)
			w.create(o)
			expect(a, first)
			w.edit(o, func() { row.refer(o, b.Name) })
			expect(a)
			expect(b, first)
			renamed := row.make(second)
			row.refer(renamed, b.Name)
			w.create(renamed)
			expect(b, first, second)
			w.delete(o)
			expect(b, second)
			w.delete(b)
			w.until(b, func() string {
				if message := messageOf(b.Status.Conditions, "DeletionBlocked"); !strings.Contains(message, row.kind+" "+second) {
					return fmt.Sprintf("DeletionBlocked is %q", message)
				}
				return want(condition(b.Status.Conditions, "DeletionBlocked"), "True ReferencedByWorkloads")
			})
			w.delete(renamed)
			went := time.Now()
			w.gone(b)
			t.Logf("gone %s after the last reference", time.Since(went).Round(time.Millisecond))
			w.delete(a)
			w.gone(a)
		})
	}
}

// An authorization server with a provider that does not identify persons has a condition, until
// the provider does, and not as another type.
func TestIdentitySynthesized(t *testing.T) {
	w := newWorld(t)
	w.start(-1)
	o := signIn("a")
	o.Spec.EmbeddedAuthServer.UpstreamProviders[0] = externalauth.UpstreamProvider{Name: "github", Type: externalauth.UpstreamOAuth2, OAuth2: &externalauth.OAuth2{
		AuthorizationEndpoint: "https://i.example/a", TokenEndpoint: "https://i.example/t", ClientID: "c",
	}}
	w.create(o)
	is := func(expected string) {
		t.Helper()
		w.until(o, func() string { return want(condition(o.Status.Conditions, "IdentitySynthesized"), expected) })
	}
	is("True OAuth2UpstreamWithoutUserInfo")
	if message := messageOf(o.Status.Conditions, "IdentitySynthesized"); !strings.Contains(message, "github") || !strings.Contains(message, "userInfo") {
		t.Errorf("the message is %q", message)
	}
	w.edit(o, func() {
		o.Spec.EmbeddedAuthServer.UpstreamProviders[0].OAuth2.UserInfo = &externalauth.UserInfo{EndpointURL: "https://i.example/u"}
	})
	is("False AllUpstreamsHaveUserInfo")
	w.edit(o, func() { o.Spec = header("a").Spec })
	is("none")
}

// signIn is an authorization server.
func signIn(name string) *v1beta1.MCPExternalAuthConfig {
	return &v1beta1.MCPExternalAuthConfig{ObjectMeta: named(name), Spec: externalauth.Spec{
		Type: externalauth.TypeEmbeddedAuthServer, EmbeddedAuthServer: &externalauth.EmbeddedAuthServer{
			Issuer: "https://tools.example", UpstreamProviders: []externalauth.UpstreamProvider{
				{Name: "corp", Type: externalauth.UpstreamOIDC, OIDC: &externalauth.OIDC{IssuerURL: "https://i.example", ClientID: "c"}},
			},
		},
	}}
}

// events are those about an object, as REASON*COUNT, sorted.
func (w *world) events(ctx context.Context, kind, name string) string {
	w.Helper()
	var list eventsv1.EventList
	if err := w.client.List(ctx, &list, client.InNamespace(w.namespace)); err != nil {
		w.Fatal(err)
	}
	counts := map[string]int32{}
	for _, e := range list.Items {
		if e.Regarding.Kind != kind || e.Regarding.Name != name {
			continue
		}
		counts[e.Type+" "+e.Reason]++
		if e.Series != nil {
			counts[e.Type+" "+e.Reason] += e.Series.Count - 1
		}
	}
	var all []string
	for what, n := range counts {
		all = append(all, fmt.Sprintf("%s*%d", what, n))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// There is an event when a condition changes, or begins as it should not be, and no other one.
func TestEvents(t *testing.T) {
	w := newWorld(t)
	o := w.start(-1)
	a := header("a")
	w.create(a)
	valid := func(expected string) {
		t.Helper()
		w.until(a, func() string {
			if a.Status.ObservedGeneration != a.Generation {
				return "it was not looked at"
			}
			return want(condition(a.Status.Conditions, "Valid"), expected)
		})
	}
	edit := func(name, expected string) {
		t.Helper()
		w.edit(a, func() { a.Spec.HeaderInjection.HeaderName = name })
		valid(expected)
	}
	valid("True Valid")
	edit("X-Other", "True Valid")
	edit("Host", "False Invalid")
	edit("Cookie", "False Invalid") // another message, and no transition
	edit("X-Other", "True Valid")
	s := server("s")
	s.Spec.ExternalAuthConfigRef = to("a")
	w.create(s)
	w.until(a, func() string { return want(references(&a.Status), "MCPServer/s") })
	w.delete(a)
	w.until(a, func() string {
		return want(condition(a.Status.Conditions, "DeletionBlocked"), "True ReferencedByWorkloads")
	})
	w.settled(o)
	expected := "Normal Valid*1, Warning Invalid*1, Warning ReferencedByWorkloads*1"
	var got string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if got = w.events(t.Context(), "MCPExternalAuthConfig", "a"); got == expected {
			break
		}
	}
	if got != expected {
		t.Errorf("events are %s\nwant %s", got, expected)
	}
	w.delete(s)
	w.gone(a)
}
