package translate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/toolhaven/toolhaven/api/v1beta1"
	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/internal/operator/render"
	"github.com/toolhaven/toolhaven/internal/workload"
)

var options = Options{GatewayImage: "thv:1", EntryPoint: []string{"/server"}}

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: "tools"} }

func stdioServer() *v1beta1.MCPServer {
	return &v1beta1.MCPServer{ObjectMeta: meta("fetch"), Spec: v1beta1.MCPServerSpec{Image: "fetch:1", Transport: "stdio"}}
}

func httpServer() *v1beta1.MCPServer {
	o := stdioServer()
	o.Spec.Transport = "streamable-http"
	return o
}

func remoteProxy() *v1beta1.MCPRemoteProxy {
	return &v1beta1.MCPRemoteProxy{ObjectMeta: meta("fetch"), Spec: v1beta1.MCPRemoteProxySpec{RemoteServer: v1beta1.RemoteServer{RemoteURL: "https://mcp.example/mcp"}}}
}

func ref(name, key string) *v1beta1.SecretRef { return &v1beta1.SecretRef{Name: name, Key: key} }

// externalAuths has a resource of each type.
func externalAuths() map[externalauth.Type]*v1beta1.MCPExternalAuthConfig {
	specs := []externalauth.Spec{
		{Type: externalauth.TypeTokenExchange, TokenExchange: &externalauth.TokenExchange{TokenURL: "https://idp.example/token", Audience: "x", ClientID: "c", ClientSecretRef: ref("exchange", "secret")}},
		{Type: externalauth.TypeHeaderInjection, HeaderInjection: &externalauth.HeaderInjection{HeaderName: "X-Key", ValueSecretRef: ref("keys", "x")}},
		{Type: externalauth.TypeBearerToken, BearerToken: &externalauth.BearerToken{TokenSecretRef: ref("tokens", "t")}},
		{Type: externalauth.TypeUnauthenticated},
		{Type: externalauth.TypeEmbeddedAuthServer, EmbeddedAuthServer: embedded()},
		{Type: externalauth.TypeAWSSTS, AWSSTS: &externalauth.AWSSTS{Region: "eu-west-1", FallbackRoleARN: "arn:aws:iam::123456789012:role/r"}},
		{Type: externalauth.TypeUpstreamInject, UpstreamInject: &externalauth.UpstreamInject{ProviderName: "github"}},
	}
	all := map[externalauth.Type]*v1beta1.MCPExternalAuthConfig{}
	for _, spec := range specs {
		all[spec.Type] = &v1beta1.MCPExternalAuthConfig{ObjectMeta: meta("auth"), Spec: spec}
	}
	return all
}

func embedded() *externalauth.EmbeddedAuthServer {
	return &externalauth.EmbeddedAuthServer{
		Issuer: "https://tools.example",
		UpstreamProviders: []externalauth.UpstreamProvider{{
			Name: "github", Type: externalauth.UpstreamOIDC,
			OIDC: &externalauth.OIDC{IssuerURL: "https://idp.example", ClientID: "c", ClientSecretRef: ref("idp", "secret")},
		}},
	}
}

