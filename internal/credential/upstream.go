package credential

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Upstream returns tokens that upstream providers issued for the caller of a context
// ([exchange.CallerOf]). Its errors are an [mcp.Error] for the client, or wrap [ErrLogin] when
// the caller has to sign in again; any other one is an outage.
type Upstream interface {
	// Token returns the access token of a provider, and its ID token, "" for none.
	Token(ctx context.Context, provider string) (access, id string, err error)
	// Renew returns another access token than one that the server rejected. It returns the
	// rejected one when there is no other.
	Renew(ctx context.Context, provider, rejected string) (access string, err error)
}

// ErrLogin is the error of an Upstream that has no token for the caller: they have to sign in
// at the provider again.
var ErrLogin = errors.New("a login at the upstream provider is needed")

// SubjectToken returns the token that represents the caller of ctx elsewhere: the caller's
// own, or with a provider that of upstream, its ID token if id. For a request of the
// gateway's own ([Anonymous]) it is "". Its errors are for the client.
func SubjectToken(ctx context.Context, upstream Upstream, provider string, id bool) (string, error) {
	caller := exchange.CallerOf(ctx)
	if caller == nil && isAnonymous(ctx) {
		return "", nil
	}
	if caller == nil {
		return "", unauthorized("the request has no authenticated caller")
	}
	if provider == "" {
		if token := caller.Token.Reveal(); token != "" {
			return token, nil
		}
		return "", unauthorized("there is no access token of the caller")
	}
	if upstream == nil {
		return "", unavailable("there is no upstream provider " + provider)
	}
	token, idToken, err := upstream.Token(ctx, provider)
	if err != nil {
		return "", upstreamError(ctx, provider, err)
	}
	if id {
		token = idToken
	}
	if token == "" {
		return "", unauthorized("the provider " + provider + " issued no token of the required type; sign in again")
	}
	return token, nil
}

// upstreamError is the error for the client. The text of an unknown error may be of another
// server, and is not passed on.
func upstreamError(ctx context.Context, provider string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if rpc, ok := errors.AsType[*mcp.Error](err); ok {
		return rpc
	}
	if errors.Is(err, ErrLogin) {
		return unauthorized("the login at " + provider + " has ended; sign in again")
	}
	return unavailable("there is no token of " + provider + " at present; try again")
}

// Inject sends the access token that an upstream provider issued for the caller (RFC 6750
// section 2.1), and never the caller's own. A token that the server rejects is renewed once,
// and the request is sent once more.
type Inject struct {
	provider string
	upstream Upstream
	log      *slog.Logger
	now      func() time.Time

	mu sync.Mutex
	// renewed are the SHA-256 of tokens of Renew, and when they were renewed: a token that is
	// rejected though it is new is not renewed again for rejectedTime.
	renewed map[[sha256.Size]byte]time.Time
}

// maxRenewed bounds the number of renewals that are remembered.
const maxRenewed = 4096

// NewInject returns the Inject for a provider.
func NewInject(provider string, upstream Upstream, log *slog.Logger) *Inject {
	return &Inject{provider: provider, upstream: upstream, log: log, now: time.Now, renewed: map[[sha256.Size]byte]time.Time{}}
}

// Apply implements [Credential]. It fails for a request without a caller, except for requests
// of the gateway's own ([Anonymous]), to which it adds nothing.
func (i *Inject) Apply(ctx context.Context, h http.Header) error {
	token, err := SubjectToken(ctx, i.upstream, i.provider, false)
	if err != nil || token == "" {
		return err
	}
	return i.set(h, token)
}

func (i *Inject) set(h http.Header, token string) error {
	if !httpguts.ValidHeaderFieldValue(token) {
		return unavailable("the token of " + i.provider + " is not one line of text")
	}
	h.Set("Authorization", "Bearer "+token)
	return nil
}

// Renew implements [Renewer]: after status 401.
func (i *Inject) Renew(ctx context.Context, h http.Header, rejected *http.Response) (bool, error) {
	used, sent := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	if rejected.StatusCode != http.StatusUnauthorized || !sent || exchange.CallerOf(ctx) == nil || i.futile(used) {
		return false, nil
	}
	token, err := i.upstream.Renew(ctx, i.provider, used)
	if err != nil {
		i.log.Warn("the token of a caller cannot be renewed", "provider", i.provider, "login", errors.Is(err, ErrLogin))
		return false, upstreamError(ctx, i.provider, err)
	}
	if token == "" || token == used {
		return false, nil
	}
	i.note(token)
	return true, i.set(h, token)
}

// futile reports whether a token was renewed just now.
func (i *Inject) futile(token string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	when, found := i.renewed[sha256.Sum256([]byte(token))]
	return found && i.now().Before(when.Add(rejectedTime))
}

func (i *Inject) note(token string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.now()
	if len(i.renewed) >= maxRenewed {
		for key, when := range i.renewed {
			if !now.Before(when.Add(rejectedTime)) {
				delete(i.renewed, key)
			}
		}
		for key := range i.renewed { // any ones: at most one more renewal each
			if len(i.renewed) < maxRenewed {
				break
			}
			delete(i.renewed, key)
		}
	}
	i.renewed[sha256.Sum256([]byte(token))] = now
}
