package upstream

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolhaven/toolhaven/internal/auth"
	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/internal/oauth"
	"github.com/toolhaven/toolhaven/internal/plaintext"
)

// Bounds of an Identity: Subject in bytes, the others in characters.
const (
	maxSubject = 1024
	maxName    = 200
	maxEmail   = 320 // RFC 5321 section 4.5.3.1
)

var errNoSubject = errors.New("nothing in the answer identifies the person")

// newIdentity applies the bounds. Name and email are only descriptive.
func newIdentity(subject, name, email string) (Identity, error) {
	switch {
	case subject == "":
		return Identity{}, errNoSubject
	case len(subject) > maxSubject || !utf8.ValidString(subject) || strings.ContainsFunc(subject, unicode.IsControl):
		return Identity{}, errors.New("the subject is too long or has control characters")
	}
	id := Identity{Subject: subject, Name: plaintext.Excerpt(name, maxName)}
	if plaintext.Line(email) == email && utf8.RuneCountInString(email) <= maxEmail {
		id.Email = email
	}
	return id, nil
}

// verifiedEmail returns an email address, or "" where the provider states that it is not
// verified (OpenID Connect Core 1.0 section 5.1).
func verifiedEmail(members map[string]any, fields ...string) string {
	if v := members["email_verified"]; v == false || v == "false" {
		return ""
	}
	return first(members, fields, text)
}

// first returns the first of the named fields that is not empty. A name may be a path.
func first(members map[string]any, fields []string, read func(any) string) string {
	for _, field := range fields {
		if s := read(members[field]); s != "" {
			return s
		}
		if s := read(parsePath(field).in(members)); s != "" {
			return s
		}
	}
	return ""
}

// identifyOIDC verifies the ID token of a sign-in (OpenID Connect Core 1.0 section 3.1.3.7)
// and returns it with who it identifies.
func (p *Provider) identifyOIDC(ctx context.Context, m *oauth.Metadata, a Attempt, tokens Tokens, members map[string]any) (Identity, string, error) {
	idToken := text(members["id_token"])
	if idToken == "" {
		return Identity{}, "", errors.New("the answer has no ID token")
	}
	claims, err := p.verifyIDToken(ctx, idToken, tokens.AccessToken)
	if err != nil {
		return Identity{}, "", err
	}
	if nonce := text(claims["nonce"]); a.Nonce == "" || !equal(nonce, a.Nonce) { // item 11
		return Identity{}, "", errors.New("the ID token has the nonce of another sign-in, or none")
	}
	sub := text(claims["sub"])
	subject, name, email := sub, text(claims["name"]), verifiedEmail(claims, "email")
	if u := p.settings.userInfo; u != nil {
		info, err := p.userInfo(ctx, u, tokens.AccessToken, sub)
		if err != nil {
			return Identity{}, "", err
		}
		fields := fieldMapping(u)
		subject = first(info, fields.SubjectFields, identifier)
		if s := first(info, fields.NameFields, text); s != "" {
			name = s
		}
		if s := verifiedEmail(info, fields.EmailFields...); s != "" || info["email_verified"] != nil {
			email = s
		}
	} else if lacks(p, name, email) && m.UserInfo != "" {
		// Nothing depends on it: without a right answer they stay empty.
		info, err := p.userInfo(ctx, &externalauth.UserInfo{EndpointURL: m.UserInfo}, tokens.AccessToken, sub)
		if err != nil {
			p.log.Warn("the answer of the discovered userinfo endpoint is not used", slog.Any("error", err))
		} else {
			name, email = cmp.Or(name, text(info["name"])), cmp.Or(email, verifiedEmail(info, "email"))
		}
	}
	if claim := p.spec.OIDC.SubjectClaim; claim != "" {
		subject = identifier(claims[claim])
	}
	id, err := newIdentity(subject, name, email)
	return id, idToken, err
}

// lacks reports whether the scopes request a name or an email address that is missing
// (OpenID Connect Core 1.0 section 5.4). Scopes that were not requested have no such claims.
func lacks(p *Provider, name, email string) bool {
	return name == "" && slices.Contains(p.settings.scopes, "profile") || email == "" && slices.Contains(p.settings.scopes, "email")
}

