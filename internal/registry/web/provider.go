package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/netguard"
)

// Login is the registry as a client of an identity provider.
type Login struct {
	// Provider is the provider's name, as identities carry it; Issuer its issuer
	// URL, byte for byte.
	Provider, Issuer string
	ClientID         string
	// ClientSecret is asked for each time the secret is needed; nil is a client
	// without one.
	ClientSecret func() (string, error)
	// Scopes to ask for; may be empty.
	Scopes []string
	// Client connects to the provider, and decides on the addresses it may have.
	Client *http.Client
}

// Bounds on the provider: decisions.md, "Sizes and times".
const (
	maxAnswer     = 1 << 20
	providerTime  = 10 * time.Second
	metadataTime  = 10 * time.Minute // how long what it says of itself is believed
	retryTime     = 5 * time.Second  // how long a failure is, for everybody
	maxToken      = 16 << 10
	maxExchanging = 16
)

// provider is the identity provider that visitors sign in at.
type provider struct {
	Login
	client *http.Client
	now    func() time.Time
	places []string
	// exchanging bounds the codes that are redeemed at once.
	exchanging chan struct{}

	asking chan struct{} // held by the one who asks
	mu     sync.Mutex
	known  *knowledge
}

// metadata is what a provider says of itself (RFC 8414 section 2).
type metadata struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	AuthMethods   []string `json:"token_endpoint_auth_methods_supported"`
	Challenges    []string `json:"code_challenge_methods_supported"`
	// SendsIssuer is RFC 9207 section 3.
	SendsIssuer bool `json:"authorization_response_iss_parameter_supported"`
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
	// A document or a token that is somewhere else is not where its owner said.
	client := *login.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	// OpenID Connect Discovery 1.0 section 4.1, then RFC 8414 section 3.1.
	origin, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	return &provider{
		Login: login, client: &client, now: now, exchanging: make(chan struct{}, maxExchanging), asking: make(chan struct{}, 1),
		places: []string{origin + path + "/.well-known/openid-configuration", origin + "/.well-known/oauth-authorization-server" + path},
	}, nil
}

// knowledge is what was found out about the provider, or why nothing was.
type knowledge struct {
	metadata *metadata
	err      error
	until    time.Time // it holds until then
}

// metadata is asked for once for all visitors, and believed for a while; so is
// its failure, but only shortly.
func (p *provider) metadata(ctx context.Context) (*metadata, error) {
	if k := p.remembered(); k != nil {
		return k.metadata, k.err
	}
	select {
	case p.asking <- struct{}{}:
		defer func() { <-p.asking }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if k := p.remembered(); k != nil { // somebody asked meanwhile
		return k.metadata, k.err
	}
	// It is asked for all, so it does not end with this visitor.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), providerTime)
	defer cancel()
	m, err := p.discover(ctx)
	holds := metadataTime
	if err != nil {
		holds = retryTime
	}
	p.mu.Lock()
	p.known = &knowledge{m, err, p.now().Add(holds)}
	p.mu.Unlock()
	return m, err
}

func (p *provider) remembered() *knowledge {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil || !p.now().Before(p.known.until) {
		return nil
	}
	return p.known
}

func (p *provider) discover(ctx context.Context) (*metadata, error) {
	for _, place := range p.places {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, place, nil)
		if err != nil {
			return nil, fmt.Errorf("ask the identity provider: %w", err)
		}
		status, body, err := p.do(req)
		switch {
		case err != nil:
			return nil, fmt.Errorf("ask the identity provider about itself: %w", err)
		case status >= 500:
			return nil, fmt.Errorf("ask the identity provider about itself: %s answers %d", place, status)
		case status != http.StatusOK:
			continue
		}
		var m metadata
		if err := json.Unmarshal(body, &m); err != nil {
			return nil, fmt.Errorf("%s is not the metadata of an identity provider", place)
		}
		if err := p.check(&m); err != nil {
			return nil, fmt.Errorf("%s: %w", place, err)
		}
		return &m, nil
	}
	return nil, fmt.Errorf("the identity provider has no metadata at %s", strings.Join(p.places, " and "))
}

