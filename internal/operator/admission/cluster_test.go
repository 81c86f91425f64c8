//go:build unix && integration

package admission

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"

	"github.com/toolhaven/toolhaven/api/v1beta1"
	"github.com/toolhaven/toolhaven/internal/credential/aws"
	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/internal/externalauth/externalauthtest"
	"github.com/toolhaven/toolhaven/test/kube"
	"github.com/toolhaven/toolhaven/test/local"
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	kube.Main(m)
}

// patience bounds what takes a moment on a slow machine.
const patience = 2 * time.Minute

// system is a webhook that runs for one namespace of the cluster.
type system struct {
	cluster       *kube.Cluster
	api           client.Client
	namespace     string // of resources that it is asked about
	other         string // of resources that it is not asked about
	configuration string
	certificates  *Certificates
	port          int
	clock         atomic.Int64 // what the webhook's clock is ahead
}

// start starts a webhook, whose certificate is kept in the cluster if options has no
// Directory.
func start(t *testing.T, options Options, validate func(client.Object) error) *system {
	t.Helper()
	s := &system{cluster: kube.Start(t)}
	s.api = s.cluster.Client(t)
	s.namespace, s.other = s.cluster.Namespace(t), s.cluster.Namespace(t)
	s.configuration = "toolhaven-" + s.namespace
	var err error
	if s.port, err = local.FreePort(); err != nil {
		t.Fatal(err)
	}
	all := admissionregistrationv1.AllScopes
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: s.configuration},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "validate.toolhaven.dev", AdmissionReviewVersions: []string{"v1"},
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), FailurePolicy: ptr.To(admissionregistrationv1.Fail),
			ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: ptr.To(fmt.Sprintf("https://127.0.0.1:%d%s", s.port, Path))},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"toolhaven.dev"}, APIVersions: []string{"v1beta1"}, Resources: []string{"*"}, Scope: &all},
			}},
		}},
	}
	if options.Directory != "" {
		configuration.Webhooks[0].ClientConfig.CABundle, err = os.ReadFile(filepath.Join(options.Directory, keyAuthority))
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.api.Create(t.Context(), configuration); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.api.Delete(context.Background(), configuration) })
	options.Namespace, options.Secret, options.Configuration, options.Hosts = s.other, "webhook", s.configuration, []string{"127.0.0.1"}
	if s.certificates, err = NewCertificates(s.cluster.Config, options); err != nil {
		t.Fatal(err)
	}
	s.certificates.now = func() time.Time { return time.Now().Add(time.Duration(s.clock.Load())) }
	s.certificates.look = 100 * time.Millisecond
	server := webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: s.port, TLSOpts: s.certificates.tlsOptions()})
	server.Register(Path, Handler(kube.Scheme(), validate))
	run(t, s.certificates.Start)
	run(t, server.Start)
	s.eventually(t, "the webhook answers", func() error { return s.create(t, s.namespace, valid, false) })
	return s
}

// run runs something until the test ends.
func run(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := f(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
}

func (s *system) eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	t.Fatalf("%s: not within %s: %v", what, patience, err)
}

const valid = "apiVersion: toolhaven.dev/v1beta1\nkind: MCPExternalAuthConfig\nmetadata: {name: valid}\nspec: {type: unauthenticated}\n"

// create creates a resource as `kubectl apply --validate=strict` does, or checks only whether
// it could.
func (s *system) create(t *testing.T, namespace, text string, keep bool) error {
	t.Helper()
	o := s.object(t, namespace, text)
	options := []client.CreateOption{client.FieldValidation("Strict")}
	if !keep {
		options = append(options, client.DryRunAll)
	}
	return s.api.Create(t.Context(), o, options...)
}

func (s *system) object(t *testing.T, namespace, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	o.SetNamespace(namespace)
	return o
}