// Each type of MCPExternalAuthConfig works at each kind, or is a problem that says why not.
func TestEveryTypeAtEveryKind(t *testing.T) {
	t.Parallel()
	const works = ""
	// With clients that have no tokens, with those of an issuer, and with those of an
	// authorization server.
	want := map[externalauth.Type]map[string][3]string{
		externalauth.TypeTokenExchange:   {"stdio": {ReasonUnsupported, ReasonUnsupported, ReasonUnsupported}, "http": {ReasonUnsupported, works, works}, "remote": {ReasonUnsupported, works, works}},
		externalauth.TypeHeaderInjection: {"stdio": {ReasonUnsupported, ReasonUnsupported, ReasonUnsupported}, "http": {works, works, works}, "remote": {works, works, works}},
		externalauth.TypeBearerToken:     {"stdio": {ReasonUnsupported, ReasonUnsupported, ReasonUnsupported}, "http": {works, works, works}, "remote": {works, works, works}},
		externalauth.TypeUnauthenticated: {"stdio": {works, works, works}, "http": {works, works, works}, "remote": {works, works, works}},
		externalauth.TypeEmbeddedAuthServer: {
			"stdio": {works, ReasonConflict, ReasonConflict}, "http": {works, ReasonConflict, ReasonConflict}, "remote": {works, ReasonConflict, ReasonConflict},
		},
		externalauth.TypeAWSSTS:         {"stdio": {ReasonUnsupported, ReasonUnsupported, ReasonUnsupported}, "http": {ReasonUnsupported, works, works}, "remote": {ReasonUnsupported, works, works}},
		externalauth.TypeUpstreamInject: {"stdio": {ReasonUnsupported, ReasonUnsupported, ReasonUnsupported}, "http": {ReasonUnsupported, ReasonInvalid, works}, "remote": {ReasonUnsupported, ReasonInvalid, works}},
	}
	oidc := &v1beta1.MCPOIDCConfig{ObjectMeta: meta("oidc"), Spec: v1beta1.MCPOIDCConfigSpec{Type: v1beta1.OIDCInlineType, Inline: &v1beta1.InlineOIDC{Issuer: "https://other.example"}}}
	for typ, auth := range externalAuths() {
		for i, incoming := range []string{"no tokens", "an issuer", "an authorization server"} {
			for _, kind := range []string{"stdio", "http", "remote"} {
				t.Run(fmt.Sprintf("%s/%s/%s", typ, kind, incoming), func(t *testing.T) {
					t.Parallel()
					from := &Resolved{ExternalAuth: auth}
					change := func(p *v1beta1.ProxySpec) {
						p.ExternalAuthConfigRef, p.Replicas = &v1beta1.NameRef{Name: "auth"}, ptr.To[int32](1)
						switch i {
						case 1:
							p.OIDCConfigRef, from.OIDC = &v1beta1.OIDCConfigRef{Name: "oidc", Audience: "tools"}, oidc
						case 2:
							p.AuthServerRef, from.AuthServer = &v1beta1.AuthServerRef{Name: "signin"}, externalAuths()[externalauth.TypeEmbeddedAuthServer]
						}
					}
					w, problems := translated(kind, change, from)
					expected := want[typ][kind][i]
					if expected == works {
						if w == nil {
							t.Fatalf("it does not work: %v", problems)
						}
						if err := workload.Validate(w.Spec); err != nil {
							t.Error(err)
						}
						if _, err := render.Objects(w); err != nil {
							t.Error(err)
						}
						return
					}
					if w != nil || !slices.ContainsFunc(problems, func(p Problem) bool { return p.Condition == v1beta1.ConditionAuthReady && p.Reason == expected }) {
						t.Errorf("problems are %v, not one of AuthReady with the reason %s", problems, expected)
					}
				})
			}
		}
	}
}

func translated(kind string, change func(*v1beta1.ProxySpec), from *Resolved) (*render.Workload, []Problem) {
	switch kind {
	case "remote":
		o := remoteProxy()
		change(&o.Spec.ProxySpec)
		return RemoteProxy(o, from, options)
	case "http":
		o := httpServer()
		change(&o.Spec.ProxySpec)
		return Server(o, from, options)
	}
	o := stdioServer()
	change(&o.Spec.ProxySpec)
	return Server(o, from, options)
}

// The gateway has the keys that its configuration names as files, and no others.
func TestServer_Secrets(t *testing.T) {
	t.Parallel()
	o := httpServer()
	o.Spec.Secrets = []v1beta1.SecretEnv{{Name: "server", Key: "TOKEN"}}
	o.Spec.WebhookConfigRef = &v1beta1.NameRef{Name: "hooks"}
	o.Spec.ExternalAuthConfigRef = &v1beta1.NameRef{Name: "auth"}
	from := &Resolved{
		ExternalAuth: externalAuths()[externalauth.TypeHeaderInjection],
		Webhooks: &v1beta1.MCPWebhookConfig{ObjectMeta: meta("hooks"), Spec: v1beta1.MCPWebhookConfigSpec{Validating: []v1beta1.Webhook{{
			Name: "a", URL: "https://hook.example/", HMACSecretRef: ref("hook", "hmac"), TLSConfig: &v1beta1.WebhookTLS{CASecretRef: ref("hook", "ca.crt")},
		}}}},
	}
	w, problems := Server(o, from, options)
	if w == nil {
		t.Fatal(problems)
	}
	if got, want := fmt.Sprint(w.Secrets), "map[hook:[hmac ca.crt] keys:[x]]"; got != want {
		t.Errorf("secrets of the gateway are %s, want %s", got, want)
	}
	if env := w.Server.Env; len(env) != 1 || env[0].Name != "TOKEN" || env[0].ValueFrom.SecretKeyRef.Name != "server" {
		t.Errorf("the server's environment is %v", env)
	}
	if got := w.Spec.Webhooks.Validating[0].HMACSecretRef; got != "/etc/thv/secrets/hook/hmac" {
		t.Errorf("the key of the webhook is read from %s", got)
	}
}

