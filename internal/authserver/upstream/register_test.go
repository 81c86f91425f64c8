package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/externalauth"
)

// registrar is a registration endpoint (RFC 7591 section 3) that numbers its clients, and a
// token endpoint that accepts only the clients that it knows.
type registrar struct {
	*fake
	mu       sync.Mutex
	bodies   []object
	tokens   []string // initial access tokens
	lifetime time.Duration
	now      func() time.Time
	known    map[string]bool
	refuse   string // the error of registrations
}

func newRegistrar(t *testing.T) *registrar {
	r := &registrar{fake: newFake(t), now: time.Now, known: map[string]bool{}}
	r.metadata["registration_endpoint"] = r.URL + "/register"
	r.serve("/register", func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		var m object
		_ = json.Unmarshal(body, &m)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.refuse != "" {
			w.WriteHeader(http.StatusBadRequest)
			writeJSON(w, object{"error": r.refuse})
			return
		}
		r.bodies, r.tokens = append(r.bodies, m), append(r.tokens, req.Header.Get("Authorization"))
		id := fmt.Sprintf("client-%d", len(r.bodies))
		r.known[id] = true
		answer := object{"client_id": id, "client_secret": clientSecret + id, "token_endpoint_auth_method": m["token_endpoint_auth_method"], "client_secret_expires_at": 0}
		if r.lifetime != 0 {
			answer["client_secret_expires_at"] = r.now().Add(r.lifetime).Unix()
		}
		w.WriteHeader(http.StatusCreated)
		writeJSON(w, answer)
	})
	r.serve("/token", func(w http.ResponseWriter, req *http.Request) {
		id, secret, _ := req.BasicAuth()
		r.mu.Lock()
		known := r.known[id] && secret == clientSecret+id
		r.mu.Unlock()
		if !known {
			w.WriteHeader(http.StatusUnauthorized)
			writeJSON(w, object{"error": "invalid_client"})
			return
		}
		writeJSON(w, r.fake.tokens())
	})
	return r
}

func (r *registrar) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.bodies)
}

// spec registers by discovery.
func (r *registrar) spec(changes ...func(*externalauth.OAuth2)) externalauth.UpstreamProvider {
	return r.oauth2(append([]func(*externalauth.OAuth2){func(c *externalauth.OAuth2) {
		c.ClientID, c.ClientSecretRef, c.Scopes = "", nil, []string{"read", "write"}
		c.DCR = &externalauth.DCR{DiscoveryURL: r.URL + "/.well-known/openid-configuration"}
	}}, changes...)...)
}

func TestRegistration_Request(t *testing.T) {
	r := newRegistrar(t)
	statement := "eyJhbGciOiJub25lIn0.e30."
	p := newProvider(t, r.spec(func(c *externalauth.OAuth2) {
		c.AuthorizationEndpoint, c.TokenEndpoint = "", "" // those of the metadata
		c.DCR.InitialAccessTokenRef, c.DCR.SoftwareID, c.DCR.SoftwareStatement = secretRef, "toolhaven", statement
	}))
	login, err := r.login(t, p)
	if err != nil || login.Tokens.AccessToken != theAccess {
		t.Fatalf("%+v, %v", login, err)
	}
	got, _ := json.Marshal(r.bodies[0])
	const want = `{"client_name":"Toolhaven","grant_types":["authorization_code","refresh_token"],"redirect_uris":["` + callbackURL + `"],` +
		`"response_types":["code"],"scope":"read write","software_id":"toolhaven","software_statement":"eyJhbGciOiJub25lIn0.e30.","token_endpoint_auth_method":"client_secret_basic"}`
	if string(got) != want || r.tokens[0] != "Bearer "+clientSecret {
		t.Errorf("got %s with %s", got, r.tokens[0])
	}
	a, _ := r.begin(t, p)
	if a.ClientID != "client-1" || a.Issuer != r.URL {
		t.Errorf("%+v", a)
	}
}

// One registration for all processes; it is sealed in the store.
func TestRegistration_Once(t *testing.T) {
	r := newRegistrar(t)
	shared := newStore()
	var wg sync.WaitGroup
	for range 8 {
		p := newProvider(t, r.spec(), func(c *Config) { c.Store = shared })
		for range 4 {
			wg.Go(func() {
				if _, a, err := p.Authorize(t.Context(), "s"); err != nil || a.ClientID != "client-1" {
					t.Errorf("%+v, %v", a, err)
				}
			})
		}
	}
	wg.Wait()
	if n := r.count(); n != 1 {
		t.Errorf("%d registrations", n)
	}
	if len(shared.put) != 1 {
		t.Errorf("%d values are stored", len(shared.put))
	}
	for key, value := range shared.put {
		if strings.Contains(key+value, "client-1") || strings.Contains(key+value, clientSecret) {
			t.Error("the registration is not sealed")
		}
	}
}

