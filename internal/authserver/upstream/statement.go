package upstream

import (
	"context"
	"errors"

	"github.com/toolhaven/toolhaven/internal/auth"
)

// Statement returns the claims of a software statement that the provider issued for audience
// (RFC 7591 section 2.3). known is false for one of another issuer. The error is
// [ErrUnavailable], or of a statement that is not valid.
func (p *Provider) Statement(ctx context.Context, token, audience string) (claims map[string]any, known bool, err error) {
	if p.idTokens == nil {
		return nil, false, nil
	}
	unverified, err := auth.UnverifiedClaims(token)
	if err != nil || text(unverified["iss"]) != p.spec.OIDC.IssuerURL {
		return nil, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	claims, err = p.idTokens.Statement(ctx, token, audience)
	if errors.Is(err, auth.ErrKeys) {
		err = ErrUnavailable
	}
	return claims, true, err
}
