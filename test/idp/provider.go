// Package idp starts a real identity provider for tests: npm's oidc-provider,
// which test/setup/idp.sh installs. It issues JWT and opaque access tokens for
// any resource (RFC 8707), introspects (RFC 7662), revokes, registers clients
// (RFC 7591), requires PKCE, rotates refresh tokens, and has a login page that
// accepts every name and password. It listens on the loopback address unless
// Options.Host is set, with plain HTTP unless given a certificate.
//
//	provider := idp.Start(t, idp.Options{Opaque: []string{"https://opaque.example"}})
//	token := provider.Token(t, "https://api.example", "mcp-registry:read")
//
// Outages: [Provider.Stop] and [Provider.Restart] for a provider that is down for a
// while, [Provider.Suspend] and [Provider.Resume] for one that accepts connections and
// does not respond, [Provider.RotateKeys] for new keys without an outage. A restart forgets opaque tokens and registered clients; it
// keeps port, issuer and keys. The process ends with the test, also when the
// test's process is killed.
package idp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/toolhaven/toolhaven/test/local"
)

// Clients that every provider has.
const (
	// ServiceClient gets tokens for itself (client credentials).
	ServiceClient, ServiceSecret = "service", "service-secret-of-the-tests"
	// IntrospectionClient is the only one that may introspect.
	IntrospectionClient, IntrospectionSecret = "resource-server", "introspection-secret: of+the/tests"
	// PublicClient is a native application without a secret: authorization code
	// with PKCE, refresh tokens; any loopback port (RFC 8252 section 7.3) with
	// the paths of Options.NativePaths.
	PublicClient = "native"
	// WebClient has a secret and the redirect URIs of Options.WebRedirects.
	WebClient, WebSecret = "web", "web-secret-of-the-tests"
)

// RegistryScopes are the scopes of resources unless Options.Scopes is set.
func RegistryScopes() []string { return []string{"mcp-registry:read", "mcp-registry:write"} }

// Options of a provider; the zero value is a useful one.
type Options struct {
	// Host is the address to listen on; 127.0.0.1 if "".
	Host string
	// Port to listen on; 0 chooses one, which a restart keeps.
	Port int
	// Issuer overrides the issuer, which is the origin that it listens on.
	Issuer string
	// Algorithm signs tokens: RS256 if "", or PS256, ES256, EdDSA.
	Algorithm string
	// KeyID is the id of its first key, for providers that share one; random if "".
	KeyID string
	// Opaque are the resources whose access tokens are opaque; all others' are
	// JWTs (RFC 9068).
	Opaque []string
	// DefaultResource is assumed when a client names none; "" makes tokens for
	// the provider itself.
	DefaultResource string
	// TokenLifetime is how long access tokens last; 5 minutes if 0.
	TokenLifetime time.Duration
	// Scopes of resources, beside openid, profile, email and offline_access;
	// RegistryScopes if nil.
	Scopes []string
	// AlwaysRefresh issues refresh tokens without the scope offline_access.
	AlwaysRefresh bool
	// NativePaths are the paths of PublicClient's loopback redirect URIs;
	// "/" and "/callback" if nil.
	NativePaths []string
	// WebRedirects are WebClient's redirect URIs.
	WebRedirects []string
	// CertPEM and KeyPEM make it listen with TLS; see NewAuthority.
	CertPEM, KeyPEM []byte
}

// Provider is a running identity provider.
type Provider struct {
	// Issuer is its issuer URL, Port where it listens.
	Issuer string
	Port   int

	options Options
	dir     string
	keys    []jose.JSONWebKey // the first one signs

	mu      sync.Mutex
	command *exec.Cmd
	stdin   io.WriteCloser
	stdout  *bufio.Reader
	stderr  *local.Output
}

// Start starts a provider, ends it with the test, and fails the test when that
// is not possible. It answers when Start returns.
func Start(t testing.TB, options Options) *Provider {
	t.Helper()
	dir, err := installed()
	if err != nil {
		t.Fatalf("the identity provider cannot be started: %v; test/setup/idp.sh installs it", err)
	}
	options.setDefaults()
	if options.Port == 0 {
		// Not one that the system chooses: that could be given to another program
		// while this one is stopped.
		if options.Port, err = local.FreePort(); err != nil {
			t.Fatal(err)
		}
	}
	p := &Provider{options: options, dir: dir, Port: options.Port}
	first := newKey(t, options.Algorithm)
	if options.KeyID != "" {
		first.KeyID = options.KeyID
	}
	p.keys = []jose.JSONWebKey{first}
	t.Cleanup(p.Stop)
	p.Restart(t)
	return p
}

func (o *Options) setDefaults() {
	if o.Host == "" {
		o.Host = "127.0.0.1"
	}
	if o.Algorithm == "" {
		o.Algorithm = string(jose.RS256)
	}
	if o.TokenLifetime == 0 {
		o.TokenLifetime = 5 * time.Minute
	}
	if o.Scopes == nil {
		o.Scopes = RegistryScopes()
	}
	if o.NativePaths == nil {
		o.NativePaths = []string{"/", "/callback"}
	}
	if o.WebRedirects == nil {
		o.WebRedirects = []string{"http://127.0.0.1:8666/callback"}
	}
}

