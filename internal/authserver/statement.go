package authserver

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/toolhaven/toolhaven/internal/authserver/upstream"
)

// maxStatement bounds a software statement, in bytes.
const maxStatement = 16 << 10

// voucher is an upstream provider that issues software statements; see [upstream.Provider].
type voucher interface {
	Name() string
	Statement(ctx context.Context, token, audience string) (claims map[string]any, known bool, err error)
}

// vouched replaces the metadata by what a software statement of an upstream provider has, and
// returns the name of the provider (RFC 7591 sections 2.3 and 3.1.1). A statement of another
// issuer is ignored: the persons here have no relation to it.
func (s *clients) vouched(ctx context.Context, g *registration) (by string, fault *oauthError) {
	statement := g.Statement
	g.Statement = ""
	if statement == "" {
		return "", nil
	}
	invalid := func(description string) (string, *oauthError) {
		return "", &oauthError{code: "invalid_software_statement", description: description} // section 3.2.2
	}
	if len(statement) > maxStatement {
		return invalid("the software statement is too long")
	}
	for _, v := range s.vouchers {
		claims, known, err := v.Statement(ctx, statement, s.cfg.Spec.Issuer)
		switch {
		case !known:
			continue
		case errors.Is(err, upstream.ErrUnavailable):
			return "", &oauthError{code: unavailableError.code, description: "the software statement cannot be verified now", status: http.StatusServiceUnavailable}
		case err != nil:
			s.cfg.Log.Info("a software statement is refused", "provider", v.Name(), "error", err)
			return invalid("the software statement is not a valid one of its issuer for this server")
		}
		// A person relies on both: a statement without them confirms nothing.
		if _, ok := claims["client_name"].(string); !ok || claims["redirect_uris"] == nil {
			return invalid("the software statement must have client_name and redirect_uris")
		}
		text, err := json.Marshal(claims)
		if err != nil {
			return invalid("the software statement cannot be read")
		}
		g.Redirects = nil // a list is replaced, not merged
		if err := json.Unmarshal(text, g); err != nil {
			return invalid("the software statement is not client metadata")
		}
		g.Statement = statement
		return v.Name(), nil
	}
	return "", nil
}