// The schema, the webhook and the command line decide alike about each rule, and the
// webhook's message is that of the command line. The reconciler and the gateway have the same
// table (reconcile.TestRules, pod.TestLoad_Rules).
func TestOneValidation(t *testing.T) {
	s := start(t, Options{}, Validate)
	for _, c := range slices.Concat(externalauthtest.Rules(), externalauthtest.Matchers()) {
		if !strings.Contains(c.Text, "kind: MCPExternalAuthConfig") || strings.Contains(c.Text, "---") {
			continue // about files
		}
		local := check(c.Text)
		schema := s.create(t, s.other, c.Text, false)
		both := s.create(t, s.namespace, c.Text, false)
		switch {
		case (local == nil) != (c.Want == ""):
			t.Errorf("%.3000s\nthv: %v\nwant %q", c.Text, local, c.Want)
		case local == nil && (schema != nil || both != nil):
			t.Errorf("%.3000s\nthv accepts it; schema: %v\nwebhook: %v", c.Text, schema, both)
		case local != nil && both == nil:
			t.Errorf("%.3000s\nthv refuses it, and the API server does not: %v", c.Text, local)
		case local != nil && schema == nil && !strings.Contains(both.Error(), local.Error()):
			t.Errorf("%.3000s\nthe webhook: %v\nwant %v", c.Text, both, local)
		case local != nil && schema == nil && !slices.ContainsFunc(beyondSchema, func(part string) bool { return strings.Contains(local.Error(), part) }):
			t.Errorf("%.3000s\nthe schema accepts it, and could refuse it: %v", c.Text, local)
		}
	}
}

// check is what thv reports of a file.
func check(text string) error {
	resources, err := externalauth.Parse([]byte(text))
	if err != nil || len(resources) == 0 {
		return err
	}
	return aws.Validate(&resources[0].Spec)
}

// beyondSchema are parts of the messages of rules that a schema cannot express: a URL's
// parts, names of headers, expressions, and what is case-insensitive.
var beyondSchema = []string{
	"Cookie is set by the gateway", "Mcp-Session-Id is set by the gateway", "Host is set by the gateway", "X-Forwarded-For is set by the gateway",
	"Content-Length is set by the gateway", "Transfer-Encoding is set by the gateway", "Connection is set by the gateway",
	"is not a name of a header", "http:// is for loopback only", "is not a URL with a host", "must not have a fragment",
	"is not host:port", "is not a signed JWT", "is not a path", "has the token", "has control characters", "matcher: ",
}

// What is not given has the defaults of the specification, so that `kubectl get` shows them.
func TestDefaults(t *testing.T) {
	s := start(t, Options{}, Validate)
	for path, want := range map[string]any{
		"spec.awsSts.service":                                                       "aws-mcp",
		"spec.awsSts.roleClaim":                                                     "groups",
		"spec.awsSts.sessionNameClaim":                                              "sub",
		"spec.awsSts.sessionDuration":                                               int64(3600),
		"spec.embeddedAuthServer.storage.type":                                      "memory",
		"spec.embeddedAuthServer.storage.redis.dialTimeout":                         "5s",
		"spec.embeddedAuthServer.storage.redis.readTimeout":                         "3s",
		"spec.embeddedAuthServer.storage.redis.writeTimeout":                        "3s",
		"spec.embeddedAuthServer.storage.redis.sentinelConfig.db":                   int64(0),
		"spec.embeddedAuthServer.storage.redis.sentinelConfig.sentinelService.port": int64(26379),
	} {
		text := "{type: awsSts, awsSts: {region: eu-central-1, fallbackRoleArn: 'arn:aws:iam::123456789012:role/r'}}"
		if strings.HasPrefix(path, "spec.embeddedAuthServer") {
			storage := "{type: redis, redis: {aclUserConfig: {passwordSecretRef: {name: s, key: k}}, sentinelConfig: {masterName: m, sentinelService: {name: s}}}}"
			if strings.HasSuffix(path, "storage.type") {
				storage = "{}"
			}
			text = "{type: embeddedAuthServer, embeddedAuthServer: {issuer: 'https://a.example', upstreamProviders: [{name: a, type: oidc, oidcConfig: {issuerUrl: 'https://i.example', clientId: c}}], storage: " + storage + "}}"
		}
		o := s.object(t, s.namespace, "apiVersion: toolhaven.dev/v1beta1\nkind: MCPExternalAuthConfig\nmetadata: {name: x}\nspec: "+text)
		if err := s.api.Create(t.Context(), o, client.DryRunAll); err != nil {
			t.Fatal(err)
		}
		got, _, err := unstructured.NestedFieldNoCopy(o.Object, strings.Split(path, ".")...)
		if err != nil || got != want {
			t.Errorf("%s is %v, %v; want %v", path, got, err, want)
		}
	}
}

