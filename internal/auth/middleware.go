package auth

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
)

type identityKey struct{}

// From returns the identity of the request's caller; nil on a route without Require.
func From(ctx context.Context) *Identity {
	id, _ := ctx.Value(identityKey{}).(*Identity)
	return id
}

// Refuser responds to a request that has no valid token with 401 and a challenge. code is
// an error of RFC 6750 section 3.1, or "" for a request without a credential. See
// [Resource.Unauthorized].
type Refuser func(w http.ResponseWriter, r *http.Request, code, description string)

// Require lets a request through to next only with a valid token, and puts the
// caller's Identity in its context. Otherwise refuse responds. Put it on each route that
// needs it: a route is public because it was registered so, never because of how its path
// reads.
func Require(v *Validator, refuse Refuser, log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, err := bearerToken(r.Header)
		if errors.Is(err, errNoCredential) {
			// RFC 6750 section 3.1: no error code for a request without a credential,
			// or with one of another scheme.
			refuse(w, r, "", "an access token is required")
			return
		}
		if err != nil {
			log.Warn("credential refused", "path", r.URL.Path, "reason", err.Error())
			refuse(w, r, "invalid_request", err.Error())
			return
		}
		id, err := v.Validate(r.Context(), token)
		if err != nil {
			logRejection(r, log, err)
			refuse(w, r, "invalid_token", "the access token is not valid here")
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), identityKey{}, id)))
	})
}

func logRejection(r *http.Request, log *slog.Logger, err error) {
	var rejection *Rejection
	if !errors.As(err, &rejection) {
		log.Warn("token refused", "path", r.URL.Path)
		return
	}
	log.Warn("token refused", "path", r.URL.Path, "providers", rejection.Reasons())
}

// BearerToken returns the token of a request that [Require] has let through.
func BearerToken(h http.Header) string {
	token, err := bearerToken(h)
	if err != nil {
		return ""
	}
	return token
}

var errNoCredential = errors.New("no credential")

// bearerToken reads the one Authorization header (RFC 6750 section 2.1). The scheme is
// case-insensitive (RFC 9110 section 11.1), followed by exactly one space. A token in
// the query or in a form is ignored (RFC 6750 sections 2.2 and 2.3 are optional, and
// RFC 9700 section 4.3.2 warns of the query). Its errors may be sent to the caller.
func bearerToken(h http.Header) (string, error) {
	values := h.Values("Authorization")
	if len(values) == 0 {
		return "", errNoCredential
	}
	if len(values) > 1 {
		return "", errors.New("there is more than one Authorization header")
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		// Another scheme is no credential here (RFC 6750 section 3.1).
		return "", errNoCredential
	}
	if len(token) > maxToken {
		return "", errors.New("the access token is too long")
	}
	if !wellFormed(token) {
		return "", errors.New("the Authorization header is not of the form: Bearer TOKEN")
	}
	return token, nil
}
