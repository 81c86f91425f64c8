//go:build integration

package registry

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/toolhaven/toolhaven/test/idp"
	"github.com/toolhaven/toolhaven/test/local"
	"github.com/toolhaven/toolhaven/test/tokens"
)

// The service-account provider of specification section 5.11: a cluster's API
// server on a private address, behind the cluster's authority, that shows its keys
// to whoever has the mounted token; authority and token are mounted files that the
// kubelet replaces.

// cluster is what of an API server the registry meets.
type cluster struct {
	*rogue
	mu    sync.Mutex
	valid string // the token it accepts
	keys  []jose.JSONWebKey
	cert  *tls.Certificate
}

const (
	jwksPath      = "/openid/v1/jwks"
	discoveryPath = "/.well-known/openid-configuration"
	inCluster     = "https://kubernetes.default.svc.cluster.local"
	audience      = "mcp-registry"
)

func newCluster(t *testing.T, token string, keys ...jose.JSONWebKey) *cluster {
	t.Helper()
	k := &cluster{rogue: &rogue{routes: map[string]http.HandlerFunc{}, sent: map[string][]string{}}, valid: token, keys: keys}
	listener, err := net.Listen("tcp", net.JoinHostPort(local.PrivateAddress(t), "0"))
	if err != nil {
		t.Fatal(err)
	}
	k.Server = httptest.NewUnstartedServer(k)
	k.Listener.Close()
	k.Listener = listener
	k.Config.ErrorLog = stdlog.New(io.Discard, "", 0)
	// httptest has a certificate of its own, which GetCertificate would not replace.
	k.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		return &tls.Config{Certificates: []tls.Certificate{*k.cert}}, nil
	}}
	k.certify(t, idp.NewAuthority(t)) // not trusted, until the test selects another
	k.StartTLS()
	t.Cleanup(func() { k.CloseClientConnections(); k.Close() })
	k.serve(jwksPath, k.guarded(func(w http.ResponseWriter, _ *http.Request) {
		k.mu.Lock()
		set := keySet(k.keys...)
		k.mu.Unlock()
		w.Header().Set("Content-Type", "application/jwk-set+json")
		writeJSON(w, set)
	}))
	return k
}

