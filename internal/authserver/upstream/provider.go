package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/auth"
	"github.com/toolhaven/toolhaven/internal/authserver/storage"
	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/oauth"
)

// Config describes a Provider.
type Config struct {
	// Spec is a valid description (externalauth.Spec.Validate).
	Spec externalauth.UpstreamProvider
	// RedirectURI is used if Spec has none.
	RedirectURI string
	// Secret returns the value of a secret each time it is needed. Its errors do not have
	// values in them.
	Secret func(externalauth.SecretRef) (string, error)
	// Store and Keys are for Spec's dcrConfig: where the registration is kept, sealed.
	// Keys are of 32 bytes. The first one seals, all of them open.
	Store storage.Store
	Keys  func() ([][]byte, error)
	// CAFiles are PEM files of authorities trusted beside the system's.
	CAFiles []string
	// AllowPrivate permits hosts that are on a private network and that only the
	// provider's metadata names, and names of the configuration that lead to this machine.
	AllowPrivate bool
	Log          *slog.Logger // nil is none

	timeout time.Duration // of a request; tests set it
}

// The bounds of this package.
const (
	requestTime   = 10 * time.Second // of one request with its response
	loginTime     = 30 * time.Second // of Finish and Refresh
	metadataFresh = 10 * time.Minute // how long metadata is used
	metadataStale = 24 * time.Hour   // the same while it cannot be fetched
	metadataRetry = 5 * time.Second  // how long a failure to fetch it is returned
	maxRequests   = 64               // requests to a provider at a time
	maxIDToken    = 16 << 10         // bytes
	maxURL        = 4 << 10          // bytes of a URL that metadata names
)

// Provider is an identity provider. It may be used concurrently.
type Provider struct {
	spec     externalauth.UpstreamProvider
	settings settings
	redirect string
	secret   func(externalauth.SecretRef) (string, error)
	log      *slog.Logger
	now      func() time.Time

	send      oauth.Sender
	published *oauth.Shared[*oauth.Metadata] // nil: it publishes none
	idTokens  *auth.IDTokens                 // of oidc
	mapping   *mapping                       // of oauth2; may be nil
	clients   *registrations                 // with dcrConfig
	method    methodMemory
}