func (p *provider) check(m *metadata) error {
	// RFC 8414 section 3.3, OpenID Connect Discovery 1.0 section 4.3.
	if m.Issuer != p.Issuer {
		return fmt.Errorf("it is the metadata of the issuer %q, not of %q", clean(m.Issuer, maxShown), p.Issuer)
	}
	for name, endpoint := range map[string]string{"authorization_endpoint": m.Authorization, "token_endpoint": m.Token} {
		// Endpoints may have a query (RFC 6749 sections 3.1 and 3.2).
		bare, _, _ := strings.Cut(endpoint, "?")
		if err := netguard.CheckEndpoint(bare); err != nil || strings.Contains(endpoint, "#") {
			return fmt.Errorf("its %s is not an https URL", name)
		}
	}
	// Few say so in OpenID Connect; one that lists methods, and not this one,
	// would not understand us.
	if m.Challenges != nil && !slices.Contains(m.Challenges, "S256") {
		return errors.New("it does not offer PKCE with S256 (RFC 7636)")
	}
	return nil
}

// redeem exchanges a code for an access token (RFC 6749 section 4.1.3). Its
// errors hold neither the code nor a secret.
func (p *provider) redeem(ctx context.Context, m *metadata, form url.Values) (string, error) {
	select {
	case p.exchanging <- struct{}{}:
		defer func() { <-p.exchanging }()
	case <-ctx.Done():
		return "", errors.New("too many people sign in at this moment")
	}
	ctx, cancel := context.WithTimeout(ctx, providerTime)
	defer cancel()
	secret, err := p.secret()
	if err != nil {
		return "", err
	}
	basic := secret != "" && (m.AuthMethods == nil || slices.Contains(m.AuthMethods, "client_secret_basic"))
	if !basic {
		form.Set("client_id", p.ClientID)
		if secret != "" {
			form.Set("client_secret", secret)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Token, strings.NewReader(form.Encode()))
	if err != nil {
		return "", errors.New("the token endpoint is not a URL")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if basic { // RFC 6749 section 2.3.1
		req.SetBasicAuth(url.QueryEscape(p.ClientID), url.QueryEscape(secret))
	}
	status, body, err := p.do(req)
	if err != nil {
		return "", fmt.Errorf("ask for a token: %w", err)
	}
	var answer struct {
		Token       string `json:"access_token"`
		Type        string `json:"token_type"`
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return "", fmt.Errorf("the token endpoint answers %d, and not as it should", status)
	}
	if status != http.StatusOK || answer.Error != "" {
		said := without(answer.Error+" "+answer.Description, secret, form.Get("code"), form.Get("code_verifier"))
		return "", &refusal{fmt.Sprintf("The identity provider gives no access token (%d): %s", status, said)}
	}
	switch {
	case !strings.EqualFold(answer.Type, "Bearer"): // RFC 6749 section 7.1
		return "", errors.New("the identity provider gives a token that is not of the type Bearer")
	case answer.Token == "" || len(answer.Token) > maxToken:
		return "", errors.New("the identity provider gives no usable access token")
	}
	return answer.Token, nil
}

func (p *provider) secret() (string, error) {
	if p.ClientSecret == nil {
		return "", nil
	}
	secret, err := p.ClientSecret()
	if err != nil {
		return "", fmt.Errorf("the client's secret: %w", err)
	}
	return secret, nil
}

// do sends a request and reads the answer, within bounds. Its errors name the
// URL without its query.
func (p *provider) do(req *http.Request) (int, []byte, error) {
	req.Header.Set("Accept", "application/json")
	place := req.URL.Scheme + "://" + req.URL.Host + req.URL.EscapedPath()
	resp, err := p.client.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return 0, nil, fmt.Errorf("%s: %w", place, err)
	}
	defer resp.Body.Close()
	body, err := netguard.ReadBounded(resp.Body, maxAnswer)
	if err != nil {
		return 0, nil, fmt.Errorf("%s: %w", place, err)
	}
	return resp.StatusCode, body, nil
}

// without is a stranger's text, cleaned, without what is confidential.
func without(text string, confidential ...string) string {
	for _, c := range confidential {
		if c != "" {
			text = strings.ReplaceAll(text, c, "(hidden)")
			text = strings.ReplaceAll(text, url.QueryEscape(c), "(hidden)")
		}
	}
	return clean(text, maxShown)
}
