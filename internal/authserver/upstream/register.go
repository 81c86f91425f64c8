package upstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/authserver/storage"
	"github.com/toolhaven/toolhaven/internal/oauth"
	"github.com/toolhaven/toolhaven/internal/seal"
)

// The times of registrations.
const (
	// registerTime bounds a registration, within leaseTime; leasePoll is how often other
	// processes look for its result.
	registerTime = 20 * time.Second
	leaseTime    = 30 * time.Second
	leasePoll    = 200 * time.Millisecond
	// keepTime is how long a registration without an expiry is stored.
	keepTime = 10 * 365 * 24 * time.Hour
	// A registration is renewed in the last tenth of its lifetime, at most renewTime
	// before its end.
	renewTime = 24 * time.Hour
	// minAge is the least age of a registration that is given up because the provider
	// does not accept it, and the pause after one that failed.
	minAge = time.Minute
)

// registrations is the client that a provider registered (RFC 7591): one for all processes
// with the same store. It is stored sealed, under a key without secrets.
type registrations struct {
	p     *Provider
	store storage.Store
	keys  func() ([][]byte, error)
	one   chan struct{} // held while this process registers

	// Of the last failure; held with one.
	failed error
	until  time.Time
}

func newRegistrations(p *Provider, store storage.Store, keys func() ([][]byte, error)) *registrations {
	return &registrations{p: p, store: store, keys: keys, one: make(chan struct{}, 1)}
}

// registration is what is stored.
type registration struct {
	ID      string    `json:"id"` // "": the registration was given up
	Secret  string    `json:"secret,omitempty"`
	Method  string    `json:"method"`
	Made    time.Time `json:"made"`
	Expires time.Time `json:"expires,omitzero"` // zero: never
}

func (r *registration) client() oauth.Client {
	return oauth.Client{ID: r.ID, Secret: r.Secret, Method: r.Method}
}

// usable reports whether the secret is valid now.
func (r *registration) usable(now time.Time) bool {
	return r != nil && r.ID != "" && (r.Expires.IsZero() || now.Before(r.Expires))
}

// due reports whether the registration must be renewed (RFC 7591 section 3.2.1,
// client_secret_expires_at).
func (r *registration) due(now time.Time) bool {
	if !r.usable(now) {
		return true
	}
	return !r.Expires.IsZero() && now.After(r.Expires.Add(-min(renewTime, r.Expires.Sub(r.Made)/10)))
}

// client returns the registered client, and registers one if there is none or its secret
// expires soon.
func (r *registrations) client(ctx context.Context, m *oauth.Metadata) (oauth.Client, error) {
	request, err := r.request(m)
	if err != nil {
		return oauth.Client{}, err
	}
	key := r.key(request)
	known, _, err := r.read(ctx, key)
	if err != nil {
		return oauth.Client{}, err
	}
	if !known.due(r.p.now()) {
		return known.client(), nil
	}
	fresh, err := r.once(ctx, m, key, request)
	if err != nil && known.usable(r.p.now()) {
		r.p.log.Warn("the registration at the provider cannot be renewed now; its secret expires soon", slog.Any("error", err))
		return known.client(), nil
	}
	if err != nil {
		return oauth.Client{}, fmt.Errorf("register as a client: %w", err)
	}
	return fresh.client(), nil
}

// request is the client's metadata (RFC 7591 section 2).
func (r *registrations) request(m *oauth.Metadata) (*oauth.ClientMetadata, error) {
	method := oauth.MethodBasic // RFC 8414 section 2: the default
	switch has := func(method string) bool { return slices.Contains(m.AuthMethods, method) }; {
	case m.AuthMethods == nil, has(oauth.MethodBasic):
	case has(oauth.MethodPost):
		method = oauth.MethodPost
	case has(oauth.MethodNone) && slices.Contains(m.Challenges, "S256"):
		method = oauth.MethodNone
	default:
		return nil, errors.New("the provider's metadata lists no method of client authentication that is supported")
	}
	dcr, application := r.p.settings.dcr, ""
	if isLoopback(hostOf(r.p.redirect)) {
		application = "native" // OpenID Connect Registration 1.0 section 2
	}
	return &oauth.ClientMetadata{
		Name: "Toolhaven", ApplicationType: application, RedirectURIs: []string{r.p.redirect}, GrantTypes: []string{"authorization_code", "refresh_token"},
		ResponseTypes: []string{"code"}, Method: method, Scope: strings.Join(r.p.scopes(m), " "),
		SoftwareID: dcr.SoftwareID, SoftwareStatement: dcr.SoftwareStatement,
	}, nil
}

// key is that of the store. A registration with other parameters has another one.
func (r *registrations) key(request *oauth.ClientMetadata) string {
	dcr := r.p.settings.dcr
	content, _ := json.Marshal(struct { // it has only text
		At      [2]string
		Request *oauth.ClientMetadata
	}{[2]string{dcr.DiscoveryURL, dcr.RegistrationEndpoint}, request})
	sum := sha256.Sum256(content)
	return "upstream/registration/" + r.p.spec.Name + "/" + hex.EncodeToString(sum[:16])
}

