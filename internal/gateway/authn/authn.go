// Package authn is the stage of a gateway that authenticates its clients: every request
// needs an access token that package auth accepts (MCP 2026-07-28, basic/authorization).
// Without a token only /health and the documents below /.well-known/ are served.
//
// The gateway is a protected resource (RFC 9728). Its metadata names the authorization
// server, at the root and at the path-inserted location, and each 401 refers to it.
//
// The stage puts the [exchange.Caller] into the request's context. Whatever the gateway
// keeps for a client belongs to the caller's principal. No server receives the token itself.
// The caller has it only where it is exchanged for another one ([Config].KeepToken).
package authn

import (
	"cmp"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/auth"
	"github.com/toolhaven/toolhaven/internal/endpoint"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
)

// Config configures a Stage.
type Config struct {
	// Provider issues the accepted tokens.
	Provider auth.Provider
	// Resource describes the gateway as a protected resource. With URL "" the resource is
	// the URL at which the client of each request reaches the gateway. AuthorizationServers
	// and ChallengeScope are set by New.
	Resource auth.ResourceConfig
	// Endpoint and TrustProxyHeaders are those of the gateway.
	Endpoint          endpoint.Config
	TrustProxyHeaders bool
	// KeepToken puts the token into the Caller, for a token exchange.
	KeepToken bool
	// Log receives why tokens were refused.
	Log *slog.Logger
	// Refused receives each refused request, if it is set.
	Refused func(Refusal)
}

// Refusal is a request that was refused. It has nothing of the token.
type Refusal struct {
	Source       exchange.Source
	Method, Path string // of HTTP
	Status       int
	// Code is an error of RFC 6750 section 3.1, "" for a request without a credential.
	Code, Description string
}

// unknownExpiry bounds the streams of a token whose expiry is unknown.
const unknownExpiry = time.Hour

// Stage authenticates the clients of one gateway.
type Stage struct {
	cfg       Config
	validator *auth.Validator
	// fixed is the configured resource; nil derives it from each request.
	fixed *auth.Resource
	// local is the resource of a request whose Host cannot be part of a URL.
	local *auth.Resource
}

// New makes a stage, which Close ends. It does not wait for the provider: until the keys
// are there, tokens are refused. The error joins all faults of the configuration.
func New(cfg Config) (*Stage, error) {
	if cfg.Provider.IssuerURL != "" {
		cfg.Resource.AuthorizationServers = []string{cfg.Provider.IssuerURL}
	}
	cfg.Endpoint.Prefix = strings.TrimRight(cfg.Endpoint.Prefix, "/")
	// All scopes at once: a client requests those of the challenge (MCP 2026-07-28,
	// basic/authorization, Scope Selection Strategy).
	cfg.Resource.ChallengeScope = strings.Join(cfg.Resource.Scopes, " ")
	s := &Stage{cfg: cfg}
	var err error
	if cfg.Resource.URL != "" {
		if s.fixed, err = auth.NewResource(cfg.Resource); err != nil {
			return nil, err
		}
	} else if s.local, err = s.resourceAt("http://localhost"); err != nil {
		return nil, err
	}
	if s.validator, err = auth.NewValidator([]auth.Provider{cfg.Provider}, auth.Options{Log: cfg.Log}); err != nil {
		return nil, err
	}
	return s, nil
}

// Close ends what runs in the background.
func (s *Stage) Close() { s.validator.Close() }

// Wrap is the stage. It comes after the guard of Host and Origin, which applies to the
// public paths too.
func (s *Stage) Wrap(next http.Handler) http.Handler {
	protected := auth.Require(s.validator, s.refuse, s.cfg.Log, s.identify(next))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, auth.WellKnownPrefix):
			s.resource(r).ServeHTTP(w, r)
		case strings.TrimSuffix(r.URL.Path, "/") == endpoint.PathHealth:
			next.ServeHTTP(w, r)
		default:
			protected.ServeHTTP(w, r)
		}
	})
}

// identify passes the caller on. A token that identifies no caller is refused: all callers
// with such tokens would share their sessions.
func (s *Stage) identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller := callerOf(auth.From(r.Context()))
		if caller == nil {
			s.cfg.Log.Warn("token refused", "path", r.URL.Path, "reason", "it has no subject, and no client id either")
			s.refuse(w, r, "invalid_token", "the access token identifies no caller")
			return
		}
		if s.cfg.KeepToken {
			caller.Token = exchange.NewToken(auth.BearerToken(r.Header))
			w = &challenger{ResponseWriter: w, request: r, stage: s}
		}
		next.ServeHTTP(w, r.WithContext(exchange.WithCaller(r.Context(), caller)))
	})
}

// refuse is an [auth.Refuser].
func (s *Stage) refuse(w http.ResponseWriter, r *http.Request, code, description string) {
	if s.cfg.Refused != nil {
		s.cfg.Refused(Refusal{
			Source: httpd.SourceOf(r, s.cfg.TrustProxyHeaders), Method: r.Method, Path: r.URL.Path,
			Status: http.StatusUnauthorized, Code: code, Description: description,
		})
	}
	s.resource(r).Unauthorized(w, r, code, description)
}

// callerOf returns the caller that a token proves; nil if it proves none. A client that
// acts for itself is its subject (RFC 9068 section 2.2), but some providers leave the
// subject out, and introspection responses need not have one (RFC 7662 section 2.2).
func callerOf(id *auth.Identity) *exchange.Caller {
	c := &exchange.Caller{Issuer: id.Issuer, Subject: id.Subject, Scopes: id.Scopes, Claims: id.Claims}
	if c.Subject == "" {
		c.ClientID, _ = id.Claims["client_id"].(string)
	}
	if c.Subject == "" && c.ClientID == "" {
		return nil
	}
	c.Expires = time.Now().Add(unknownExpiry)
	if !id.Expires.IsZero() {
		c.Expires = id.Expires.Add(auth.DefaultLeeway)
	}
	c.Principal = exchange.PrincipalOf(c.Issuer, c.Subject, c.ClientID)
	return c
}

// resource is the gateway as the client of r addresses it.
func (s *Stage) resource(r *http.Request) *auth.Resource {
	if s.fixed != nil {
		return s.fixed
	}
	prefix := httpd.Prefix(r, s.cfg.Endpoint.Prefix, s.cfg.TrustProxyHeaders)
	derived, err := s.resourceAt(httpd.Origin(r, s.cfg.TrustProxyHeaders) + prefix)
	if err != nil {
		return s.local
	}
	return derived
}

// resourceAt is the resource below a base URL.
func (s *Stage) resourceAt(base string) (*auth.Resource, error) {
	c := s.cfg.Resource
	c.URL = cmp.Or(c.URL, base+s.cfg.Endpoint.Path())
	return auth.NewResource(c)
}

// challenger adds the challenge to a response 401 of what is behind the stage (RFC 9110
// section 11.6.1): the caller's token was valid here, and not where it is exchanged.
type challenger struct {
	http.ResponseWriter
	request *http.Request
	stage   *Stage
}

// WriteHeader implements [http.ResponseWriter].
func (c *challenger) WriteHeader(status int) {
	if status == http.StatusUnauthorized {
		c.Header().Set("WWW-Authenticate", c.stage.resource(c.request).Challenge()+`, error="invalid_token"`)
	}
	c.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.ResponseController].
func (c *challenger) Unwrap() http.ResponseWriter { return c.ResponseWriter }
