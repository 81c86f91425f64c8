package oauthclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/oauth"
)

// DefaultPatience is how long a user may take to sign in.
const DefaultPatience = 5 * time.Minute

// Request describes a sign-in.
type Request struct {
	// Target is the URL of the resource, as the user named it.
	Target string
	// Probe is a URL at or below Target that answers requests without a token with
	// 401; "" is Target itself.
	Probe string
	// Issuer chooses among the resource's authorization servers; "" is the first.
	Issuer string
	// AuthorizeURL and TokenURL are the endpoints of an authorization server without
	// metadata; both or none. The user names them, so they may have any address.
	AuthorizeURL, TokenURL string
	Client                 Registered
	// Scopes are requested instead of those that the resource names.
	Scopes []string
	// ScopeParam is the name of the parameter with the scopes in the authorization
	// request; "" is scope.
	ScopeParam string
	// Indicator is the resource indicator (RFC 8707), byte for byte; nil is the
	// identifier of the resource, and "" sends none.
	Indicator *string
	// CallbackPort is the port of the redirect URI; 0 is any free one. PreferredPort is
	// used where CallbackPort is 0: it must be free for a client that is registered
	// already, and another port is used otherwise.
	CallbackPort, PreferredPort int
	// Bodies, when not nil, are POSTed to the resource as JSON, one after the other, until
	// one is answered with 401; without a 401 the resource needs no sign-in. The first
	// one is sent again with the token.
	Bodies [][]byte
	// Force signs in also where the resource answers without a token.
	Force bool
	// Keyed keeps the sign-in by issuer, resource and client, for Target alone, beside
	// others for the same resource. [Login].Key identifies it. One that is kept already
	// and that the resource accepts is used again, unless Fresh is set.
	Keyed, Fresh bool
	// Patience is how long to wait for the user; 0 is DefaultPatience.
	Patience time.Duration
	// Show is called with the address where the user signs in, which holds no secret.
	Show func(address string)
	// Paste, when not nil, is read for the address that the browser ended at.
	Paste io.Reader
	// Complain is called with the fault of a pasted line.
	Complain func(string)
}

// Login is a sign-in as it may be shown.
type Login struct {
	Resource string    `json:"resource"`
	Issuer   string    `json:"issuer"`
	ClientID string    `json:"clientId"`
	Scope    string    `json:"scope,omitempty"`
	Expires  time.Time `json:"expires,omitzero"` // of the access token; zero when unknown
	Renews   bool      `json:"renews"`           // it is renewed without the user
	// Key identifies a keyed sign-in. Reused: it was kept already.
	Key    string `json:"-"`
	Reused bool   `json:"-"`
}

func (k *signIn) shown() *Login {
	return &Login{
		Resource: k.Resource, Issuer: k.Issuer, ClientID: k.Client.ID,
		Scope: k.Scope, Expires: k.Expires, Renews: k.RefreshToken != "",
	}
}

// ErrNotAccepted: the resource rejects the token that the authorization server
// issued.
var ErrNotAccepted = errors.New("the resource does not accept the token")