// New returns a Provider. It sends no request: its errors are faults of the configuration.
func New(c Config) (*Provider, error) {
	p := &Provider{
		spec: c.Spec, redirect: c.RedirectURI, secret: c.Secret, log: c.Log, now: time.Now,
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	p.log = p.log.With(slog.String("upstream", c.Spec.Name))
	if err := p.configure(c); err != nil {
		return nil, fmt.Errorf("upstream provider %q: %w", c.Spec.Name, err)
	}
	return p, nil
}

func (p *Provider) configure(c Config) error {
	var discovery, own string
	var locations []string
	switch oidc, plain := c.Spec.OIDC, c.Spec.OAuth2; {
	case c.Spec.Type == externalauth.UpstreamOIDC && oidc != nil:
		p.settings, own = oidcSettings(oidc), oidc.RedirectURI
		issuer, err := url.Parse(oidc.IssuerURL)
		if err != nil {
			return errors.New("issuerUrl is not a URL")
		}
		discovery, locations = oidc.IssuerURL, oauth.Locations(issuer)
		slices.Reverse(locations) // an identity provider: OpenID Connect Discovery first
	case c.Spec.Type == externalauth.UpstreamOAuth2 && plain != nil:
		p.settings, own = oauth2Settings(plain), plain.RedirectURI
		p.mapping = newMapping(plain.TokenResponseMapping)
		if plain.DCR != nil {
			discovery = plain.DCR.DiscoveryURL
			if c.Store == nil || c.Keys == nil {
				return errors.New("dcrConfig needs a store and keys")
			}
			p.clients = newRegistrations(p, c.Store, c.Keys)
		}
	default:
		return fmt.Errorf("type %q does not fit its configuration", c.Spec.Type)
	}
	if own != "" {
		p.redirect = own
	}
	if p.redirect == "" {
		return errors.New("it has no redirect URI")
	}
	if p.secret == nil && p.settings.needsSecret() {
		return errors.New("it refers to a secret, and there is no store of secrets")
	}
	var err error
	if p.send, err = newSender(p.settings.hosts(), c); err != nil {
		return err
	}
	if discovery != "" {
		p.published = &oauth.Shared[*oauth.Metadata]{
			Fresh: metadataFresh, Retry: metadataRetry, Stale: metadataStale, Timeout: requestTime, Now: p.clock,
			Fetch: func(ctx context.Context) (*oauth.Metadata, error) { return p.discover(ctx, discovery, locations) },
		}
	}
	if c.Spec.OIDC != nil {
		p.idTokens = auth.NewIDTokens(auth.IDTokenConfig{
			Issuer: c.Spec.OIDC.IssuerURL, ClientID: c.Spec.OIDC.ClientID, Get: p.send.Get, Log: p.log, Now: p.clock,
			KeysURL: func(ctx context.Context) (string, error) {
				m, err := p.metadata(ctx)
				if err != nil {
					return "", err
				}
				return m.Keys, nil
			},
		})
	}
	return nil
}

func (p *Provider) clock() time.Time { return p.now() }

// Name returns the name of the provider in the configuration.
func (p *Provider) Name() string { return p.spec.Name }

// SupportedScopes returns the scopes that the provider's metadata lists. known is false if
// the provider publishes no list. The error is [ErrUnavailable], or a fault of the metadata.
func (p *Provider) SupportedScopes(ctx context.Context) (scopes []string, known bool, err error) {
	if p.published == nil {
		return nil, false, nil
	}
	m, err := p.metadata(ctx)
	if err != nil {
		return nil, false, p.fail("metadata", err)
	}
	return slices.Clone(m.Scopes), m.Scopes != nil, nil
}

// fail adds the provider and what failed to an error.
func (p *Provider) fail(what string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return fmt.Errorf("upstream provider %q: %s: %w", p.spec.Name, what, err)
}

// metadata returns the endpoints of the provider. Those of the configuration have
// precedence.
func (p *Provider) metadata(ctx context.Context) (*oauth.Metadata, error) {
	m := &oauth.Metadata{}
	if p.published != nil {
		found, err := p.published.Get(ctx)
		if err != nil {
			return nil, err
		}
		copied := *found
		m = &copied
	}
	if c := p.spec.OAuth2; c != nil {
		if c.AuthorizationEndpoint != "" {
			m.Authorization = c.AuthorizationEndpoint
		}
		if c.TokenEndpoint != "" {
			m.Token = c.TokenEndpoint
		}
		if c.DCR != nil && c.DCR.RegistrationEndpoint != "" {
			m.Registration = c.DCR.RegistrationEndpoint
		}
	}
	return m, nil
}

// discover fetches metadata. For oidc, at is the issuer; for dcrConfig, at is the one
// location, whose document must be that of an issuer with this location.
func (p *Provider) discover(ctx context.Context, at string, locations []string) (*oauth.Metadata, error) {
	m := &oauth.Metadata{}
	if locations != nil {
		if _, err := oauth.Discover(ctx, p.send.Get, at, locations, m); err != nil {
			return nil, err
		}
	} else {
		resp, err := p.send.Get(ctx, at)
		if err != nil {
			return nil, err
		}
		if resp.Status != http.StatusOK {
			return nil, fmt.Errorf("%s: it answers %d %s", at, resp.Status, http.StatusText(resp.Status))
		}
		if err := oauth.Decode(resp.Body, m); err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		if err := locatedAt(m.Issuer, at); err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
	}
	if err := p.check(m); err != nil {
		return nil, fmt.Errorf("the metadata of %s: %w", at, err)
	}
	return m, nil
}

// locatedAt is an error unless the metadata of issuer is at location (RFC 8414 section 3.3).
// A location that is none of those of a standard has the issuer's origin.
func locatedAt(issuer, location string) error {
	u, err := url.Parse(issuer)
	from, errFrom := url.Parse(location)
	if err != nil || errFrom != nil || u.Host == "" {
		return errors.New("its issuer is not a URL")
	}
	if slices.Contains(oauth.Locations(u), location) {
		return nil
	}
	if !strings.Contains(from.Path, "/.well-known/") && netguard.Origin(u) == netguard.Origin(from) {
		return nil
	}
	return fmt.Errorf("it is the metadata of another issuer: %q", oauth.Hide(issuer))
}

// check reports what prevents a sign-in with the metadata.
func (p *Provider) check(m *oauth.Metadata) error {
	oidc := p.spec.OIDC != nil
	configured := func(name string) bool {
		c := p.spec.OAuth2
		return c != nil && (name == "authorization_endpoint" && c.AuthorizationEndpoint != "" || name == "token_endpoint" && c.TokenEndpoint != "")
	}
	for _, e := range []struct {
		name, value string
		required    bool
	}{
		{"authorization_endpoint", m.Authorization, true},
		{"token_endpoint", m.Token, true},
		{"jwks_uri", m.Keys, oidc},
		{"userinfo_endpoint", m.UserInfo, false},
		{"registration_endpoint", m.Registration, p.clients != nil},
	} {
		if e.value == "" && (!e.required || configured(e.name)) {
			continue
		}
		// Plain HTTP is for this machine where the configuration names it.
		if netguard.CheckOAuthEndpoint(e.value) != nil || len(e.value) > maxURL || strings.Contains(e.value, "#") ||
			strings.HasPrefix(e.value, "http:") && !slices.Contains(p.settings.hosts(), hostOf(e.value)) {
			return fmt.Errorf("its %s is missing or not an https URL", e.name)
		}
	}
	// Few OpenID providers list the methods of PKCE. One that does, without S256,
	// does not support ours.
	if m.Challenges != nil && !slices.Contains(m.Challenges, "S256") {
		return errors.New("it does not offer PKCE with S256 (RFC 7636)")
	}
	return nil
}