// verifyIDToken verifies everything but the nonce.
func (p *Provider) verifyIDToken(ctx context.Context, idToken, accessToken string) (map[string]any, error) {
	if len(idToken) > maxIDToken {
		return nil, fmt.Errorf("the ID token is longer than %d bytes", maxIDToken)
	}
	claims, err := p.idTokens.Verify(ctx, idToken, accessToken)
	if errors.Is(err, auth.ErrKeys) {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return claims, err
}

// renewedIDToken returns the ID token of the answer to a refresh, or the former one if there
// is none. It must be about the same person (OpenID Connect Core 1.0 section 12.2). While
// the keys cannot be fetched the former one is kept: the refresh token was already replaced
// and must not be lost.
func (p *Provider) renewedIDToken(ctx context.Context, former, accessToken string, members map[string]any) (string, error) {
	idToken := text(members["id_token"])
	if p.idTokens == nil || idToken == "" {
		return former, nil
	}
	claims, err := p.verifyIDToken(ctx, idToken, accessToken)
	if errors.Is(err, ErrUnavailable) {
		p.log.Warn("the ID token of a refresh cannot be verified now and is not used", slog.Any("error", err))
		return former, nil
	}
	if err != nil {
		return "", err
	}
	before, err := auth.UnverifiedClaims(former) // it was verified when it was received
	if err != nil {
		return "", errors.New("the answer has an ID token, and the sign-in had none")
	}
	if text(claims["sub"]) != text(before["sub"]) {
		return "", errors.New("the answer is about another person")
	}
	if nonce, present := claims["nonce"]; present && nonce != before["nonce"] {
		return "", errors.New("the ID token has the nonce of another sign-in")
	}
	return idToken, nil
}

// identifyOAuth2 identifies the person without OpenID Connect.
func (p *Provider) identifyOAuth2(ctx context.Context, accessToken string, members map[string]any) (Identity, error) {
	c := p.spec.OAuth2
	if f := c.IdentityFromToken; f != nil {
		read := func(path string) any {
			if path == "" {
				return nil
			}
			return parsePath(path).in(members)
		}
		return newIdentity(identifier(read(f.SubjectPath)), text(read(f.NamePath)), text(read(f.EmailPath)))
	}
	if u := c.UserInfo; u != nil {
		info, err := p.userInfo(ctx, u, accessToken, "")
		if err != nil {
			return Identity{}, err
		}
		fields := fieldMapping(u)
		return newIdentity(first(info, fields.SubjectFields, identifier), first(info, fields.NameFields, text), verifiedEmail(info, fields.EmailFields...))
	}
	return synthesize(p.spec.Name, accessToken), nil
}

// synthesize derives a subject from an access token. It is that of the person, at each sign-in,
// where the token itself is about one (RFC 9068 section 2.2), and else that of the token.
func synthesize(provider, accessToken string) Identity {
	what, part := "subject", accessToken
	issuer, subject := auth.UnverifiedSubject(accessToken) // it came from the token endpoint
	if subject != "" {
		what, part = "person", issuer+"\x00"+subject
	}
	// 128 bits of a hash: it reveals nothing. The name separates providers.
	sum := sha256.Sum256([]byte("toolhaven upstream " + what + "\x00" + provider + "\x00" + part))
	return Identity{Subject: "tk-" + hex.EncodeToString(sum[:16]), Synthesized: subject == ""}
}

// userInfo requests what the provider states about the person. With sub, the answer must be
// about that one (OpenID Connect Core 1.0 section 5.3.2).
func (p *Provider) userInfo(ctx context.Context, u *externalauth.UserInfo, accessToken, sub string) (map[string]any, error) {
	method := http.MethodGet
	if u.HTTPMethod != "" {
		method = u.HTTPMethod
	}
	req, err := http.NewRequestWithContext(ctx, method, u.EndpointURL, nil)
	if err != nil {
		return nil, errors.New("the userinfo endpoint is not a URL")
	}
	for name, value := range u.AdditionalHeaders {
		req.Header.Set(name, value)
	}
	req.Header.Set("Authorization", "Bearer "+accessToken) // RFC 6750 section 2.1
	resp, err := p.send(req)
	if err != nil {
		return nil, fmt.Errorf("userinfo: %w", err)
	}
	if resp.Status != http.StatusOK {
		return nil, fmt.Errorf("the userinfo endpoint answers %d %s", resp.Status, http.StatusText(resp.Status))
	}
	info, err := decode(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("userinfo: %w", err)
	}
	if sub != "" && text(info["sub"]) != sub {
		return nil, errors.New("the userinfo endpoint answers about another person")
	}
	return info, nil
}
