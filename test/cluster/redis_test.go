//go:build cluster && linux

package cluster

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/toolhaven/toolhaven/test/idp"
	"github.com/toolhaven/toolhaven/test/local"
)

// outage is how long Redis is away.
const outage = 5 * time.Second

// redis is Debian's Redis beside the cluster, which keeps what it has acknowledged.
type redis struct{ args []string }

func startRedis(t *testing.T, password string) (r *redis, address string) {
	t.Helper()
	port, err := local.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	r = &redis{[]string{
		"--bind", nodeAddress, "--port", fmt.Sprint(port), "--requirepass", password,
		"--dir", t.TempDir(), "--appendonly", "yes", "--appendfsync", "always",
	}}
	r.start(t)
	t.Cleanup(r.kill)
	return r, net.JoinHostPort(nodeAddress, fmt.Sprint(port))
}

func (r *redis) start(t *testing.T) {
	t.Helper()
	if err := node.Run("redis", "redis-server", r.args...); err != nil {
		t.Fatal(err)
	}
}

func (*redis) kill() { node.Kill("redis") }

// person is someone who has logged in by a client of OAuth.
type person struct {
	http    *http.Client
	issuer  string
	client  string // its id
	token   string
	refresh string
}

// logIn registers a client (RFC 7591) and logs in by it (RFC 7636, RFC 8707).
func logIn(t *testing.T, tr trust, issuer string) *person {
	t.Helper()
	p := &person{http: tr.client, issuer: issuer}
	response, err := tr.client.Post(issuer+"/oauth/register", "application/json", strings.NewReader(`{"client_name": "A client of the tests",
		"redirect_uris": ["`+callback+`"], "grant_types": ["authorization_code", "refresh_token"], "token_endpoint_auth_method": "none"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var registered struct {
		ID string `json:"client_id"`
	}
	if err := json.NewDecoder(response.Body).Decode(&registered); err != nil || registered.ID == "" {
		t.Fatalf("registration: %s: %v", response.Status, err)
	}
	p.client = registered.ID
	verifier := rand.Text() + rand.Text()
	challenge := sha256.Sum256([]byte(verifier))
	back, err := browser(t.Context(), tr.client.Transport, issuer+"/oauth/authorize?"+url.Values{
		"response_type": {"code"}, "client_id": {p.client}, "redirect_uri": {callback}, "state": {rand.Text()}, "resource": {issuer + "/mcp"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}.Encode())
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(back)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.grant(url.Values{"grant_type": {"authorization_code"}, "code": {u.Query().Get("code")}, "redirect_uri": {callback}, "code_verifier": {verifier}}); err != nil {
		t.Fatal(err)
	}
	return p
}

// renew exchanges the refresh token for the next pair.
func (p *person) renew() error {
	return p.grant(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {p.refresh}})
}

func (p *person) grant(form url.Values) error {
	form.Set("client_id", p.client)
	form.Set("resource", p.issuer+"/mcp")
	response, err := p.http.PostForm(p.issuer+"/oauth/token", form)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var tokens struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
		Fault   string `json:"error_description"`
	}
	if err := json.NewDecoder(response.Body).Decode(&tokens); err != nil || tokens.Access == "" || tokens.Refresh == "" {
		return fmt.Errorf("the token endpoint: %s: %s (%v)", response.Status, tokens.Fault, err)
	}
	p.token, p.refresh = tokens.Access, tokens.Refresh
	return nil
}

// at is a client with the person's token at one pod.
func (p *person) at(t *testing.T, pod corev1.Pod) *http.Client {
	t.Helper()
	to := &url.URL{Scheme: "http", Host: net.JoinHostPort(pod.Status.PodIP, "8080")}
	return &http.Client{Timeout: patience, Transport: bearing{p.token, through{to}}}
}

// through sends requests to one address, under the name that they have.
type through struct{ to *url.URL }

func (th through) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	host := r.URL.Host
	(&httputil.ProxyRequest{In: r, Out: r}).SetURL(&url.URL{Scheme: th.to.Scheme, Host: th.to.Host})
	r.Host = host
	return http.DefaultTransport.RoundTrip(r)
}

// A person logs in once at an authorization server of two replicas, whose keys and storage last.
// Both replicas accept the token, and either continues what the other began. Redis goes and
// comes back, and a pod is deleted: no call with a valid token fails, and the login is renewed at
// the other replica and at the new one.
func TestLogin_Replicas(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	tr := newTrust(t, namespace)
	password := rand.Text()
	r, address := startRedis(t, password)
	f := &front{}
	f.next.DisableKeepAlives = true // the Service chooses a pod for each request, also within one login
	issuer := tr.serve(t, "127.0.0.1:0", f)
	provider := tr.provider(t, idp.Options{WebRedirects: []string{issuer + "/oauth/callback"}})
	kubectl(t, "", "create", "secret", "generic", "login", "-n", namespace,
		"--from-literal=secret="+idp.WebSecret, "--from-literal=current="+newKey(t), "--from-literal=previous="+newKey(t),
		"--from-literal=hmac="+rand.Text()+rand.Text(), "--from-literal=redis="+password)
	storage := "    storage: {type: redis, redis: {addr: '" + address + "', aclUserConfig: {passwordSecretRef: {name: login, key: redis}}}}\n    upstreamProviders:"
	apply(t, namespace, strings.NewReplacer("$ISSUER", issuer, "$HOST", strings.TrimPrefix(issuer, "https://"), "$IDP", provider.Issuer, "$CLIENT", idp.WebClient,
		"replicas: 1", "replicas: 2", "    upstreamProviders:", storage).Replace(loginObjects))
	w := server(namespace, "login")
	inside, err := url.Parse(w.ready(t))
	if err != nil {
		t.Fatal(err)
	}
	f.target.Store(inside)

	jo := logIn(t, tr, issuer)
	pods := w.pods(t)
	if len(pods) != 2 {
		t.Fatalf("%d pods, want 2", len(pods))
	}
	accepted := func(pod corev1.Pod) {
		t.Helper()
		s, err := dialWith(t.Context(), jo.at(t, pod), "http://"+inside.Host+"/mcp", stateless)
		if err != nil {
			t.Fatalf("%s: %v", pod.Name, err)
		}
		defer s.Close()
		if got := mustCall(t, s, "env", map[string]any{"name": "HOSTNAME"}); got != pod.Name {
			t.Errorf("%s answers for %s", got, pod.Name)
		}
	}
	renewedAt := func(pod corev1.Pod) {
		t.Helper()
		f.target.Store(&url.URL{Scheme: "http", Host: net.JoinHostPort(pod.Status.PodIP, "8080")})
		defer f.target.Store(inside)
		if err := jo.renew(); err != nil {
			t.Fatalf("renew at %s: %v", pod.Name, err)
		}
	}
	for _, pod := range pods {
		renewedAt(pod) // each continues what the other has issued
		for _, pod := range pods {
			accepted(pod)
		}
	}

	outside := *tr.client
	outside.Transport = bearing{jo.token, tr.client.Transport}
	calls := newCaller(t, &outside, issuer+"/mcp")
	calls.more(t, 20)
	r.kill()
	began := time.Now()
	eventually(t, "Redis is away for a while", func(context.Context) error {
		if time.Since(began) < outage {
			return errors.New("not long enough")
		}
		return nil
	})
	calls.more(t, 20)
	for _, pod := range pods {
		accepted(pod)
	}
	r.start(t)
	eventually(t, "the login is renewed after Redis was away", func(context.Context) error { return jo.renew() })

	victim := pods[0].Name
	kubectl(t, "", "delete", "pod", "-n", namespace, victim, "--wait=false")
	renewedAt(pods[1])
	w.replaced(t, victim, 2)
	calls.more(t, 20)
	for _, pod := range w.pods(t) {
		renewedAt(pod)
		accepted(pod)
	}
	if n, errs := calls.end(); len(errs) > 0 {
		t.Errorf("of %d calls %d failed: %v", n, len(errs), errors.Join(errs...))
	} else {
		t.Logf("%d calls with a valid token, none failed", n)
	}
}
