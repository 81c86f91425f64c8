package credential

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

	"github.com/toolhaven/toolhaven/internal/credential/kept"
	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/oauth"
)

// The types of a subject token (RFC 8693 section 3), as they are written on the command
// line.
const (
	AccessToken = "access_token"
	IDToken     = "id_token"
	JWT         = "jwt"
)

// tokenType begins the identifiers of token types (RFC 8693 section 3).
const tokenType = "urn:ietf:params:oauth:token-type:"

// ExchangeConfig configures an [Exchange].
type ExchangeConfig struct {
	// URL is the token endpoint: HTTPS, or HTTP on this machine.
	URL string
	// Audience and Scopes are requested for the new token; they may be empty.
	Audience string
	Scopes   []string
	// ClientID and ClientSecret authenticate the gateway at the endpoint; ClientID may be
	// "" and ClientSecret nil. ClientSecret is called for each exchange.
	ClientID     string
	ClientSecret func() (string, error)
	// Header carries the new token; "" is Authorization. The value is "Bearer TOKEN" in
	// any header.
	Header string
	// SubjectType is AccessToken, IDToken or JWT; "" is AccessToken.
	SubjectType string
	// Provider is the upstream provider whose token is exchanged in place of the caller's:
	// its ID token where SubjectType is IDToken, else its access token. "" is none, and
	// Upstream is not used then.
	Provider string
	Upstream Upstream
	// CAFiles are trusted beside the system's authorities.
	CAFiles []string
	Log     *slog.Logger
}

// Bounds of an exchange.
const (
	// exchangeTime bounds one token request.
	exchangeTime = 10 * time.Second
	// maxExchanged bounds the tokens that are kept; beyond it, one is dropped for each new
	// one.
	maxExchanged = 4096
	// unknownLifetime is how long a token without expires_in is used (RFC 8693 section
	// 2.2.1 recommends expires_in but does not require it).
	unknownLifetime = time.Minute
	// maxMargin is how long before its expiry a token is used no more; for short-lived
	// tokens it is a fifth of the lifetime.
	maxMargin = 30 * time.Second
	// refusedTime and failedTime are how long a refusal, and the failure of the endpoint,
	// are the outcome of further requests with the same token.
	refusedTime = 5 * time.Second
	failedTime  = time.Second
)

// Exchange exchanges the token of each caller for one that the server accepts (RFC 8693).
// The caller's own token, or that of the upstream provider, is sent to the token endpoint
// only. Concurrent requests of one caller wait for one exchange, and its result is used until
// shortly before it expires.
type Exchange struct {
	cfg  ExchangeConfig
	send oauth.Sender
	now  func() time.Time
	// tokens are by the subject token: what a caller may do follows from the token, not from
	// the subject in it. Audience and scopes are those of cfg.
	tokens *kept.Cache[string]
}