// certify gives it a certificate of an authority; connections that stand are cut.
func (k *cluster) certify(t *testing.T, authority *idp.Authority) {
	t.Helper()
	host, _, err := net.SplitHostPort(k.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	cert, key := authority.Certificate(t, host)
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	k.mu.Lock()
	k.cert = &pair
	k.mu.Unlock()
	if k.URL != "" {
		k.CloseClientConnections()
	}
}

// guarded is for whoever shows the token (as the API server answers by default:
// discovery is for authenticated callers).
func (k *cluster) guarded(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		k.mu.Lock()
		ok := r.Header.Get("Authorization") == "Bearer "+k.valid
		k.mu.Unlock()
		if !ok {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401}`)
			return
		}
		next(w, r)
	}
}

// change is what happens in the cluster from now on.
func (k *cluster) change(token string, keys ...jose.JSONWebKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.valid, k.keys = token, keys
}

// projected is a service account's token as the API server makes it.
func projected(t *testing.T, key jose.JSONWebKey, issuer string, audiences ...string) string {
	t.Helper()
	return tokens.Forge(t, key, fmt.Sprintf(`{"alg":"RS256","kid":%q}`, key.KeyID), claims(issuer, map[string]any{
		"aud": audiences, "sub": "system:serviceaccount:agents:weather", "nbf": time.Now().Unix(), "scope": nil,
		"kubernetes.io": map[string]any{"namespace": "agents", "serviceaccount": map[string]any{"name": "weather", "uid": "1"}},
	}))
}

// mount is what a pod finds mounted.
type mount struct{ dir string }

func newMount(t *testing.T, ca []byte, token string) mount {
	t.Helper()
	m := mount{t.TempDir()}
	m.replace(t, ca, token)
	return m
}

func (m mount) replace(t *testing.T, ca []byte, token string) {
	t.Helper()
	swapMount(t, m.dir, map[string]string{"ca.crt": string(ca), "token": token})
}

// provider is the configuration of specification section 5.11; more overrides.
func (m mount) provider(name, issuer string, more ...string) string {
	fields := []string{
		"name: " + name, "issuerUrl: " + issuer, "audience: " + audience, "caCertPath: " + filepath.Join(m.dir, "ca.crt"),
		"authTokenFile: " + filepath.Join(m.dir, "token"),
	}
	return "      - {" + strings.Join(append(fields, more...), ", ") + "}\n"
}

const oauthHead = "auth:\n  oauth:\n    resourceUrl: " + resource + "\n    providers:\n"

// mounted is a mounted token that a log would be easily searched for.
func mounted(n int) string { return fmt.Sprintf("mounted-service-account-token-%d", n) }

func TestKubernetes_ServiceAccounts(t *testing.T) {
	t.Parallel()
	authority := idp.NewAuthority(t)
	first, second, third := tokens.NewKey(t, "k1"), tokens.NewKey(t, "k2"), tokens.NewKey(t, "k3")
	k := newCluster(t, mounted(1), first)
	k.certify(t, authority)
	m := newMount(t, authority.PEM, mounted(1))
	c := calls(t, serve(t, oauthHead+m.provider("cluster", inCluster, "jwksUrl: "+k.URL+jwksPath, "allowPrivateIP: true")+
		// The same without what it needs, each a provider of its own issuer.
		m.provider("public", inCluster+"/public", "jwksUrl: "+k.URL+jwksPath)+
		strings.Replace(m.provider("bare", inCluster+"/bare", "jwksUrl: "+k.URL+jwksPath, "allowPrivateIP: true"), "authTokenFile: "+filepath.Join(m.dir, "token")+", ", "", 1)+
		strings.Replace(m.provider("trusting", inCluster+"/trusting", "jwksUrl: "+k.URL+jwksPath, "allowPrivateIP: true"), "caCertPath: "+filepath.Join(m.dir, "ca.crt")+", ", "", 1)))
	c.remember(mounted(1), mounted(2), mounted(3), mounted(4))

	t.Run("with the audience of the projected token alone", func(t *testing.T) {
		accepted(t, c.with(t, projected(t, first, inCluster, audience)))
		for _, row := range []badToken{
			{"spec 5.11", "for the API server", projected(t, first, inCluster, "https://kubernetes.default.svc"), invalid, "cluster: the audience does not match"},
			{"spec 5.11", "of a legacy secret, without an audience", projected(t, first, inCluster), invalid, "cluster: the audience does not match"},
			{"spec 5.11", "of another cluster", projected(t, tokens.NewKey(t, "k1"), inCluster, audience), invalid, "cluster: its signature is not valid"},
			{"spec 5.11", "without allowPrivateIP", projected(t, first, inCluster+"/public", audience), invalid, "the address is not a public one"},
			{"spec 5.11", "without authTokenFile", projected(t, first, inCluster+"/bare", audience), invalid, k.URL + jwksPath + ": answered 401"},
			{"spec 5.12", "without caCertPath", projected(t, first, inCluster+"/trusting", audience), invalid, "certificate"},
		} {
			t.Run(row.rule+"/"+row.name, func(t *testing.T) {
				since := c.mark()
				refused(t, c.with(t, row.token), row.code)
				c.said(t, since, row.why)
			})
		}
	})
	soon := func(t *testing.T, key jose.JSONWebKey) {
		t.Helper()
		eventually(t, "a token of the new key is accepted", func() error {
			if a := c.with(t, projected(t, key, inCluster, audience)); a.status != http.StatusOK {
				return errors.New(a.String())
			}
			return nil
		})
	}
	old := projected(t, first, inCluster, audience)
	t.Run("after the kubelet has replaced the token", func(t *testing.T) {
		k.change(mounted(2), first, second)
		m.replace(t, authority.PEM, mounted(2))
		soon(t, second)
		accepted(t, c.with(t, old))
	})
	t.Run("after the cluster has replaced its authority", func(t *testing.T) {
		next := idp.NewAuthority(t)
		k.certify(t, next)
		m.replace(t, next.PEM, mounted(2))
		k.change(mounted(2), second, third)
		soon(t, third)
		c.said(t, 0, "the certificate authorities were read again")
	})
	t.Run("and through files that are broken for a while", func(t *testing.T) {
		last := tokens.NewKey(t, "k4")
		since := c.mark()
		k.change(mounted(4), third, last)
		swapMount(t, m.dir, map[string]string{"ca.crt": "-----BEGIN CERTIFICATE-----\nhalf a f", "token": ""})
		// The new key cannot be had; the known one serves.
		refused(t, c.with(t, projected(t, last, inCluster, audience)), invalid)
		accepted(t, c.with(t, projected(t, third, inCluster, audience)))
		c.said(t, since, "the certificate authorities changed and cannot be used")
		final := idp.NewAuthority(t)
		k.certify(t, final)
		m.replace(t, final.PEM, mounted(4))
		soon(t, last)
	})
	for _, sent := range k.credentials(jwksPath) {
		if sent != "" && !strings.HasPrefix(sent, "Bearer mounted-service-account-token-") {
			t.Errorf("the cluster was shown %q", sent)
		}
	}
}

// A cluster whose issuer is its own address: discovery wants the token too, and
// what discovery names may be anywhere.
func TestKubernetes_MountedTokenOrigins(t *testing.T) {
	t.Parallel()
	authority := idp.NewAuthority(t)
	key := tokens.NewKey(t, "k1")
	k, elsewhere := newCluster(t, mounted(1), key), newCluster(t, "nobody's", key)
	k.certify(t, authority)
	elsewhere.certify(t, authority)
	m := newMount(t, authority.PEM, mounted(1))
	elsewhere.serve(jwksPath, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, keySet(key)) })
	elsewhere.serve("/introspect", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, map[string]any{"active": true, "aud": audience})
	})
	k.serve("/introspect", k.guarded(func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, map[string]any{"active": r.FormValue("token") == "opaque-and-good", "aud": audience, "sub": "jo"})
	}))
	for _, status := range []int{301, 302, 303, 307, 308} {
		path := fmt.Sprintf("/moved/%d", status)
		for _, end := range []string{jwksPath, discoveryPath, "/introspect"} {
			k.serve(path+end, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL+end, status) })
		}
	}
	for issuer, at := range map[string]string{"/here": k.URL, "/there": elsewhere.URL} {
		k.serve(issuer+discoveryPath, k.guarded(func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, map[string]any{"issuer": k.URL + issuer, "jwks_uri": at + jwksPath})
		}))
	}
	config := oauthHead + m.provider("here", k.URL+"/here", "allowPrivateIP: true", "introspectionUrl: "+k.URL+"/introspect") +
		m.provider("there", k.URL+"/there", "allowPrivateIP: true")
	for _, status := range []string{"301", "302", "303", "307", "308"} {
		moved := k.URL + "/moved/" + status
		config += m.provider("keys"+status, inCluster+"/"+status, "allowPrivateIP: true", "jwksUrl: "+moved+jwksPath)
		config += m.provider("discovery"+status, moved, "allowPrivateIP: true", "introspectionUrl: "+moved+"/introspect")
	}
	c := calls(t, serve(t, config))
	c.remember(mounted(1))
	accepted(t, c.with(t, projected(t, key, k.URL+"/here", audience)))
	accepted(t, c.with(t, "opaque-and-good"))
	if sent := k.credentials("/here" + discoveryPath); len(sent) == 0 || sent[0] != "Bearer "+mounted(1) {
		t.Errorf("discovery was shown %q", sent)
	}
	// Keys elsewhere are fetched, without the token.
	accepted(t, c.with(t, projected(t, key, k.URL+"/there", audience)))
	for _, status := range []string{"301", "302", "303", "307", "308"} {
		moved := k.URL + "/moved/" + status
		since := c.mark()
		refused(t, c.with(t, projected(t, key, inCluster+"/"+status, audience)), invalid)
		c.said(t, since, moved+jwksPath+": answered "+status+", a redirect, which is not followed")
		since = c.mark()
		refused(t, c.with(t, projected(t, key, moved, audience)), invalid)
		c.said(t, since, moved+discoveryPath+": answered "+status, moved+"/introspect: answered "+status)
	}
	if n := len(elsewhere.credentials("/introspect")) + len(elsewhere.credentials(discoveryPath)); n != 0 {
		t.Errorf("redirects were followed %d times", n)
	}
	shown := elsewhere.credentials(jwksPath)
	if len(shown) == 0 {
		t.Error("the keys elsewhere were not fetched")
	}
	for _, sent := range shown {
		if sent != "" {
			t.Errorf("elsewhere was shown %q", sent)
		}
	}
}
