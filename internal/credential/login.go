package credential

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/oauthclient"
)

// Tokens are the access tokens of a login. The error of its methods is
// [oauthclient.ErrSignIn] when the user has to log in.
type Tokens interface {
	// Token returns an unexpired token, or "" while no login was needed.
	Token(ctx context.Context) (string, error)
	// Renew returns another token than one that the server rejected.
	Renew(ctx context.Context, rejected string) (string, error)
	// Require notes scopes that the server requires, and returns those that are missing.
	Require(ctx context.Context, scopes []string) (missing []string, err error)
}

// rejectedTime is how long a token is not renewed again after the server rejected one that
// had just been issued: otherwise each request would renew it.
const rejectedTime = 30 * time.Second

// Login sends the access token of the user's login at a remote server, also with requests
// of the gateway's own. A token that the server rejects is renewed once, and the request
// is sent once more.
type Login struct {
	tokens Tokens
	hint   string
	lost   func()
	log    *slog.Logger
	now    func() time.Time

	mu      sync.Mutex
	reason  string    // why a login is needed; "" when it is not
	renewed string    // the last token of Renew
	when    time.Time // when it was renewed
}

// NewLogin returns the Login with tokens. hint is the command by which the user logs in.
// lost is called when a login becomes necessary.
func NewLogin(tokens Tokens, hint string, lost func(), log *slog.Logger) *Login {
	return &Login{tokens: tokens, hint: hint, lost: lost, log: log, now: time.Now}
}

// Needed returns why the user has to log in; "" when they need not. It reports the outcome
// of the last request.
func (l *Login) Needed() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reason
}

// Apply implements [Credential].
func (l *Login) Apply(ctx context.Context, h http.Header) error {
	token, err := l.tokens.Token(ctx)
	if err := l.outcome(ctx, err); err != nil {
		return err
	}
	if token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	return nil
}

// outcome notes whether a login is needed, and returns the error for the client.
func (l *Login) outcome(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	needed := errors.Is(err, oauthclient.ErrSignIn)
	l.mu.Lock()
	before := l.reason
	switch {
	case needed:
		l.reason = "run `" + l.hint + "`"
	case err == nil:
		l.reason = ""
	}
	l.mu.Unlock()
	switch {
	case err == nil:
		return nil
	case needed:
		if before == "" {
			l.log.Warn("a login is needed", "error", err)
			l.lost()
		}
		return &mcp.Error{Code: mcp.CodeServerGone, Message: "the login at the server has ended; run `" + l.hint + "`"}
	}
	l.log.Error("the login cannot be renewed", "error", err)
	return unavailable("the login at the server cannot be renewed at present: " + err.Error())
}

// Renew implements [Renewer].
func (l *Login) Renew(ctx context.Context, h http.Header, rejected *http.Response) (bool, error) {
	if rejected.StatusCode == http.StatusForbidden {
		return false, l.stepUp(ctx, rejected)
	}
	used := strings.TrimPrefix(h.Get("Authorization"), "Bearer ")
	l.mu.Lock()
	futile := used == l.renewed && l.now().Before(l.when.Add(rejectedTime))
	l.mu.Unlock()
	if futile {
		return false, nil
	}
	token, err := l.tokens.Renew(ctx, used)
	if err := l.outcome(ctx, err); err != nil {
		return false, err
	}
	l.mu.Lock()
	l.renewed, l.when = token, l.now()
	l.mu.Unlock()
	h.Set("Authorization", "Bearer "+token)
	return true, nil
}

// stepUp handles a response insufficient_scope (MCP, basic/authorization, Step-Up
// Authorization Flow): the user has to agree to more scopes in a browser, so the client
// receives an error with the command for it.
func (l *Login) stepUp(ctx context.Context, rejected *http.Response) error {
	scopes := oauthclient.Insufficient(rejected.Header)
	if len(scopes) == 0 {
		return nil
	}
	missing, err := l.tokens.Require(ctx, scopes)
	if err != nil {
		return l.outcome(ctx, err)
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return &mcp.Error{Code: mcp.CodeServerGone, Status: http.StatusForbidden,
		Message: fmt.Sprintf("the server requires more than the login allows (scope %s); run `%s`", strings.Join(missing, " "), l.hint)}
}