// installed finds the repository from the working directory, and in it what
// test/setup installs.
func installed() (string, error) {
	dir, err := local.Root()
	if err != nil {
		return "", err
	}
	for _, needed := range []string{"test/.cache/idp/.installed", "test/.cache/clients/node"} {
		if _, err := os.Stat(filepath.Join(dir, needed)); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// Restart starts the provider after Stop, on the same port with the same keys.
func (p *Provider) Restart(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.command != nil {
		t.Fatal("the identity provider is running already")
	}
	p.stderr = new(local.Output)
	command := exec.Command(filepath.Join(p.dir, "test/.cache/clients/node"), filepath.Join(p.dir, "test/idp/provider.mjs"))
	command.Env = append(os.Environ(), "IDP_DIR="+filepath.Join(p.dir, "test/.cache/idp"), "NODE_ENV=production")
	command.Stderr = p.stderr
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatalf("start the identity provider: %v", err)
	}
	p.command, p.stdin, p.stdout = command, stdin, bufio.NewReader(stdout)
	p.tell(t, p.settings())
}

func (p *Provider) settings() map[string]any {
	o := p.options
	settings := map[string]any{
		"host": o.Host, "port": p.Port, "issuer": o.Issuer, "alg": o.Algorithm, "keys": p.keys,
		"opaque": append([]string{}, o.Opaque...), "defaultResource": o.DefaultResource,
		"ttl": int(o.TokenLifetime / time.Second), "scopes": o.Scopes, "alwaysRefresh": o.AlwaysRefresh,
		"clients": o.clients(), "introspectionClient": IntrospectionClient,
	}
	if o.CertPEM != nil {
		settings["tls"] = map[string]string{"cert": string(o.CertPEM), "key": string(o.KeyPEM)}
	}
	return settings
}

func (o *Options) clients() []map[string]any {
	loopback := make([]string, 0, 2*len(o.NativePaths))
	for _, path := range o.NativePaths {
		loopback = append(loopback, "http://127.0.0.1"+path, "http://localhost"+path)
	}
	none := []string{}
	code := []string{"code"}
	return []map[string]any{
		{
			"client_id": ServiceClient, "client_secret": ServiceSecret,
			"grant_types": []string{"client_credentials", "urn:ietf:params:oauth:grant-type:token-exchange"}, "redirect_uris": none, "response_types": none,
		},
		{
			"client_id": IntrospectionClient, "client_secret": IntrospectionSecret,
			"grant_types": none, "redirect_uris": none, "response_types": none,
		},
		{
			"client_id": PublicClient, "token_endpoint_auth_method": "none", "application_type": "native",
			"grant_types": []string{"authorization_code", "refresh_token"}, "redirect_uris": loopback, "response_types": code,
		},
		{
			"client_id": WebClient, "client_secret": WebSecret,
			"grant_types": []string{"authorization_code", "refresh_token"}, "redirect_uris": o.WebRedirects, "response_types": code,
		},
	}
}

// startTimeout bounds how long the provider may take to answer.
const startTimeout = 2 * time.Minute

// tell sends one line and waits for the response. The caller holds the lock.
func (p *Provider) tell(t testing.TB, message any) {
	t.Helper()
	line, err := json.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.stdin.Write(append(line, '\n')); err != nil {
		t.Fatalf("the identity provider does not listen: %v\n%s", err, p.stderr)
	}
	type reply struct {
		line []byte
		err  error
	}
	replies := make(chan reply, 1)
	stdout := p.stdout
	go func() {
		line, err := stdout.ReadBytes('\n')
		replies <- reply{line, err}
	}()
	var answer struct {
		Issuer, Error string
		Port          int
	}
	select {
	case r := <-replies:
		if r.err == nil {
			r.err = json.Unmarshal(r.line, &answer)
		}
		if r.err != nil {
			t.Fatalf("the identity provider ended or says nonsense: %v\n%s", r.err, p.stderr)
		}
	case <-time.After(startTimeout):
		t.Fatalf("the identity provider says nothing within %s\n%s", startTimeout, p.stderr)
	}
	if answer.Error != "" {
		t.Fatalf("the identity provider: %s\n%s", answer.Error, p.stderr)
	}
	if p.Issuer != answer.Issuer { // it does not change: others may be reading it
		p.Issuer, p.Port = answer.Issuer, answer.Port
	}
}

// Stop ends the provider: connections to it are refused until Restart.
func (p *Provider) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.command == nil {
		return
	}
	_ = p.command.Process.Kill() // whatever it is doing, suspended or not
	_ = p.command.Wait()
	p.command = nil
}

// RotateKeys makes a new key sign. With keepOld the former keys stay published,
// as a careful provider does; without, tokens that they signed lose their key.
func (p *Provider) RotateKeys(t testing.TB, keepOld bool) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	keys := []jose.JSONWebKey{newKey(t, p.options.Algorithm)}
	if keepOld {
		keys = append(keys, p.keys...)
	}
	p.keys = keys
	if p.command != nil {
		p.tell(t, map[string]any{"keys": keys})
	}
}

// SigningKey is the private key that signs now, for tokens that the provider
// itself would not make.
func (p *Provider) SigningKey() jose.JSONWebKey {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys[0]
}

// Address is the host and port it listens on.
func (p *Provider) Address() string {
	return net.JoinHostPort(p.options.Host, fmt.Sprint(p.Port))
}