// read returns the stored registration, nil for none, and the value of the store.
func (r *registrations) read(ctx context.Context, key string) (*registration, []byte, error) {
	value, err := r.store.Get(ctx, key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: read the registration: %w", ErrUnavailable, err)
	}
	keys, err := r.keys()
	if err != nil {
		return nil, nil, fmt.Errorf("%w: the keys of the store: %w", ErrUnavailable, err)
	}
	for _, k := range keys {
		sealer, err := seal.New(k)
		if err != nil {
			return nil, nil, err
		}
		plain, err := sealer.Open(key, string(value))
		if err != nil {
			continue
		}
		known := &registration{}
		if json.Unmarshal(plain, known) == nil {
			return known, value, nil
		}
	}
	r.p.log.Warn("the stored registration was sealed with a key that is no longer configured; the provider will register another client")
	return nil, value, nil
}

// sealed is the value of the store for a registration.
func (r *registrations) sealed(key string, made *registration) ([]byte, error) {
	keys, err := r.keys()
	if err != nil {
		return nil, fmt.Errorf("%w: the keys of the store: %w", ErrUnavailable, err)
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no key to seal with")
	}
	sealer, err := seal.New(keys[0])
	if err != nil {
		return nil, err
	}
	plain, err := json.Marshal(made)
	if err != nil {
		return nil, err
	}
	return []byte(sealer.Close(key, plain)), nil
}

// once registers a client, once for all callers and processes: the others wait, and read the
// result.
func (r *registrations) once(ctx context.Context, m *oauth.Metadata, key string, request *oauth.ClientMetadata) (*registration, error) {
	select {
	case r.one <- struct{}{}:
		defer func() { <-r.one }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: another registration is under way", ErrUnavailable)
	}
	for {
		// Re-check the store: another caller may have registered.
		known, _, err := r.read(ctx, key)
		if err != nil {
			return nil, err
		}
		if !known.due(r.p.now()) {
			return known, nil
		}
		if r.p.now().Before(r.until) {
			return nil, r.failed
		}
		release, err := r.store.Lease(ctx, key+"/lease", leaseTime)
		if err == nil {
			defer release()
			break
		}
		if !errors.Is(err, storage.ErrHeld) {
			return nil, fmt.Errorf("%w: the lease of the registration: %w", ErrUnavailable, err)
		}
		select {
		case <-time.After(leasePoll):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: another process is registering", ErrUnavailable)
		}
	}
	if known, _, err := r.read(ctx, key); err != nil || !known.due(r.p.now()) {
		return known, err
	}
	// A registration whose caller leaves would be lost, and made again for the next one.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), registerTime)
	defer cancel()
	made, err := r.register(ctx, m, key, request)
	if err != nil {
		r.failed, r.until = err, r.p.now().Add(metadataRetry)
		if !errors.Is(err, ErrUnavailable) {
			r.until = r.p.now().Add(minAge)
		}
	}
	return made, err
}

// register registers a client and stores it before it is used.
func (r *registrations) register(ctx context.Context, m *oauth.Metadata, key string, request *oauth.ClientMetadata) (*registration, error) {
	var token string
	if ref := r.p.settings.dcr.InitialAccessTokenRef; ref != nil {
		var err error
		if token, err = r.p.secret(*ref); err != nil {
			return nil, fmt.Errorf("initialAccessTokenRef: %w", err)
		}
		if !oauth.ValidToken(token) {
			return nil, errors.New("initialAccessTokenRef: the value is not a bearer token (RFC 6750 section 2.1)")
		}
	}
	given, err := oauth.Register(ctx, r.p.send, m.Registration, token, request)
	if err != nil {
		return nil, err
	}
	now := r.p.now().UTC()
	made := &registration{ID: given.ID, Secret: given.Secret, Method: given.Method, Made: now, Expires: given.Expires}
	keep := keepTime
	if !made.Expires.IsZero() {
		if keep = min(keep, made.Expires.Sub(now)); keep < minAge {
			return nil, errors.New("the provider issued a client secret that has expired already")
		}
	}
	value, err := r.sealed(key, made)
	if err != nil {
		return nil, err
	}
	if err := r.store.Put(ctx, key, value, keep); err != nil {
		return nil, fmt.Errorf("%w: store the registration: %w", ErrUnavailable, err)
	}
	r.p.log.Info("the provider registered this server as a client", slog.Time("expires", made.Expires))
	return made, nil
}

// forget gives up a registration that the provider does not accept. Another one that has
// replaced it meanwhile stays, and so does a new one, so that a provider which accepts none
// is not sent registrations without an end.
func (r *registrations) forget(ctx context.Context, m *oauth.Metadata, id string) {
	request, err := r.request(m)
	if err != nil {
		return
	}
	key := r.key(request)
	known, value, err := r.read(ctx, key)
	if err != nil || known == nil || known.ID != id || r.p.now().Sub(known.Made) < minAge {
		return
	}
	none, err := r.sealed(key, &registration{})
	if err == nil {
		err = r.store.Swap(ctx, key, value, none, minAge)
	}
	if err != nil && !errors.Is(err, storage.ErrChanged) && !errors.Is(err, storage.ErrNotFound) {
		r.p.log.Warn("the registration that the provider does not accept cannot be given up", slog.Any("error", err))
	}
}
