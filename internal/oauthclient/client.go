package oauthclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/oauth"
)

// Registered is a client that an administrator registered. The zero value lets
// this client register itself (RFC 7591).
type Registered struct {
	ID string
	// SecretFile, or the environment variable SecretEnv, holds its secret and is
	// read for each use. Both are "" for a client without a secret.
	SecretFile, SecretEnv string
	// SecretRef is a reference that [Store.WithSecrets] resolves.
	SecretRef string
	// MetadataURL is the URL of a client id metadata document of this program. It is the
	// client where ID is "" and the authorization server reads such documents; "" is none.
	MetadataURL string
}

// identity is a client that is registered with an authorization server.
type identity struct {
	ID         string `json:"id"`
	Method     string `json:"method"`
	Secret     hidden `json:"secret,omitempty"` // given at registration
	SecretFile string `json:"secretFile,omitempty"`
	SecretEnv  string `json:"secretEnv,omitempty"`
	SecretRef  string `json:"secretRef,omitempty"`
	// Own: this machine registered it.
	Own bool `json:"own,omitempty"`
}

// named is the identity of a client that an administrator registered.
func (s *server) named(r Registered) (identity, error) {
	id := identity{ID: r.ID, SecretFile: r.SecretFile, SecretEnv: r.SecretEnv, SecretRef: r.SecretRef, Method: oauth.MethodNone}
	if r.SecretFile == "" && r.SecretEnv == "" && r.SecretRef == "" {
		return id, nil
	}
	if id.Method = s.preset().Method; id.Method != "" {
		return id, nil
	}
	var err error
	id.Method, err = s.Metadata.Method()
	return id, err
}

func (s *Store) secretOf(i identity) (string, error) {
	switch {
	case i.SecretRef != "":
		if s.secrets == nil {
			return "", errors.New("client secret: there is no store of secrets")
		}
		return s.secrets(i.SecretRef)
	case i.SecretFile != "":
		secret, err := netguard.ReadSecret(i.SecretFile)
		if err != nil {
			return "", fmt.Errorf("client secret: %w", err)
		}
		return secret, nil
	case i.SecretEnv != "":
		if secret := strings.TrimRight(s.env(i.SecretEnv), "\r\n"); secret != "" {
			return secret, nil
		}
		return "", fmt.Errorf("client secret: the variable %s is not set", i.SecretEnv)
	}
	return string(i.Secret), nil
}

// client is the identity with its secret.
func (s *Store) client(i identity) (oauth.Client, error) {
	secret, err := s.secretOf(i)
	return oauth.Client{ID: i.ID, Secret: secret, Method: i.Method}, err
}

// registered returns the client for a redirect URI and scopes: the remembered one if
// it was registered for the same, since servers may compare exactly, or a new one.
func (f *flow) registered(ctx context.Context, redirect string, scopes []string) (*registration, error) {
	at := f.at
	scope := strings.Join(scopes, " ")
	if known, err := f.registration(ctx); err != nil {
		return nil, err
	} else if known != nil && known.RedirectURI == redirect && known.Scope == scope {
		return known, nil
	}
	if at.Registration == "" {
		return nil, fmt.Errorf("%s does not let clients register themselves: get a client id of a native application with the redirect URI %s from its administrator, and name it", at.Issuer, redirect)
	}
	fresh, err := f.web.register(ctx, at, redirect, scope)
	var refused *Refusal
	if errors.As(err, &refused) && refused.Code == "invalid_client_metadata" && scope != "" {
		// Servers refuse to register clients for some scopes that resources name.
		fresh, err = f.web.register(ctx, at, redirect, "")
	}
	if err != nil {
		return nil, fmt.Errorf("register as a client of %s: %w", at.Issuer, err)
	}
	fresh.Scope = scope
	return fresh, f.store.records.write(ctx, f.store.records.registration(at.Issuer), fresh)
}

// registration returns the remembered client of an issuer; nil when there is none.
func (f *flow) registration(ctx context.Context) (*registration, error) {
	records, issuer := f.store.records, f.at.Issuer
	known := &registration{}
	if err := records.adopt(ctx, records.registration(issuer)); err != nil {
		return nil, err
	}
	found, err := records.read(ctx, records.registration(issuer), known)
	if err != nil {
		return nil, err
	}
	soon := f.store.now().Add(time.Hour)
	if !found || known.Version != storeVersion || known.Issuer != issuer || known.Client.ID == "" || !known.Expires.IsZero() && known.Expires.Before(soon) {
		return nil, nil
	}
	return known, nil
}

// register registers a client at the authorization server (RFC 7591 section 3).
func (w *web) register(ctx context.Context, at *server, redirect, scope string) (*registration, error) {
	grants := []string{"authorization_code"}
	if at.renews() {
		grants = append(grants, "refresh_token")
	}
	// MCP authorization, "Application Type": native for a redirect to this machine.
	given, err := oauth.Register(ctx, w.sender(), at.Registration, "", &oauth.ClientMetadata{
		Name: "Toolhaven (thv)", ApplicationType: "native", RedirectURIs: []string{redirect},
		GrantTypes: grants, ResponseTypes: []string{"code"}, Method: oauth.MethodNone, Scope: scope,
	})
	if err != nil {
		return nil, err
	}
	return &registration{
		Version: storeVersion, Issuer: at.Issuer, RedirectURI: redirect, Expires: given.Expires,
		Client: identity{ID: given.ID, Method: given.Method, Secret: hidden(given.Secret), Own: true},
	}, nil
}