// NewExchange returns the Exchange of a valid configuration.
func NewExchange(cfg ExchangeConfig) (*Exchange, error) {
	client, err := netguard.Client(netguard.Options{CAFiles: cfg.CAFiles, AllowPrivate: true, AllowLoopback: true, Timeout: exchangeTime})
	if err != nil {
		return nil, err
	}
	if cfg.Header == "" {
		cfg.Header = "Authorization"
	}
	if cfg.SubjectType == "" {
		cfg.SubjectType = AccessToken
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	e := &Exchange{cfg: cfg, send: oauth.NewSender(client), now: time.Now}
	e.tokens = kept.New[string](maxExchanged, exchangeTime, func() time.Time { return e.now() })
	return e, nil
}

// Validate reports everything that is wrong with the configuration.
func (cfg *ExchangeConfig) Validate() error {
	var errs []error
	// A token endpoint may have a query, and no fragment (RFC 6749 section 3.2).
	bare, query, _ := strings.Cut(cfg.URL, "?")
	if err := netguard.CheckEndpoint(bare); err != nil {
		errs = append(errs, fmt.Errorf("URL: %w", err))
	} else if strings.Contains(query, "#") {
		errs = append(errs, fmt.Errorf("URL: %q must not have a fragment", cfg.URL))
	}
	if cfg.Header != "" {
		if err := CheckHeader(cfg.Header, ""); err != nil {
			errs = append(errs, err)
		} else if strings.EqualFold(cfg.Header, "Cookie") {
			errs = append(errs, errors.New("a token cannot be sent as Cookie"))
		}
	}
	if cfg.SubjectType != "" && !slices.Contains([]string{AccessToken, IDToken, JWT}, cfg.SubjectType) {
		errs = append(errs, fmt.Errorf("the type of the subject token is %s, %s or %s, not %q", AccessToken, IDToken, JWT, cfg.SubjectType))
	}
	if cfg.Provider != "" && cfg.Upstream == nil {
		errs = append(errs, fmt.Errorf("there is no upstream provider %q", cfg.Provider))
	}
	if cfg.ClientSecret != nil && cfg.ClientID == "" {
		errs = append(errs, errors.New("a client secret needs a client id"))
	}
	return errors.Join(errs...)
}

// Apply implements [Credential]. It fails for a request without a caller's token, except
// for requests of the gateway's own ([Anonymous]), to which it adds nothing.
func (e *Exchange) Apply(ctx context.Context, h http.Header) error {
	subject, err := e.subject(ctx)
	if err != nil || subject == "" {
		return err
	}
	token, err := e.tokenFor(ctx, subject)
	if err != nil {
		return err
	}
	h.Set(e.cfg.Header, "Bearer "+token)
	return nil
}

// subject returns the token to exchange; "" for a request of the gateway's own.
func (e *Exchange) subject(ctx context.Context) (string, error) {
	return SubjectToken(ctx, e.cfg.Upstream, e.cfg.Provider, e.cfg.SubjectType == IDToken)
}

// Renew implements [Renewer]: a token that the server rejects with 401 is exchanged anew,
// once.
func (e *Exchange) Renew(ctx context.Context, h http.Header, rejected *http.Response) (bool, error) {
	if rejected.StatusCode != http.StatusUnauthorized {
		return false, nil
	}
	subject, err := e.subject(ctx)
	if err != nil || subject == "" {
		return false, err
	}
	used := strings.TrimPrefix(h.Get(e.cfg.Header), "Bearer ")
	if !e.tokens.Drop(kept.KeyOf(subject), func(token string) bool { return token == used }, refusedTime) {
		return false, nil
	}
	token, err := e.tokenFor(ctx, subject)
	if err != nil || token == used {
		return false, err
	}
	h.Set(e.cfg.Header, "Bearer "+token)
	return true, nil
}

// tokenFor returns the token for a subject token, exchanging it if needed.
func (e *Exchange) tokenFor(ctx context.Context, subject string) (string, error) {
	token, err := e.tokens.Get(ctx, kept.KeyOf(subject), func(ctx context.Context) (string, time.Time, error) {
		return e.run(ctx, subject)
	})
	if errors.Is(err, kept.ErrFull) {
		return "", unavailable("too many token exchanges are under way; try again")
	}
	return token, err
}

// run exchanges a token, and returns until when the outcome is used.
func (e *Exchange) run(ctx context.Context, subject string) (string, time.Time, error) {
	began := e.now()
	token, err := e.request(ctx, subject)
	var refusal *oauth.Refusal
	switch {
	case err == nil:
		lifetime := token.Lifetime
		if lifetime == 0 {
			lifetime = unknownLifetime
		}
		return token.Access, began.Add(lifetime - min(maxMargin, lifetime/5)), nil
	case errors.As(err, &refusal) && refusal.AboutSubject():
		e.cfg.Log.Warn("token exchange refused", "endpoint", e.cfg.URL, "error", refusal)
		return "", e.now().Add(refusedTime), unauthorized("the access token cannot be exchanged for one of the server: " + refusal.Error())
	}
	// A fault of the endpoint, or of the gateway's own configuration there: the caller has
	// no part in it.
	e.cfg.Log.Error("token exchange failed", "endpoint", e.cfg.URL, "error", err)
	return "", e.now().Add(failedTime), unavailable("the access token cannot be exchanged for one of the server at present")
}

// request sends the token request (RFC 8693 section 2.1).
func (e *Exchange) request(ctx context.Context, subject string) (*oauth.Token, error) {
	client := oauth.Client{ID: e.cfg.ClientID, Method: oauth.MethodNone}
	if e.cfg.ClientSecret != nil {
		secret, err := e.cfg.ClientSecret()
		if err != nil {
			return nil, fmt.Errorf("client secret: %w", err)
		}
		client.Secret, client.Method = secret, oauth.MethodBasic
	}
	form := url.Values{
		"grant_type":           {"urn:ietf:params:oauth:grant-type:token-exchange"},
		"subject_token":        {subject},
		"subject_token_type":   {tokenType + e.cfg.SubjectType},
		"requested_token_type": {tokenType + AccessToken},
	}
	if e.cfg.Audience != "" {
		form.Set("audience", e.cfg.Audience)
	}
	if len(e.cfg.Scopes) > 0 {
		form.Set("scope", strings.Join(e.cfg.Scopes, " "))
	}
	token, err := client.Token(ctx, e.send, e.cfg.URL, form)
	if err != nil {
		return nil, err
	}
	if token.Access == subject {
		return nil, errors.New("the endpoint returned the caller's own token, which is not passed on")
	}
	switch token.Issued {
	case "", tokenType + AccessToken, tokenType + "jwt":
		return token, nil
	}
	return nil, fmt.Errorf("the endpoint issued a token of the type %q instead of an access token", oauth.Hide(token.Issued))
}