func TestRegistration_Keys(t *testing.T) {
	r := newRegistrar(t)
	shared := newStore()
	key := func(n byte) []byte { return bytes.Repeat([]byte{n}, 32) }
	for _, step := range []struct {
		name string
		keys [][]byte
		want string
	}{
		{"the first", [][]byte{key(1)}, "client-1"},
		{"a new key before the old one", [][]byte{key(2), key(1)}, "client-1"},
		{"the old key is gone", [][]byte{key(2)}, "client-2"},
		{"and it is stored again", [][]byte{key(2)}, "client-2"},
	} {
		p := newProvider(t, r.spec(), func(c *Config) {
			c.Store, c.Keys = shared, func() ([][]byte, error) { return step.keys, nil }
		})
		if _, a, err := p.Authorize(t.Context(), "s"); err != nil || a.ClientID != step.want {
			t.Errorf("%s: %+v, %v", step.name, a, err)
		}
	}
	// Another configuration is another client.
	p := newProvider(t, r.spec(), func(c *Config) {
		c.Store, c.Keys, c.RedirectURI = shared, func() ([][]byte, error) { return [][]byte{key(2)}, nil }, "https://other.example/cb"
	})
	if _, a, err := p.Authorize(t.Context(), "s"); err != nil || a.ClientID != "client-3" {
		t.Errorf("%+v, %v", a, err)
	}
}

// RFC 7591 section 3.2.1, client_secret_expires_at.
func TestRegistration_Expiry(t *testing.T) {
	r := newRegistrar(t)
	r.lifetime = 100 * time.Hour
	p := newProvider(t, r.spec())
	clock := p.stop()
	r.now = clock.now
	authorize := func(want string) {
		t.Helper()
		if _, a, err := p.Authorize(t.Context(), "s"); err != nil || a.ClientID != want {
			t.Errorf("%+v, %v", a, err)
		}
	}
	authorize("client-1")
	clock.advance(89 * time.Hour)
	authorize("client-1")
	// In the last tenth it is renewed; if that fails, it is used to its end.
	clock.advance(2 * time.Hour)
	r.refuse = "invalid_client_metadata"
	authorize("client-1")
	before := len(r.sent("/register"))
	authorize("client-1")
	if n := len(r.sent("/register")) - before; n != 0 {
		t.Errorf("%d requests directly after one that failed", n)
	}
	r.refuse = ""
	clock.advance(minAge)
	authorize("client-2")
	r.refuse = "invalid_client_metadata"
	clock.advance(100 * time.Hour)
	if _, _, err := p.Authorize(t.Context(), "s"); err == nil || !strings.Contains(err.Error(), "invalid_client_metadata") {
		t.Errorf("after its end: %v", err)
	}
}

// The provider forgot the client: the next sign-in registers another one.
func TestRegistration_Forgotten(t *testing.T) {
	r := newRegistrar(t)
	p := newProvider(t, r.spec())
	clock := p.stop()
	login, err := r.login(t, p)
	if err != nil {
		t.Fatal(err)
	}
	r.known = map[string]bool{}
	// A new registration is not given up, or a broken provider would get one per sign-in.
	if _, err := p.Refresh(t.Context(), login.Tokens); !errors.Is(err, ErrExpired) {
		t.Errorf("got %v", err)
	}
	if _, err := r.login(t, p); !errors.Is(err, ErrExpired) || r.count() != 1 {
		t.Errorf("%v after %d registrations", err, r.count())
	}
	clock.advance(minAge)
	open, callback := r.begin(t, p)
	if _, err := p.Refresh(t.Context(), login.Tokens); !errors.Is(err, ErrExpired) {
		t.Errorf("got %v", err)
	}
	if _, err := r.login(t, p); err != nil || r.count() != 2 {
		t.Errorf("%v after %d registrations", err, r.count())
	}
	// A sign-in that began before cannot end: its code is for the former client.
	if _, err := p.Finish(t.Context(), open, callback); !errors.Is(err, ErrExpired) {
		t.Errorf("got %v", err)
	}
}