// SignIn signs the user in and keeps the sign-in. The error is ErrOpen when the
// resource needs no token, and a [*Refusal] when the authorization server refuses. A
// sign-in that the resource does not accept is not kept.
func (s *Store) SignIn(ctx context.Context, r Request) (*Login, error) {
	target, err := parseTarget(r.Target)
	if err != nil {
		return nil, err
	}
	probe := target
	if r.Probe != "" {
		if probe, err = parseTarget(r.Probe); err != nil {
			return nil, err
		}
		if !covers(target, probe) {
			return nil, fmt.Errorf("%s is not below %s", r.Probe, r.Target)
		}
	}
	p, err := s.protection(ctx, target, probe, r)
	if err != nil {
		return nil, err
	}
	at, err := s.serverOf(ctx, p, r)
	if err != nil {
		return nil, err
	}
	if len(r.Scopes) > 0 {
		if p.scopes, err = checkScopes(r.Scopes); err != nil {
			return nil, err
		}
	} else if len(p.scopes) == 0 {
		p.scopes = at.identityScopes()
	}
	id := ""
	if r.Keyed {
		id = grantKey(at.Issuer, p.resource, r.Client.ID, target.String())
		if !r.Fresh {
			if login := s.reuse(ctx, id, probe, p.scopes, r); login != nil {
				return login, nil
			}
		}
	}
	w, err := s.within(at.reach)
	if err != nil {
		return nil, err
	}
	defer w.close()
	kept, err := s.authorizeAndCheck(ctx, w, at, p, probe, r)
	if err != nil {
		return nil, err
	}
	file := s.records.grant(id)
	if r.Keyed {
		kept.Target = target.String()
	} else {
		resource, err := url.Parse(kept.Resource)
		if err != nil {
			return nil, err
		}
		file = s.records.signIn(key(resource))
	}
	if err := locked(ctx, file, func() error { return s.records.write(ctx, file, kept) }); err != nil {
		return nil, err
	}
	login := kept.shown()
	login.Key = id
	return login, nil
}

// serverOf returns the authorization server of a resource.
func (s *Store) serverOf(ctx context.Context, p *protection, r Request) (*server, error) {
	if r.AuthorizeURL != "" {
		return unlisted(r.AuthorizeURL, r.TokenURL)
	}
	issuer, near, err := p.issuer(r.Issuer)
	if err != nil {
		return nil, err
	}
	return s.server(ctx, issuer, near)
}

// authorizeAndCheck obtains a grant that the resource accepts: success is reported only
// then. A resource that requires more scopes of the first token gets them requested once
// (MCP authorization, "Step-Up Authorization Flow").
func (s *Store) authorizeAndCheck(ctx context.Context, w *web, at *server, p *protection, probe *url.URL, r Request) (*signIn, error) {
	kept, err := s.authorize(ctx, w, at, p, r)
	if err != nil {
		return nil, err
	}
	more, err := s.accepted(ctx, probe, kept, r)
	if err != nil || len(more) == 0 || covered(strings.Fields(kept.Scope), more) {
		return kept, err
	}
	p.scopes = union(strings.Fields(kept.Scope), more)
	if kept, err = s.authorize(ctx, w, at, p, r); err != nil {
		return nil, err
	}
	_, err = s.accepted(ctx, probe, kept, r)
	return kept, err
}

// maxAuthorizations bounds the authorization requests of one sign-in.
const maxAuthorizations = 3

// authorize obtains a grant. It requests authorization again where a server refuses the
// resource indicator (RFC 8707 section 2), or has forgotten the client that registered
// itself.
func (s *Store) authorize(ctx context.Context, w *web, at *server, p *protection, r Request) (*signIn, error) {
	indicator := p.resource
	if r.Indicator != nil {
		indicator = *r.Indicator
	}
	for n := 1; ; n++ {
		kept, err := s.authorizeOnce(ctx, w, at, p, indicator, r)
		var refusal *Refusal
		if err == nil || n == maxAuthorizations || !errors.As(err, &refusal) {
			return kept, err
		}
		switch {
		case refusal.Code == "invalid_target" && indicator != "" && r.Indicator == nil:
			indicator = ""
		case (refusal.Code == "invalid_client" || refusal.Code == "unauthorized_client") && r.Client.ID == "" && r.Keyed:
			r.Client.MetadataURL = "" // if that was the client, it registers instead
		default:
			return nil, err
		}
	}
}

