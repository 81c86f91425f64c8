package translate

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/toolhaven/toolhaven/api/v1beta1"
	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/internal/webhook"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// authentication is that of clients, and that of the gateway at the server. Every type of
// MCPExternalAuthConfig works at each kind or is a problem that says why not.
func (t *translation) authentication() {
	p := t.proxy
	issuer, outgoing := t.authServer(), t.outgoing()
	if outgoing != nil && outgoing.Spec.Type == externalauth.TypeEmbeddedAuthServer {
		if issuer != nil || p.AuthServerRef != nil {
			t.problem(v1beta1.ConditionAuthReady, ReasonConflict, "spec.externalAuthConfigRef: authServerRef refers to an authorization server already; refer here to how the gateway authenticates at the server, or remove it")
			return
		}
		issuer, outgoing = outgoing, nil
	}
	if outgoing != nil {
		t.spec.ExternalAuth = outgoing.Spec.DeepCopy()
		if t.spec.Transport == workload.Stdio && outgoing.Spec.Type != externalauth.TypeUnauthenticated {
			t.problem(v1beta1.ConditionAuthReady, ReasonUnsupported, "spec.externalAuthConfigRef: type %s sends a header, and a stdio server receives no HTTP requests; use a server with transport streamable-http or sse, or remove the reference", outgoing.Spec.Type)
		}
	}
	if ref := p.OIDCConfigRef; ref != nil && usable(t, v1beta1.ConditionAuthReady, "spec.oidcConfigRef", ref.Name, t.from.OIDC) {
		t.spec.Auth = auth(t.from.OIDC, ref)
	}
	if issuer != nil {
		t.embedded(issuer)
	}
	if outgoing != nil && t.spec.Auth == nil && p.OIDCConfigRef == nil {
		switch outgoing.Spec.Type {
		case externalauth.TypeTokenExchange, externalauth.TypeAWSSTS:
			t.problem(v1beta1.ConditionAuthReady, ReasonUnsupported, "spec.externalAuthConfigRef: type %s uses the tokens of clients, and they have none; give oidcConfigRef or authServerRef", outgoing.Spec.Type)
		case externalauth.TypeUpstreamInject:
			t.problem(v1beta1.ConditionAuthReady, ReasonUnsupported, "spec.externalAuthConfigRef: type upstreamInject sends the token of an upstream provider; give authServerRef")
		default:
		}
	}
}

// authServer is the resource of authServerRef, if it can be used.
func (t *translation) authServer() *v1beta1.MCPExternalAuthConfig {
	ref := t.proxy.AuthServerRef
	if ref == nil || !usable(t, v1beta1.ConditionAuthReady, "spec.authServerRef", ref.Name, t.from.AuthServer) {
		return nil
	}
	if got := t.from.AuthServer.Spec.Type; got != externalauth.TypeEmbeddedAuthServer {
		t.problem(v1beta1.ConditionAuthReady, ReasonWrongType, "spec.authServerRef: MCPExternalAuthConfig %q is of type %s; refer to one of type embeddedAuthServer", ref.Name, got)
		return nil
	}
	return t.from.AuthServer
}

// outgoing is the resource of externalAuthConfigRef, if it can be used.
func (t *translation) outgoing() *v1beta1.MCPExternalAuthConfig {
	ref := t.proxy.ExternalAuthConfigRef
	if ref == nil || !usable(t, v1beta1.ConditionAuthReady, "spec.externalAuthConfigRef", ref.Name, t.from.ExternalAuth) {
		return nil
	}
	return t.from.ExternalAuth
}