// A field that there is not is reported: kubectl refuses it, and a client that does not validate
// receives a warning that names it.
func TestUnknownFields(t *testing.T) {
	s := start(t, Options{}, Validate)
	for _, text := range []string{
		strings.Replace(valid, "unauthenticated}", "unauthenticated, typ: x}", 1),
		"apiVersion: toolhaven.dev/v1beta1\nkind: MCPServer\nmetadata: {name: x}\nspec: {image: a, groupRef: {name: g, namespace: other}}\n",
	} {
		field := "spec.typ"
		if strings.Contains(text, "MCPServer") {
			field = "spec.groupRef.namespace" // references are to the same namespace
		}
		if err := s.create(t, s.namespace, text, false); err == nil || !strings.Contains(err.Error(), `unknown field "`+field+`"`) {
			t.Errorf("strict validation: %v", err)
		}
		out, err := s.cluster.Kubectl(t, text, "-n", s.namespace, "apply", "--validate=warn", "--dry-run=server", "-f", "-")
		if err != nil || !strings.Contains(out, `Warning: unknown field "`+field+`"`) {
			t.Errorf("validation with warnings: %v\n%s", err, out)
		}
	}
}

// Every kind: the resource, and what is reported, "" for a valid one. Those that the schema
// refuses do not reach the webhook.
func TestKinds(t *testing.T) {
	s := start(t, Options{}, Validate)
	resource := func(kind, spec string) string {
		return "apiVersion: toolhaven.dev/v1beta1\nkind: " + kind + "\nmetadata: {name: x}\nspec: " + spec + "\n"
	}
	server := func(more string) string { return resource("MCPServer", "{image: a, "+more+"}") }
	proxy := func(more string) string {
		return resource("MCPRemoteProxy", "{remoteUrl: 'https://a.example/mcp', "+more+"}")
	}
	hook := func(more string) string {
		return resource("MCPWebhookConfig", "{validating: [{name: a, url: 'https://a.example', "+more+"}]}")
	}
	for _, c := range []struct{ text, want string }{
		{server(""), ""},
		{resource("MCPServer", "{image: ''}"), "spec.image"},
		{resource("MCPServer", "{}"), "spec.image: Required value"},
		{server("transport: websocket"), "spec.transport: Unsupported value"},
		{server("transport: sse, mcpPort: 3000"), ""},
		{server("mcpPort: 3000"), "mcpPort is for transport sse or streamable-http"},
		{server("transport: sse, mcpPort: 8080"), ""},
		{server("transport: sse, mcpPort: 8081"), "mcpPort 8081 is the port of the gateway"},
		{server("transport: sse, mcpPort: 65536"), "spec.mcpPort"},
		{server("transport: sse, mcpPort: 0"), "spec.mcpPort"},
		{server("proxyPort: 65536"), "spec.proxyPort"},
		{server("proxyPort: 65535"), ""},
		{server("replicas: -1"), "spec.replicas"},
		{server("replicas: 0"), ""},
		{server("sessionAffinity: Cookie"), "spec.sessionAffinity"},
		{server("image2: b"), "unknown field \"spec.image2\""},
		{server("env: [{name: A, value: b}]"), ""},
		{server("env: [{name: A-B, value: b}]"), "A-B"},
		{server("env: [{name: A, value: b}, {name: A, value: c}]"), "Duplicate value"},
		{server("secrets: [{name: s, key: a}, {name: s, key: b}]"), ""},
		{server("secrets: [{name: s, key: A}, {name: t, key: b, targetEnvName: A}]"), "the variable A is set twice"},
		{server("volumes: [{name: v, hostPath: /a, mountPath: b}]"), "spec.volumes[0].mountPath"},
		{server("permissionProfile: {name: none}"), ""},
		{server("permissionProfile: {name: all}"), "spec.permissionProfile.name"},
		{server("resources: {limits: {cpu: 500m, memory: 1Gi}}"), ""},
		{server("resources: {limits: {cpu: much}}"), "spec.resources.limits.cpu"},
		{server("resources: {limits: {cpu: ''}}"), "spec.resources.limits.cpu"},
		{server("resources: {limits: {memory: 1GiB}}"), "spec.resources.limits.memory"},
		{server("resources: {requests: {memory: '1 Gi'}}"), "spec.resources.requests.memory"},
		{server("resources: {requests: {memory: -1Gi}}"), "spec.resources.requests.memory"},
		{server("resources: {limits: {cpu: 1}, requests: {cpu: 2}}"), "spec.resources.requests.cpu: 2 is more than the limit 1"},
		{server("resources: {limits: {cpu: 1}, requests: {cpu: 1000m}}"), ""},
		{server("oidcConfigRef: {name: o}"), "spec.oidcConfigRef.audience"},
		{server("oidcConfigRef: {name: o, audience: a}"), ""},
		{server("authServerRef: {name: a, kind: Secret}"), "spec.authServerRef.kind"},
		{server("externalAuthConfigRef: {name: ''}"), "spec.externalAuthConfigRef.name"},
		{server("authzConfig: {type: inline, inline: {policies: ['permit (principal, action, resource);']}}"), ""},
		{server("authzConfig: {type: inline, inline: {policies: ['permit (principal']}}"), "policy 1"},
		{server("authzConfig: {type: inline, inline: {policies: []}}"), "spec.authzConfig.inline.policies"},
		{server("authzConfig: {type: inline}"), "inline is required when type is inline"},
		{server("authzConfig: {configMap: {name: c}}"), ""},
		{server("authzConfig: {configMap: {name: c}}, authzConfigRef: {name: d}"), "authzConfig and authzConfigRef exclude each other"},
		{server("endpointPrefix: a b"), "prefix"},
		{server("allowedHosts: ['a:99999']"), "a:99999"},
		{server("podTemplateSpec: {spec: {nodeSelector: {a: b}}}"), ""},
		{server("podTemplateSpec: {spec: {hostNetwork: true}}"), "spec.podTemplateSpec"},
		{server("podTemplateSpec: {spec: {containers: {}}}"), "spec.podTemplateSpec"},
		{server("podTemplateSpec: [a]"), "spec.podTemplateSpec"},

		{proxy(""), ""},
		{resource("MCPRemoteProxy", "{remoteUrl: 'ftp://a.example'}"), "spec.remoteUrl"},
		{resource("MCPRemoteProxy", "{remoteUrl: 'https://169.254.169.254/'}"), "spec.remoteUrl"},
		{resource("MCPRemoteProxy", "{remoteUrl: 'https://169.254.169.254/', allowPrivateEndpoint: true}"), "spec.remoteUrl"},
		{resource("MCPRemoteProxy", "{remoteUrl: 'https://10.0.0.1/mcp'}"), "spec.remoteUrl"},
		{resource("MCPRemoteProxy", "{remoteUrl: 'https://10.0.0.1/mcp', allowPrivateEndpoint: true}"), ""},
		{proxy("transport: stdio"), "spec.transport"},
		{proxy("resources: {limits: {memory: 1Gi}, requests: {memory: 2Gi}}"), "spec.resources.requests.memory"},
		{proxy("headerForward: {addPlaintextHeaders: {X-A: b}}"), ""},
		{proxy("headerForward: {addPlaintextHeaders: {Host: b}}"), "Host"},
		{proxy("headerForward: {addHeadersFromSecret: [{headerName: X-A, valueSecretRef: {name: a}}]}"), "valueSecretRef.key"},

		{resource("MCPServerEntry", "{remoteUrl: 'https://a.example', transport: sse, groupRef: {name: g}}"), ""},
		{resource("MCPServerEntry", "{remoteUrl: 'https://a.example', transport: sse}"), "spec.groupRef"},
		{resource("MCPServerEntry", "{remoteUrl: 'https://127.0.0.1', transport: sse, groupRef: {name: g}}"), "spec.remoteUrl"},

		{resource("MCPGroup", "{description: a}"), ""},
		{"apiVersion: toolhaven.dev/v1beta1\nkind: MCPGroup\nmetadata: {name: x}\n", ""},

		{resource("MCPOIDCConfig", "{type: inline, inline: {issuer: 'https://a.example'}}"), ""},
		{resource("MCPOIDCConfig", "{type: kubernetesServiceAccount}"), ""},
		{resource("MCPOIDCConfig", "{type: inline}"), "inline is required when type is inline"},
		{resource("MCPOIDCConfig", "{type: inline, inline: {issuer: 'https://a.example'}, kubernetesServiceAccount: {}}"), "kubernetesServiceAccount must be absent"},
		{resource("MCPOIDCConfig", "{type: inline, inline: {issuer: 'http://a.example'}}"), "http"},

		{resource("MCPToolConfig", "{toolsFilter: [a, b], toolsOverride: {c: {name: a}}}"), ""},
		{resource("MCPToolConfig", "{toolsFilter: [a, a]}"), "Duplicate value"},
		{resource("MCPToolConfig", "{toolsOverride: {c: {}}}"), "neither a name nor a description"},

		{resource("MCPTelemetryConfig", "{openTelemetry: {enabled: true, endpoint: 'https://a.example:4318', tracing: {enabled: true, samplingRate: '0.5'}}}"), ""},
		{resource("MCPTelemetryConfig", "{openTelemetry: {enabled: true, tracing: {enabled: true}}}"), "endpoint is required when enabled"},
		{resource("MCPTelemetryConfig", "{openTelemetry: {enabled: true, endpoint: 'https://a.example:4318', tracing: {enabled: true, samplingRate: '1.5'}}}"), "samplingRate"},
		{resource("MCPTelemetryConfig", "{openTelemetry: {enabled: true, endpoint: 'http://a.example:4318', tracing: {enabled: true}}}"), "plain HTTP"},

		{resource("MCPAuthzConfig", "{type: cedarv1, config: {policies: ['permit (principal, action, resource);']}}"), ""},
		{resource("MCPAuthzConfig", "{type: cedarv1, config: {policies: ['permit']}}"), "policy 1"},
		{resource("MCPAuthzConfig", "{type: httpv1, config: {}}"), "spec.type"},
		{resource("MCPAuthzConfig", "{type: cedarv1}"), "spec.config"},

		{hook("failurePolicy: fail"), ""},
		{hook("timeout: 30s"), ""},
		{hook("timeout: 31s"), "must be 1s to 30s"},
		{hook("timeout: 999ms"), "must be 1s to 30s"},
		{hook("timeout: soon"), "spec.validating[0].timeout"},
		{hook("failurePolicy: retry"), "spec.validating[0].failurePolicy"},
		{hook("tlsConfig: {clientCertSecretRef: {name: a, key: b}}"), "belong together"},
		{hook("hmacSecretRef: {name: a, key: b}"), ""},
		{resource("MCPWebhookConfig", "{validating: [{name: a, url: 'http://a.example'}]}"), "url"},
		{resource("MCPWebhookConfig", "{validating: [{name: "+strings.Repeat("a", 64)+", url: 'https://a.example'}]}"), "spec.validating[0].name"},
		{resource("MCPWebhookConfig", "{validating: [{name: a, url: 'https://a.example'}, {name: a, url: 'https://b.example'}]}"), "Duplicate value"},
		{resource("MCPWebhookConfig", "{}"), "at least one of validating and mutating is required"},

		{resource("VirtualMCPServer", "{groupRef: {name: g}, incomingAuth: {type: anonymous}, config: {any: {thing: [1]}}}"), ""},
		{resource("VirtualMCPServer", "{groupRef: {name: g}, incomingAuth: {type: oidc}}"), "oidcConfigRef is required when type is oidc"},
		{resource("VirtualMCPServer", "{groupRef: {name: g}, incomingAuth: {type: anonymous}, outgoingAuth: {default: {type: externalAuthConfigRef}}}"), "externalAuthConfigRef is required"},
		{resource("VirtualMCPServer", "{groupRef: {name: g}, incomingAuth: {type: anonymous}, authServerConfig: {issuer: 'http://a.example', upstreamProviders: [{name: a, type: oidc, oidcConfig: {issuerUrl: 'https://i.example', clientId: c}}]}}"), "spec.authServerConfig.issuer: \"http://a.example\" must begin with https://"},
	} {
		err := s.create(t, s.namespace, c.text, false)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s\n%v\nwant %s", c.text, err, c.want)
		}
	}
}