func TestRegistration_Faults(t *testing.T) {
	for _, row := range []struct {
		rule   string
		change func(r *registrar, c *Config)
		fault  string
		kind   error
	}{
		{"RFC 7591 3.2.2: refused", func(r *registrar, _ *Config) { r.refuse = "invalid_redirect_uri" }, "invalid_redirect_uri", nil},
		{"the provider fails", func(r *registrar, _ *Config) { r.says("/register", 503, "", "") }, "503", ErrUnavailable},
		{"RFC 7591 3.2.1: an expired secret", func(r *registrar, _ *Config) { r.lifetime = -time.Hour }, "expired already", nil},
		{"a redirect", func(r *registrar, _ *Config) {
			r.serve("/register", func(w http.ResponseWriter, req *http.Request) { http.Redirect(w, req, "/elsewhere", 307) })
		}, "307", nil},
		{"no registration endpoint", func(r *registrar, _ *Config) { delete(r.metadata, "registration_endpoint") }, "registration_endpoint", nil},
		{"RFC 8414 3.3: metadata of another issuer", func(r *registrar, _ *Config) { r.metadata["issuer"] = "https://other.example" }, "another issuer", nil},
		{"RFC 8414 2: no method that is supported", func(r *registrar, _ *Config) {
			r.metadata["token_endpoint_auth_methods_supported"] = []string{"private_key_jwt"}
		}, "client authentication", nil},
		{"the store is not available", func(_ *registrar, c *Config) { c.Store.(*store).broken.Store(true) }, "broken", ErrUnavailable},
		{"no keys", func(_ *registrar, c *Config) { c.Keys = func() ([][]byte, error) { return nil, nil } }, "no key", nil},
		{"keys that cannot be read", func(_ *registrar, c *Config) { c.Keys = func() ([][]byte, error) { return nil, errors.New("gone") } }, "gone", ErrUnavailable},
		{"a key of another length", func(_ *registrar, c *Config) {
			c.Keys = func() ([][]byte, error) { return [][]byte{{1}}, nil }
		}, "32 bytes", nil},
	} {
		t.Run(row.rule, func(t *testing.T) {
			r := newRegistrar(t)
			p := newProvider(t, r.spec(), func(c *Config) { row.change(r, c) })
			_, _, err := p.Authorize(t.Context(), "s")
			if err == nil || !strings.Contains(err.Error(), row.fault) || row.kind != nil && !errors.Is(err, row.kind) {
				t.Fatalf("got %v, want %q", err, row.fault)
			}
			checkNoSecrets(t, err.Error())
			if len(r.sent("/elsewhere")) != 0 {
				t.Error("a redirect was followed")
			}
		})
	}
}

// Without metadata: the endpoint of the configuration, and the default method.
func TestRegistration_Endpoint(t *testing.T) {
	r := newRegistrar(t)
	p := newProvider(t, r.spec(func(c *externalauth.OAuth2) {
		c.DCR = &externalauth.DCR{RegistrationEndpoint: r.URL + "/register"}
	}))
	if _, err := r.login(t, p); err != nil {
		t.Error(err)
	}
	if n := len(r.sent("/.well-known/openid-configuration")); n != 0 {
		t.Error("metadata was requested")
	}
}

// Another process holds the lease and ends: its result is used.
func TestRegistration_LeaseOfAnotherProcess(t *testing.T) {
	r := newRegistrar(t)
	shared := newStore()
	first := newProvider(t, r.spec(), func(c *Config) { c.Store = shared })
	m, err := first.metadata(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	request, err := first.clients.request(m)
	if err != nil {
		t.Fatal(err)
	}
	key := first.clients.key(request)
	release, err := shared.Lease(t.Context(), key+"/lease", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		second := newProvider(t, r.spec(), func(c *Config) { c.Store = shared })
		_, a, err := second.Authorize(t.Context(), "s")
		if err == nil && a.ClientID != "client-1" {
			err = fmt.Errorf("%+v", a)
		}
		done <- err
	}()
	if _, err := first.clients.register(t.Context(), m, key, request); err != nil {
		t.Fatal(err)
	}
	release()
	if err := <-done; err != nil || r.count() != 1 {
		t.Errorf("%v, %d registrations", err, r.count())
	}
}

// A person who leaves during the registration does not undo it.
func TestRegistration_CallerLeaves(t *testing.T) {
	r := newRegistrar(t)
	register := r.routes["/register"]
	begun, answer := make(chan struct{}), make(chan struct{})
	r.serve("/register", func(w http.ResponseWriter, req *http.Request) {
		if r.count() == 0 {
			close(begun)
		}
		<-answer
		register(w, req)
	})
	p := newProvider(t, r.spec())
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _, _ = p.Authorize(ctx, "s")
	}()
	<-begun
	leave()
	close(answer)
	if _, a, err := p.Authorize(t.Context(), "s"); err != nil || a.ClientID != "client-1" || r.count() != 1 {
		t.Errorf("%+v, %v, %d registrations", a, err, r.count())
	}
	<-done
}