func TestServer_Problems(t *testing.T) {
	t.Parallel()
	signIn := func(change func(*externalauth.EmbeddedAuthServer)) *Resolved {
		o := externalAuths()[externalauth.TypeEmbeddedAuthServer]
		change(o.Spec.EmbeddedAuthServer)
		return &Resolved{AuthServer: o}
	}
	durable := func(x *externalauth.EmbeddedAuthServer) {
		x.SigningKeySecretRefs, x.HMACSecretRefs = []externalauth.SecretRef{*ref("k", "a")}, []externalauth.SecretRef{*ref("k", "b")}
		x.Storage = &externalauth.Storage{Type: "redis", Redis: &externalauth.Redis{
			ACLUserConfig:  &externalauth.ACLUser{PasswordSecretRef: ref("k", "c")},
			SentinelConfig: &externalauth.Sentinel{MasterName: "m", Service: &externalauth.SentinelService{Name: "sentinels"}},
		}}
	}
	for name, row := range map[string]struct {
		change    func(*v1beta1.MCPServer)
		from      *Resolved
		condition string // "" is none
		reason    string
	}{
		"nothing":             {func(*v1beta1.MCPServer) {}, nil, "", ""},
		"a missing reference": {func(o *v1beta1.MCPServer) { o.Spec.ToolConfigRef = &v1beta1.NameRef{Name: "x"} }, nil, v1beta1.ConditionReferencesReady, ReasonNotFound},
		"a missing issuer":    {func(o *v1beta1.MCPServer) { o.Spec.OIDCConfigRef = &v1beta1.OIDCConfigRef{Name: "x", Audience: "a"} }, nil, v1beta1.ConditionAuthReady, ReasonNotFound},
		"a missing group":     {func(o *v1beta1.MCPServer) { o.Spec.GroupRef = &v1beta1.NameRef{Name: "x"} }, nil, v1beta1.ConditionReferencesReady, ReasonNotFound},
		"a missing bundle": {func(o *v1beta1.MCPServer) {
			o.Spec.CABundleRef = &v1beta1.CABundleRef{ConfigMapRef: &v1beta1.ConfigMapKey{Name: "ca", Key: "k"}}
		}, nil, v1beta1.ConditionReferencesReady, ReasonNotFound},
		"a bundle without key": {func(o *v1beta1.MCPServer) {
			o.Spec.CABundleRef = &v1beta1.CABundleRef{ConfigMapRef: &v1beta1.ConfigMapKey{Name: "ca", Key: "k"}}
		}, &Resolved{ConfigMaps: map[string]map[string]string{"ca": {}}}, v1beta1.ConditionReferencesReady, ReasonNotFound},
		"an invalid reference": {func(o *v1beta1.MCPServer) { o.Spec.ExternalAuthConfigRef = &v1beta1.NameRef{Name: "x"} }, &Resolved{ExternalAuth: &v1beta1.MCPExternalAuthConfig{Spec: externalauth.Spec{Type: externalauth.TypeBearerToken}}}, v1beta1.ConditionAuthReady, ReasonNotValid},
		"another type":         {func(o *v1beta1.MCPServer) { o.Spec.AuthServerRef = &v1beta1.AuthServerRef{Name: "x"} }, &Resolved{AuthServer: externalAuths()[externalauth.TypeBearerToken]}, v1beta1.ConditionAuthReady, ReasonWrongType},
		"two providers": {func(o *v1beta1.MCPServer) {
			o.Spec.AuthServerRef, o.Spec.Replicas = &v1beta1.AuthServerRef{Name: "x"}, ptr.To[int32](1)
		}, signIn(func(x *externalauth.EmbeddedAuthServer) {
			second := x.UpstreamProviders[0]
			second.Name = "other"
			x.UpstreamProviders = append(x.UpstreamProviders, second)
		}), v1beta1.ConditionAuthReady, ReasonManyUpstreams},
		"replicas without keys": {func(o *v1beta1.MCPServer) {
			o.Spec.AuthServerRef, o.Spec.Replicas = &v1beta1.AuthServerRef{Name: "x"}, ptr.To[int32](2)
		}, signIn(func(*externalauth.EmbeddedAuthServer) {}), v1beta1.ConditionAuthReady, ReasonNotDurable},
		"an autoscaler": {func(o *v1beta1.MCPServer) { o.Spec.AuthServerRef = &v1beta1.AuthServerRef{Name: "x"} }, signIn(func(*externalauth.EmbeddedAuthServer) {}), v1beta1.ConditionAuthReady, ReasonNotDurable},
		"replicas with keys": {func(o *v1beta1.MCPServer) {
			o.Spec.AuthServerRef, o.Spec.Replicas = &v1beta1.AuthServerRef{Name: "x"}, ptr.To[int32](2)
		}, signIn(durable), "", ""},
		"a variable twice": {func(o *v1beta1.MCPServer) {
			o.Spec.Env, o.Spec.Secrets = []v1beta1.EnvVar{{Name: "A"}}, []v1beta1.SecretEnv{{Name: "s", Key: "A"}}
		}, nil, v1beta1.ConditionValid, ReasonConflict},
		"no variable's name": {func(o *v1beta1.MCPServer) { o.Spec.Secrets = []v1beta1.SecretEnv{{Name: "s", Key: "a.b"}} }, nil, v1beta1.ConditionValid, ReasonInvalid},
		"the gateway's port": {func(o *v1beta1.MCPServer) { o.Spec.Transport, o.Spec.MCPPort = "sse", ptr.To[int32](8081) }, nil, v1beta1.ConditionValid, ReasonInvalid},
		"one port for both": {func(o *v1beta1.MCPServer) {
			o.Spec.Transport, o.Spec.MCPPort, o.Spec.ProxyPort = "sse", ptr.To[int32](8080), 8080
		}, nil, "", ""},
		"no network, and OIDC": {func(o *v1beta1.MCPServer) {
			o.Spec.PermissionProfile, o.Spec.AuthServerRef, o.Spec.Replicas = &v1beta1.PermissionProfile{Name: "none"}, &v1beta1.AuthServerRef{Name: "x"}, ptr.To[int32](1)
		}, signIn(func(*externalauth.EmbeddedAuthServer) {}), v1beta1.ConditionValid, ReasonConflict},
		"no network": {func(o *v1beta1.MCPServer) { o.Spec.PermissionProfile = &v1beta1.PermissionProfile{Name: "none"} }, nil, "", ""},
		"policies that are none": {func(o *v1beta1.MCPServer) {
			o.Spec.AuthzConfig = &v1beta1.AuthzConfig{Type: "inline", Inline: &v1beta1.InlineAuthz{Policies: []string{"x"}}}
		}, nil, v1beta1.ConditionValid, ReasonInvalid},
		"policies": {func(o *v1beta1.MCPServer) {
			o.Spec.AuthzConfig = &v1beta1.AuthzConfig{Type: "inline", Inline: &v1beta1.InlineAuthz{Policies: []string{"permit(principal, action, resource);"}, EntitiesJSON: "[]"}}
		}, nil, "", ""},
		"policies of a file": {func(o *v1beta1.MCPServer) {
			o.Spec.AuthzConfig = &v1beta1.AuthzConfig{Type: "configMap", ConfigMap: &v1beta1.AuthzConfigMap{Name: "p"}}
		}, &Resolved{ConfigMaps: map[string]map[string]string{"p": {"authz.json": `{"version":"1.0","type":"cedarv1","cedar":{"policies":["permit(principal, action, resource);"]}}`}}}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, from := stdioServer(), row.from
			if from == nil {
				from = &Resolved{}
			}
			row.change(o)
			w, problems := Server(o, from, options)
			if row.condition == "" {
				if w == nil {
					t.Fatalf("problems: %v", problems)
				}
				return
			}
			if w != nil || len(problems) == 0 || problems[0].Condition != row.condition || problems[0].Reason != row.reason {
				t.Errorf("problems are %v, want %s %s", problems, row.condition, row.reason)
			}
		})
	}
}