// A resource that is stored and that a later version refuses: its metadata can be changed, its
// spec can be repaired and not be broken again, and it can be deleted although it has a
// finalizer.
func TestStoredInvalidResource(t *testing.T) {
	var strict bool
	s := start(t, Options{}, func(o client.Object) error {
		if strict {
			return Validate(o)
		}
		return nil
	})
	broken := "apiVersion: toolhaven.dev/v1beta1\nkind: MCPExternalAuthConfig\nmetadata: {name: x, finalizers: [toolhaven.dev/test]}\n" +
		"spec: {type: headerInjection, headerInjection: {headerName: Host, valueSecretRef: {name: a, key: b}}}\n"
	if err := s.create(t, s.namespace, broken, true); err != nil {
		t.Fatal(err)
	}
	strict = true
	key := client.ObjectKey{Namespace: s.namespace, Name: "x"}
	change := func(f func(*v1beta1.MCPExternalAuthConfig)) error {
		o := &v1beta1.MCPExternalAuthConfig{}
		if err := s.api.Get(t.Context(), key, o); err != nil {
			t.Fatal(err)
		}
		f(o)
		return s.api.Update(t.Context(), o)
	}
	if err := change(func(o *v1beta1.MCPExternalAuthConfig) { o.Labels = map[string]string{"a": "b"} }); err != nil {
		t.Errorf("change a label: %v", err)
	}
	if err := change(func(o *v1beta1.MCPExternalAuthConfig) { o.Spec.HeaderInjection.ValueSecretRef.Key = "c" }); err == nil || !strings.Contains(err.Error(), "Host is set by the gateway") {
		t.Errorf("change the spec, still broken: %v", err)
	}
	if err := change(func(o *v1beta1.MCPExternalAuthConfig) { o.Spec.HeaderInjection.HeaderName = "X-A" }); err != nil {
		t.Errorf("repair the spec: %v", err)
	}
	strict = false
	if err := change(func(o *v1beta1.MCPExternalAuthConfig) { o.Spec.HeaderInjection.HeaderName = "Host" }); err != nil {
		t.Fatal(err)
	}
	strict = true
	if err := s.api.Delete(t.Context(), &v1beta1.MCPExternalAuthConfig{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "x"}}); err != nil {
		t.Fatal(err)
	}
	if err := change(func(o *v1beta1.MCPExternalAuthConfig) { o.Finalizers = nil }); err != nil {
		t.Errorf("remove the finalizer: %v", err)
	}
}