// embedded makes an authorization server of the gateway's own the issuer of the clients'
// tokens.
func (t *translation) embedded(o *v1beta1.MCPExternalAuthConfig) {
	x := o.Spec.EmbeddedAuthServer.DeepCopy()
	add := func(reason, format string, args ...any) {
		t.problem(v1beta1.ConditionAuthReady, reason, "MCPExternalAuthConfig %q: "+format, append([]any{o.Name}, args...)...)
	}
	if len(x.UpstreamProviders) > 1 {
		add(ReasonManyUpstreams, "it has %d upstream providers, and an %s can have one; several are for VirtualMCPServer", len(x.UpstreamProviders), t.kind)
		return
	}
	if r := t.proxy.Replicas; r == nil || *r > 1 {
		durable := x.Storage != nil && x.Storage.Type == "redis" && len(x.SigningKeySecretRefs) > 0 && len(x.HMACSecretRefs) > 0
		switch {
		case durable:
		case r == nil:
			add(ReasonNotDurable, "without spec.replicas there may be several pods, which must share keys and storage; set replicas to 1, or give signingKeySecretRefs, hmacSecretRefs and storage of type redis")
		default:
			add(ReasonNotDurable, "%d pods must share keys and storage; set replicas to 1, or give signingKeySecretRefs, hmacSecretRefs and storage of type redis", *r)
		}
	}
	sentinels(x, o.Namespace)
	resource, scopes := "", []string(nil)
	if ref := t.proxy.OIDCConfigRef; ref != nil {
		resource, scopes = ref.ResourceURL, ref.Scopes
		if t.spec.Auth != nil && t.spec.Auth.IssuerURL != x.Issuer {
			add(ReasonConflict, "its issuer is %s, and that of spec.oidcConfigRef is %s; they must be the same, or remove oidcConfigRef", x.Issuer, t.spec.Auth.IssuerURL)
			return
		}
		if want := cmp.Or(resource, x.Issuer+t.spec.Endpoint().Path()); ref.Audience != want {
			add(ReasonConflict, "its tokens are for %s; set spec.oidcConfigRef.audience to that", want)
			return
		}
	}
	t.spec.SetAuthServer(x, resource, scopes)
}

// sentinels replaces the Service of the sentinels by its address in the cluster.
func sentinels(x *externalauth.EmbeddedAuthServer, namespace string) {
	if x.Storage == nil || x.Storage.Redis == nil || x.Storage.Redis.SentinelConfig == nil {
		return
	}
	c := x.Storage.Redis.SentinelConfig
	if s := c.Service; s != nil {
		port := int32(26379)
		if s.Port != nil {
			port = *s.Port
		}
		c.Addrs, c.Service = []string{fmt.Sprintf("%s.%s.svc:%d", s.Name, cmp.Or(s.Namespace, namespace), port)}, nil
	}
}

func (t *translation) hooks() [][]webhook.Hook {
	if t.spec.Webhooks == nil {
		return nil
	}
	return [][]webhook.Hook{t.spec.Webhooks.Validating, t.spec.Webhooks.Mutating}
}

// forbidden are names by which nothing but the cluster or the cloud itself is reached.
var forbidden = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "metadata.google.internal"}

// private are ends of names that only the cluster, or a private network, resolves.
var private = []string{".svc", ".cluster.local", ".internal", ".local"}

// RemoteURL is an error when a URL cannot be that of a remote server. Addresses of this
// machine, of the cluster's API and of clouds' metadata are never permitted; private ones with
// allowPrivate. Names are not resolved here.
func RemoteURL(raw string, allowPrivate bool) error {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Fragment != "" {
		return errNotRemote
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	for _, name := range forbidden {
		if host == name {
			return fmt.Errorf("%s cannot be a remote server; give another host", host)
		}
	}
	refuse := fmt.Errorf("%s is private; set allowPrivateEndpoint to permit it", host)
	addr, err := netip.ParseAddr(host)
	if err != nil {
		if net.ParseIP(host) == nil && !allowPrivate && (!strings.Contains(host, ".") || hasEnd(host)) {
			return refuse
		}
		return nil
	}
	addr = addr.Unmap()
	switch {
	case addr.IsLoopback(), addr.IsUnspecified(), addr.IsLinkLocalUnicast(), addr.IsMulticast():
		return fmt.Errorf("%s cannot be a remote server; give another host", host)
	case addr.IsPrivate() && !allowPrivate:
		return refuse
	}
	return nil
}

func hasEnd(host string) bool {
	for _, end := range private {
		if strings.HasSuffix(host, end) {
			return true
		}
	}
	return false
}