func TestServer_NoEntryPoint(t *testing.T) {
	t.Parallel()
	_, problems := Server(stdioServer(), &Resolved{}, Options{GatewayImage: "thv:1", EntryPointError: errors.New("the registry does not respond")})
	if len(problems) != 1 || problems[0].Reason != ReasonNoEntryPoint || !strings.Contains(problems[0].Message, "give spec.command") {
		t.Errorf("problems are %v", problems)
	}
	o := stdioServer()
	o.Spec.Command = []string{"/mine"}
	if w, problems := Server(o, &Resolved{}, Options{GatewayImage: "thv:1"}); w == nil || w.Server.EntryPoint[0] != "/mine" {
		t.Errorf("a command of one's own is not used: %v", problems)
	}
}

// With pull secrets the pod finds the program: the operator has no passwords.
func TestServer_PullSecrets(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*v1beta1.MCPServer){
		"resourceOverrides": func(o *v1beta1.MCPServer) {
			o.Spec.ResourceOverrides = &v1beta1.ResourceOverrides{ProxyDeployment: &v1beta1.DeploymentOverrides{ImagePullSecrets: []v1beta1.NameRef{{Name: "creds"}}}}
		},
		"podTemplateSpec": func(o *v1beta1.MCPServer) {
			o.Spec.PodTemplateSpec = &runtime.RawExtension{Raw: []byte(`{"spec":{"imagePullSecrets":[{"name":"creds"}]}}`)}
		},
	} {
		o := stdioServer()
		change(o)
		if NeedsEntryPoint(o) {
			t.Errorf("%s: the operator looks the image up", name)
		}
		w, problems := Server(o, &Resolved{}, Options{GatewayImage: "thv:1", EntryPointError: errors.New("it was not looked for")})
		if w == nil {
			t.Fatalf("%s: %v", name, problems)
		}
		objects, err := render.Objects(w)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, object := range objects {
			d, ok := object.(*appsv1.Deployment)
			if !ok {
				continue
			}
			pod := d.Spec.Template.Spec
			if len(pod.ImagePullSecrets) != 1 || len(pod.InitContainers) != 2 {
				t.Errorf("%s: the pod has %d pull secrets and %d init containers", name, len(pod.ImagePullSecrets), len(pod.InitContainers))
			}
			for _, c := range pod.Containers {
				for _, m := range c.VolumeMounts {
					if strings.HasPrefix(m.Name, "pull-") {
						t.Errorf("%s: the container %s has the pull secret", name, c.Name)
					}
				}
			}
		}
		o.Spec.Command = []string{"/mine"}
		if w, _ := Server(o, &Resolved{}, options); w == nil || w.Server.EntryPoint[0] != "/mine" {
			t.Errorf("%s: a command of one's own is not used", name)
		}
	}
}

