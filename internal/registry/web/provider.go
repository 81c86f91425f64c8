package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/oauth"
)

// Login is the registry as a client of an identity provider.
type Login struct {
	// Provider is the provider's name, as identities carry it; Issuer its issuer
	// URL, byte for byte.
	Provider, Issuer string
	ClientID         string
	// ClientSecret is called each time the secret is needed; nil is a client
	// without one.
	ClientSecret func() (string, error)
	// Scopes to request; may be empty.
	Scopes []string
	// Client connects to the provider; it decides on addresses.
	Client *http.Client
}

// Bounds on the provider: decisions.md, "Sizes and times".
const (
	providerTime  = 10 * time.Second
	metadataTime  = 10 * time.Minute // how long metadata is used
	metadataStale = 24 * time.Hour   // the same while it cannot be fetched
	retryTime     = 5 * time.Second  // how long a failure to fetch it is returned
	maxToken      = 16 << 10         // bytes of an access token
	maxExchanging = 16               // token requests at a time
)

// provider is the identity provider that visitors sign in at.
type provider struct {
	Login
	send      oauth.Sender
	locations []string // of the metadata

	exchanging chan struct{} // has maxExchanging places
	known      oauth.Shared[*oauth.Metadata]
}

func newProvider(login Login, now func() time.Time) (*provider, error) {
	switch {
	case login.Provider == "" || login.ClientID == "":
		return nil, errors.New("web: a login needs the name of the provider and a client")
	case login.Client == nil:
		return nil, errors.New("web: a login needs an HTTP client")
	}
	if err := netguard.CheckEndpoint(login.Issuer); err != nil {
		return nil, fmt.Errorf("web: the issuer of the login: %w", err)
	}
	u, err := url.Parse(login.Issuer)
	if err != nil {
		return nil, fmt.Errorf("web: the issuer of the login: %w", err)
	}
	locations := oauth.Locations(u)
	slices.Reverse(locations) // an identity provider: OpenID Connect Discovery first
	p := &provider{
		Login: login, send: oauth.NewSender(login.Client), locations: locations,
		exchanging: make(chan struct{}, maxExchanging),
	}
	p.known.Fetch, p.known.Now, p.known.Timeout = p.discover, now, providerTime
	p.known.Fresh, p.known.Retry, p.known.Stale = metadataTime, retryTime, metadataStale
	return p, nil
}

// metadata returns the provider's metadata.
func (p *provider) metadata(ctx context.Context) (*oauth.Metadata, error) { return p.known.Get(ctx) }

func (p *provider) discover(ctx context.Context) (*oauth.Metadata, error) {
	m := &oauth.Metadata{}
	location, err := oauth.Discover(ctx, p.send.Get, p.Issuer, p.locations, m)
	if err != nil {
		return nil, fmt.Errorf("metadata of the identity provider: %w", err)
	}
	for name, endpoint := range map[string]string{"authorization_endpoint": m.Authorization, "token_endpoint": m.Token} {
		if err := netguard.CheckOAuthEndpoint(endpoint); err != nil || strings.Contains(endpoint, "#") {
			return nil, fmt.Errorf("%s: its %s is not an https URL", location, name)
		}
	}
	// Few OpenID providers list the methods of PKCE. One that does, without S256,
	// does not support ours.
	if m.Challenges != nil && !slices.Contains(m.Challenges, "S256") {
		return nil, fmt.Errorf("%s: it does not offer PKCE with S256 (RFC 7636)", location)
	}
	return m, nil
}

// redeem exchanges a code for an access token. Its errors hold neither the code nor
// a secret.
func (p *provider) redeem(ctx context.Context, m *oauth.Metadata, grant url.Values) (string, error) {
	select {
	case p.exchanging <- struct{}{}:
		defer func() { <-p.exchanging }()
	case <-ctx.Done():
		return "", errors.New("too many sign-ins are being completed")
	}
	ctx, cancel := context.WithTimeout(ctx, providerTime)
	defer cancel()
	client := oauth.Client{ID: p.ClientID, Method: oauth.MethodNone}
	if p.ClientSecret != nil {
		var err error
		if client.Secret, err = p.ClientSecret(); err != nil {
			return "", fmt.Errorf("the client's secret: %w", err)
		}
	}
	if client.Secret != "" {
		var err error
		if client.Method, err = m.Method(); err != nil {
			return "", err
		}
	}
	token, err := client.Token(ctx, p.send, m.Token, grant)
	var refused *oauth.Refusal
	if errors.As(err, &refused) && refused.Code != "" {
		return "", &refusal{clean(fmt.Sprintf("The identity provider gives no access token (%d): %s %s", refused.Status, refused.Code, refused.Description), 3*maxShown)}
	}
	if err != nil {
		return "", fmt.Errorf("token request at %s: %w", p.Issuer, err)
	}
	if len(token.Access) > maxToken {
		return "", fmt.Errorf("the access token is longer than %d bytes", maxToken)
	}
	return token.Access, nil
}
