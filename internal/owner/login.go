package owner

import (
	"context"
	"errors"
	"sync"

	"github.com/toolhaven/toolhaven/internal/credential"
	"github.com/toolhaven/toolhaven/internal/oauthclient"
	"github.com/toolhaven/toolhaven/internal/serve"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// newLogin returns the credential of the user's login at the remote server; nil for a
// workload without a login.
func (o *owner) newLogin() (*credential.Login, error) {
	if o.spec.Remote == nil || o.spec.Remote.Auth == nil {
		return nil, nil
	}
	t := &loginTokens{
		signIns: o.cfg.SignIns.WithSecrets(o.cfg.Secrets).WithCAFiles(o.spec.CAFiles()), target: o.spec.Remote.URL,
		stored: func() string {
			spec, err := o.cfg.Store.Get(o.spec.Name)
			if err != nil || spec.Remote == nil || spec.Remote.Auth == nil {
				return ""
			}
			return spec.Remote.Auth.Login
		},
	}
	if err := t.use(o.spec.Remote.Auth.Login); err != nil {
		return nil, err
	}
	o.mu.Lock()
	o.tokens = t
	o.mu.Unlock()
	return credential.NewLogin(t, "thv login "+o.spec.Name, func() { serve.Notify(o.reach.Failed) }, o.log), nil
}

// loginTokens are the tokens of the sign-in that the stored Spec names: a login may be
// stored under another key while the workload runs.
type loginTokens struct {
	signIns *oauthclient.Store
	target  string
	stored  func() (key string)

	mu     sync.Mutex
	key    string
	source *oauthclient.KeyedSource
}

func (t *loginTokens) use(key string) error {
	source, err := t.signIns.Keyed(key, t.target)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.key, t.source = key, source
	return nil
}

func (t *loginTokens) current() (string, *oauthclient.KeyedSource) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.key, t.source
}

// Token implements [credential.Tokens].
func (t *loginTokens) Token(ctx context.Context) (string, error) {
	key, source := t.current()
	token, err := source.Token(ctx)
	if !errors.Is(err, oauthclient.ErrSignIn) {
		return token, err
	}
	if key == "" {
		err = nil // no login was needed so far: the request is sent without a token
	}
	if another := t.stored(); another != key && another != "" && t.use(another) == nil {
		_, source = t.current()
		return source.Token(ctx)
	}
	return token, err
}

// Renew implements [credential.Tokens].
func (t *loginTokens) Renew(ctx context.Context, rejected string) (string, error) {
	_, source := t.current()
	return source.Renew(ctx, rejected)
}

// Require implements [credential.Tokens].
func (t *loginTokens) Require(ctx context.Context, scopes []string) ([]string, error) {
	_, source := t.current()
	return source.Require(ctx, scopes)
}

// caution is what the user should know of the login; "" for nothing.
func (t *loginTokens) caution(name string) string {
	_, source := t.current()
	if len(source.Wanted(context.Background())) == 0 {
		return ""
	}
	return "the server requires more than the login allows; agree to it with `thv login " + name + "`"
}

// loginCondition returns the state of a workload whose user has to log in, or else the
// state with its reason. The owner's mu is held.
func (o *owner) loginCondition(state workload.State, reason string) (workload.State, string) {
	if o.login == nil || state == workload.Stopping {
		return state, reason
	}
	if needed := o.login.Needed(); needed != "" {
		return workload.NeedsLogin, needed
	}
	return state, reason
}
