package authserver

import (
	"context"

	"github.com/toolhaven/toolhaven/internal/authserver/vault"
)

// Session is the session of a verified access token: its claims sid, client_id and sub.
type Session struct{ ID, Client, Subject string }

// ErrLogin: the session has no token of the provider, or no longer; the person has to log in
// again.
var ErrLogin = vault.ErrLogin

func (s Session) at(provider string) vault.Binding {
	return vault.Binding{Session: s.ID, Client: s.Client, Provider: provider, Subject: s.Subject}
}

// UpstreamToken returns a provider's access token for a session, and its ID token, "" for
// none. The error is ErrLogin, or a passing one.
func (s *Server) UpstreamToken(ctx context.Context, of Session, provider string) (access, id string, err error) {
	if of.ID == "" {
		return "", "", ErrLogin
	}
	return s.cfg.Vault.Token(ctx, of.at(provider))
}

// RenewUpstreamToken returns another access token than one that the server rejected.
func (s *Server) RenewUpstreamToken(ctx context.Context, of Session, provider, rejected string) (string, error) {
	if of.ID == "" {
		return "", ErrLogin
	}
	return s.cfg.Vault.Renew(ctx, of.at(provider), rejected)
}