// authorizeOnce obtains a grant with an authorization code (OAuth 2.1 section 4.1).
func (s *Store) authorizeOnce(ctx context.Context, w *web, at *server, p *protection, indicator string, r Request) (*signIn, error) {
	scopes := at.scopes(p.scopes)
	// Listen first: a client registers with the redirect URI of this attempt.
	preferred := 0
	if r.Client.ID == "" {
		if known, err := s.registration(ctx, at.Issuer); err != nil {
			return nil, err
		} else if known != nil {
			preferred = portOf(known.RedirectURI)
		}
	}
	chosen := r.CallbackPort
	if chosen == 0 && r.PreferredPort != 0 {
		if r.Client.ID != "" || at.reads(r.Client) {
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
	id, err := s.identity(ctx, w, at, a.Redirect, scopes, r.Client)
	if err != nil {
		return nil, err
	}
	if slices.Contains(scopes, "offline_access") {
		a.Prompt = "consent" // OpenID Connect Core section 11
	}
	address := a.URL(&at.Metadata, id.ID, indicator, scopes)
	code, err := a.wait(ctx, l, address, r)
	if err != nil {
		s.records.dropRegistration(ctx, at.Issuer, id)
		return nil, err
	}
	g, err := s.request(ctx, w, at.Token, id, a.Grant(code, indicator))
	if err != nil {
		s.records.dropRegistration(ctx, at.Issuer, id)
		return nil, fmt.Errorf("request a token from %s: %w", at.Issuer, err)
	}
	if g.Scope == "" { // RFC 6749 section 5.1: as requested
		g.Scope = strings.Join(scopes, " ")
	}
	return &signIn{
		Version: storeVersion, Resource: p.resource, Issuer: at.Issuer, TokenEndpoint: at.Token, RevocationEndpoint: at.Revocation,
		Client: id, Reach: at.reach, Indicator: indicator, NoIndicator: indicator == "", grant: *g,
	}, nil
}

func (s *Store) identity(ctx context.Context, w *web, at *server, redirect string, scopes []string, r Registered) (identity, error) {
	if r.ID != "" {
		id, err := at.named(r)
		if err != nil {
			return identity{}, err
		}
		_, err = s.secretOf(id) // fail before the user signs in
		return id, err
	}
	if at.reads(r) {
		return identity{ID: r.MetadataURL, Method: oauth.MethodNone}, nil
	}
	known, err := s.registered(ctx, w, at, redirect, scopes)
	if err != nil {
		return identity{}, err
	}
	return known.Client, nil
}

// wait shows the address and waits for the code: from the browser, or pasted.
func (a *attempt) wait(ctx context.Context, l net.Listener, address string, r Request) (string, error) {
	patience := r.Patience
	if patience == 0 {
		patience = DefaultPatience
	}
	outcomes := make(chan outcome, 1)
	stop := a.serve(l, outcomes)
	defer stop()
	if r.Show != nil {
		r.Show(address)
	}
	if r.Paste != nil {
		complain := r.Complain
		if complain == nil {
			complain = func(string) {}
		}
		// It may continue to read after the browser's response; the program exits
		// then.
		go a.paste(r.Paste, outcomes, complain)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case o := <-outcomes:
		if o.err != nil {
			return "", fmt.Errorf("sign in at %s: %w", a.name(), o.err)
		}
		return o.code, nil
	case <-ctx.Done():
		return "", ctx.Err()
	case <-timer.C:
		return "", fmt.Errorf("no sign-in at %s within %s", a.name(), patience)
	}
}

// accepted sends a request with the new token to the resource. It returns the scopes that
// the resource requires in addition.
func (s *Store) accepted(ctx context.Context, probe *url.URL, kept *signIn, r Request) ([]string, error) {
	w, err := s.within(reachAny)
	if err != nil {
		return nil, err
	}
	defer w.close()
	var a *answer
	if len(r.Bodies) > 0 {
		a, err = w.probe(ctx, probe.String(), string(kept.AccessToken), r.Bodies[0])
	} else {
		a, err = w.get(ctx, probe.String(), string(kept.AccessToken))
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

// because is the error_description of a challenge, in parentheses, or "".
func (a *answer) because(token string) string {
	challenges, _ := ParseChallenges(a.Header.Values("WWW-Authenticate"))
	c, _ := bearer(challenges, "error_description")
	if text := oauth.Hide(c.Params["error_description"], token); text != "" {
		return " (" + text + ")"
	}
	return ""
}

func portOf(redirect string) int {
	u, err := url.Parse(redirect)
	if err != nil {
		return 0
	}
	port, _ := strconv.Atoi(u.Port()) // 0: any
	return port
}