// A service account's token is verified with the cluster's own authority.
func TestServer_ServiceAccounts(t *testing.T) {
	t.Parallel()
	o := stdioServer()
	o.Spec.OIDCConfigRef = &v1beta1.OIDCConfigRef{Name: "oidc", Audience: "tools"}
	from := &Resolved{OIDC: &v1beta1.MCPOIDCConfig{ObjectMeta: meta("oidc"), Spec: v1beta1.MCPOIDCConfigSpec{Type: v1beta1.OIDCServiceAccountType}}}
	w, problems := Server(o, from, options)
	if w == nil {
		t.Fatal(problems)
	}
	if a := w.Spec.Auth; !w.ClusterAuth || a.IssuerURL != "https://kubernetes.default.svc" || a.AuthTokenFile != render.ClusterToken || w.Spec.CABundle != render.ClusterCA {
		t.Errorf("authentication is %+v with the bundle %q", a, w.Spec.CABundle)
	}
}

func TestRemoteURL(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string][2]bool{ // public only, private too
		"https://mcp.example/mcp":              {true, true},
		"https://8.8.8.8/":                     {true, true},
		"http://tools.other.svc/mcp":           {false, true},
		"http://tools/mcp":                     {false, true},
		"http://tools.other.svc.cluster.local": {false, true},
		"http://10.1.2.3/":                     {false, true},
		"http://[fd00::1]/":                    {false, true},
		"http://127.0.0.1/":                    {false, false},
		"http://[::1]/":                        {false, false},
		"http://[::ffff:127.0.0.1]/":           {false, false},
		"http://169.254.169.254/":              {false, false},
		"http://localhost/":                    {false, false},
		"https://kubernetes.default.svc/":      {false, false},
		"https://kubernetes.default.svc./":     {false, false},
		"http://metadata.google.internal/":     {false, false},
		"http://0.0.0.0/":                      {false, false},
		"ftp://x.example/":                     {false, false},
		"https://u:p@x.example/":               {false, false},
		"https:///x":                           {false, false},
	} {
		if got := [2]bool{RemoteURL(raw, false) == nil, RemoteURL(raw, true) == nil}; got != want {
			t.Errorf("%s: permitted %v, want %v", raw, got, want)
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		object interface {
			runtime.Object
			metav1.Object
		}
		want string // "" is valid
	}{
		"an issuer":         {&v1beta1.MCPOIDCConfig{Spec: v1beta1.MCPOIDCConfigSpec{Type: "inline", Inline: &v1beta1.InlineOIDC{Issuer: "https://x.example"}}}, ""},
		"an issuer at HTTP": {&v1beta1.MCPOIDCConfig{Spec: v1beta1.MCPOIDCConfigSpec{Type: "inline", Inline: &v1beta1.InlineOIDC{Issuer: "http://x.example"}}}, "issuerUrl"},
		"no issuer":         {&v1beta1.MCPOIDCConfig{Spec: v1beta1.MCPOIDCConfigSpec{Type: "inline"}}, "spec.inline"},
		"tools":             {&v1beta1.MCPToolConfig{Spec: v1beta1.MCPToolConfigSpec{ToolsFilter: []string{"a"}}}, ""},
		"an empty override": {&v1beta1.MCPToolConfig{Spec: v1beta1.MCPToolConfigSpec{ToolsOverride: map[string]v1beta1.ToolOverride{"a": {}}}}, "neither a name nor a description"},
		"telemetry":         {&v1beta1.MCPTelemetryConfig{Spec: v1beta1.MCPTelemetryConfigSpec{OpenTelemetry: &v1beta1.OpenTelemetry{Enabled: true, Endpoint: "https://otel.example", Tracing: &v1beta1.Tracing{Enabled: true, SamplingRate: "0.5"}}}}, ""},
		"no telemetry":      {&v1beta1.MCPTelemetryConfig{}, ""},
		"no endpoint":       {&v1beta1.MCPTelemetryConfig{Spec: v1beta1.MCPTelemetryConfigSpec{OpenTelemetry: &v1beta1.OpenTelemetry{Enabled: true}}}, "endpoint"},
		"a webhook":         {&v1beta1.MCPWebhookConfig{Spec: v1beta1.MCPWebhookConfigSpec{Mutating: []v1beta1.Webhook{{Name: "a", URL: "https://x.example", Timeout: "5s"}}}}, ""},
		"a long timeout":    {&v1beta1.MCPWebhookConfig{Spec: v1beta1.MCPWebhookConfigSpec{Mutating: []v1beta1.Webhook{{Name: "a", URL: "https://x.example", Timeout: "5m"}}}}, "timeout"},
		"policies":          {&v1beta1.MCPAuthzConfig{Spec: v1beta1.MCPAuthzConfigSpec{Type: "cedarv1", Config: &runtime.RawExtension{Raw: []byte(`{"policies":["permit(principal, action, resource);"]}`)}}}, ""},
		"another language":  {&v1beta1.MCPAuthzConfig{Spec: v1beta1.MCPAuthzConfigSpec{Type: "httpv1", Config: &runtime.RawExtension{Raw: []byte(`{}`)}}}, "httpv1"},
		"no policies":       {&v1beta1.MCPAuthzConfig{}, "spec.config"},
	} {
		err := Config(row.object)
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