// The certificate survives what happens to it: each time the API server trusts the webhook
// again by itself.
func TestCertificates(t *testing.T) {
	s := start(t, Options{}, Validate)
	secret := client.ObjectKey{Namespace: s.other, Name: "webhook"}
	get := func() *corev1.Secret {
		o := &corev1.Secret{}
		if err := s.api.Get(t.Context(), secret, o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	answers := func() error { return s.create(t, s.namespace, valid, false) }
	serves := func(certificate []byte) error {
		conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", fmt.Sprint(s.port))) //nolint:gosec // the certificate is compared
		if err != nil {
			return err
		}
		defer conn.Close()
		leaf := conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
		if string(encode("CERTIFICATE", leaf.Raw)) != string(certificate) {
			return fmt.Errorf("it serves another certificate, of %s", leaf.NotBefore)
		}
		return nil
	}
	t.Run("the configuration is applied again without a bundle", func(t *testing.T) {
		o := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		if err := s.api.Get(t.Context(), client.ObjectKey{Name: s.configuration}, o); err != nil {
			t.Fatal(err)
		}
		o.Webhooks[0].ClientConfig.CABundle = nil
		if err := s.api.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		s.eventually(t, "the webhook answers", answers)
	})
	t.Run("the Secret is deleted", func(t *testing.T) {
		old := get()
		if err := s.api.Delete(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		s.eventually(t, "there is a new one", func() error {
			o := &corev1.Secret{}
			if err := s.api.Get(t.Context(), secret, o); err != nil {
				return err
			}
			return serves(o.Data[keyCertificate])
		})
		s.eventually(t, "the webhook answers", answers)
	})
	t.Run("the Secret has garbage", func(t *testing.T) {
		old := get()
		old.Data[keyPrivate] = []byte("x")
		if err := s.api.Update(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		s.eventually(t, "it is repaired", func() error {
			o := get()
			if string(o.Data[keyPrivate]) == "x" {
				return fmt.Errorf("it is not")
			}
			return serves(o.Data[keyCertificate])
		})
		s.eventually(t, "the webhook answers", answers)
	})
	t.Run("it is near its end", func(t *testing.T) {
		old := get()
		p, err := newPair([]string{"127.0.0.1"}, time.Now().Add(-validity+renewal/2))
		if err != nil {
			t.Fatal(err)
		}
		old.Data = map[string][]byte{keyAuthority: p.authority, keyCertificate: p.certificate, keyPrivate: p.key}
		if err := s.api.Update(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		s.eventually(t, "it is replaced", func() error {
			o := get()
			if string(o.Data[keyCertificate]) == string(p.certificate) {
				return fmt.Errorf("it is not")
			}
			return serves(o.Data[keyCertificate])
		})
		s.eventually(t, "the webhook answers", answers)
	})
	t.Run("the clock jumps, and jumps back", func(t *testing.T) {
		old := get()
		replaced := func() error {
			if got := get(); string(got.Data[keyCertificate]) != string(old.Data[keyCertificate]) {
				return serves(got.Data[keyCertificate])
			}
			return fmt.Errorf("it is not")
		}
		s.clock.Store(int64(validity - renewal/2)) // the old one is near its end there
		s.eventually(t, "it is replaced", replaced)
		if err := answers(); err == nil {
			t.Error("the API server trusts a certificate of the future")
		}
		old = get()
		s.clock.Store(0)
		s.eventually(t, "it is replaced again", replaced)
		s.eventually(t, "the webhook answers", answers)
	})
	t.Run("another operator serves the same", func(t *testing.T) {
		second, err := NewCertificates(s.cluster.Config, s.certificates.options)
		if err != nil {
			t.Fatal(err)
		}
		before := get()
		if _, _, err := second.ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := get(); got.ResourceVersion != before.ResourceVersion {
			t.Error("it wrote the Secret, which was valid")
		}
	})
	t.Run("the API server is gone for a while", func(t *testing.T) {
		s.cluster.Stop(t)
		s.cluster.Restart(t)
		s.eventually(t, "the webhook answers", answers)
	})
}

// Files of another program are served, and changed ones are read again.
func TestCertificateFiles(t *testing.T) {
	dir := t.TempDir()
	write := func() {
		p, err := newPair([]string{"127.0.0.1"}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string][]byte{keyAuthority: p.authority, keyCertificate: p.certificate, keyPrivate: p.key} {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	write()
	s := start(t, Options{Directory: dir}, Validate)
	if err := s.create(t, s.namespace, strings.Replace(valid, "unauthenticated", "bearerToken", 1), false); err == nil {
		t.Error("an invalid resource is accepted")
	}
	if err := s.api.Get(t.Context(), client.ObjectKey{Namespace: s.other, Name: "webhook"}, &corev1.Secret{}); err == nil {
		t.Error("a Secret was made, although the files are another program's")
	}
}
