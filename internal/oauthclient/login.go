package oauthclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
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
	f := &flow{store: s, request: r, target: target, probe: probe}
	if f.resource, err = s.protection(ctx, target, probe, r); err != nil {
		return nil, err
	}
	if err := f.find(ctx); err != nil {
		return nil, err
	}
	id := ""
	if r.Keyed {
		id = grantKey(f.at.Issuer, f.resource.resource, r.Client.ID, target.String())
		if !r.Fresh {
			if login := f.reuse(ctx, id); login != nil {
				return login, nil
			}
		}
	}
	kept, err := f.run(ctx)
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
