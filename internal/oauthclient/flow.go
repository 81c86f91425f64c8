package oauthclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/toolhaven/toolhaven/internal/oauth"
)

// flow is a sign-in under way: a request of the user, the resource, and the authorization
// server that it leads to.
type flow struct {
	store   *Store
	request Request
	// target is Request.Target, and probe Request.Probe or the target.
	target, probe *url.URL
	resource      *protection
	at            *server // set by find
	web           *web    // to at, while run runs
}

// find chooses the authorization server of the resource, and the scopes.
func (f *flow) find(ctx context.Context) (err error) {
	if f.at, err = f.server(ctx); err != nil {
		return err
	}
	if len(f.request.Scopes) > 0 {
		f.resource.scopes, err = checkScopes(f.request.Scopes)
		return err
	}
	if len(f.resource.scopes) == 0 {
		f.resource.scopes = f.at.identityScopes()
	}
	return nil
}

// server returns the authorization server of the resource.
func (f *flow) server(ctx context.Context) (*server, error) {
	if f.request.AuthorizeURL != "" {
		return unlisted(f.request.AuthorizeURL, f.request.TokenURL)
	}
	issuer, near, err := f.resource.issuer(f.request.Issuer)
	if err != nil {
		return nil, err
	}
	return f.store.server(ctx, issuer, near)
}

// run obtains a grant that the resource accepts: success is reported only then. A resource
// that requires more scopes of the first token gets them requested once (MCP
// authorization, "Step-Up Authorization Flow").
func (f *flow) run(ctx context.Context) (*signIn, error) {
	w, err := f.store.within(f.at.reach)
	if err != nil {
		return nil, err
	}
	defer w.close()
	f.web = w
	kept, err := f.authorize(ctx)
	if err != nil {
		return nil, err
	}
	more, err := f.accepted(ctx, kept)
	if err != nil || len(more) == 0 || covered(strings.Fields(kept.Scope), more) {
		return kept, err
	}
	f.resource.scopes = union(strings.Fields(kept.Scope), more)
	if kept, err = f.authorize(ctx); err != nil {
		return nil, err
	}
	_, err = f.accepted(ctx, kept)
	return kept, err
}

// maxAuthorizations bounds the authorization requests of one sign-in.
const maxAuthorizations = 3

// authorize obtains a grant. It requests authorization again where a server refuses the
// resource indicator (RFC 8707 section 2), or has forgotten the client that registered
// itself.
func (f *flow) authorize(ctx context.Context) (*signIn, error) {
	client, indicator := f.request.Client, f.resource.resource
	if f.request.Indicator != nil {
		indicator = *f.request.Indicator
	}
	for n := 1; ; n++ {
		kept, err := f.authorizeOnce(ctx, client, indicator)
		var refusal *Refusal
		if err == nil || n == maxAuthorizations || !errors.As(err, &refusal) {
			return kept, err
		}
		switch {
		case refusal.Code == "invalid_target" && indicator != "" && f.request.Indicator == nil:
			indicator = ""
		case (refusal.Code == "invalid_client" || refusal.Code == "unauthorized_client") && client.ID == "" && f.request.Keyed:
			client.MetadataURL = "" // if that was the client, it registers instead
		default:
			return nil, err
		}
	}
}

// authorizeOnce obtains a grant with an authorization code (OAuth 2.1 section 4.1).
func (f *flow) authorizeOnce(ctx context.Context, client Registered, indicator string) (*signIn, error) {
	r, at := f.request, f.at
	scopes := at.scopes(f.resource.scopes)
	// Listen first: a client registers with the redirect URI of this attempt.
	preferred := 0
	if client.ID == "" {
		if known, err := f.registration(ctx); err != nil {
			return nil, err
		} else if known != nil {
			preferred = portOf(known.RedirectURI)
		}
	}
	chosen := r.CallbackPort
	if chosen == 0 && r.PreferredPort != 0 {
		if client.ID != "" || at.reads(client) {
			chosen = r.PreferredPort
		}
		preferred = cmp.Or(preferred, r.PreferredPort)
	}
	l, err := listen(ctx, chosen, preferred)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	a := &attempt{oauth.NewAuthorization(&at.Metadata, "http://"+l.Addr().String()+callbackPath)}
	a.ScopeParam = r.ScopeParam
	if at.unlisted {
		a.Authorization.Issuer = "" // its identifier is not known
	}
	id, err := f.identity(ctx, client, a.Redirect, scopes)
	if err != nil {
		return nil, err
	}
	a.Params = at.preset().AuthorizationParams(scopes)
	address := a.URL(&at.Metadata, id.ID, indicator, scopes)
	code, err := a.wait(ctx, l, address, r)
	if err != nil {
		f.store.records.dropRegistration(ctx, at.Issuer, id)
		return nil, err
	}
	g, err := f.store.request(ctx, f.web, at.Token, id, a.Grant(code, indicator))
	if err != nil {
		f.store.records.dropRegistration(ctx, at.Issuer, id)
		return nil, fmt.Errorf("request a token from %s: %w", at.Issuer, err)
	}
	if g.Scope == "" { // RFC 6749 section 5.1: as requested
		g.Scope = strings.Join(scopes, " ")
	}
	return &signIn{
		Version: storeVersion, Resource: f.resource.resource, Issuer: at.Issuer, TokenEndpoint: at.Token, RevocationEndpoint: at.Revocation,
		Client: id, Reach: at.reach, Indicator: indicator, NoIndicator: indicator == "", grant: *g,
	}, nil
}

// identity returns the client of the authorization request: the one that the user names,
// else that of a metadata document, else one that is registered.
func (f *flow) identity(ctx context.Context, r Registered, redirect string, scopes []string) (identity, error) {
	if r.ID != "" {
		id, err := f.at.named(r)
		if err != nil {
			return identity{}, err
		}
		_, err = f.store.secretOf(id) // fail before the user signs in
		return id, err
	}
	if f.at.reads(r) {
		return identity{ID: r.MetadataURL, Method: oauth.MethodNone}, nil
	}
	known, err := f.registered(ctx, redirect, scopes)
	if err != nil {
		return identity{}, err
	}
	return known.Client, nil
}

// accepted sends a request with the new token to the resource. It returns the scopes that
// the resource requires in addition.
func (f *flow) accepted(ctx context.Context, kept *signIn) ([]string, error) {
	w, err := f.store.within(reachAny)
	if err != nil {
		return nil, err
	}
	defer w.close()
	var a *answer
	if len(f.request.Bodies) > 0 {
		a, err = w.probe(ctx, f.probe.String(), string(kept.AccessToken), f.request.Bodies[0])
	} else {
		a, err = w.get(ctx, f.probe.String(), string(kept.AccessToken))
	}
	if err != nil {
		return nil, err
	}
	if a.Status == http.StatusUnauthorized {
		return nil, fmt.Errorf("%w that %s issued for %s: it answers 401 Unauthorized%s", ErrNotAccepted, kept.Issuer, kept.Resource, a.because(string(kept.AccessToken)))
	}
	if a.Status == http.StatusForbidden {
		return Insufficient(a.Header), nil
	}
	return nil, nil
}
