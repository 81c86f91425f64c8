package workload

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/toolhaven/toolhaven/internal/credential"
	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/internal/secret"
)

// ExchangesTokens reports whether the server receives tokens that those of its callers were
// exchanged for, and nothing without a caller.
func ExchangesTokens(s *Spec) bool {
	return s.TokenExchange != nil || s.ExternalAuth != nil && s.ExternalAuth.TokenExchange != nil
}

// externalCredential returns the credential of an outgoing resource; nil for none.
func externalCredential(x *externalauth.Spec, secrets func(ref string) (string, error), caFiles []string, log *slog.Logger) (credential.Credential, error) {
	var value func() (string, error)
	if ref, _ := x.OutgoingSecret(); ref != nil {
		value = func() (string, error) { return secrets(secret.SharedRef(ref.String())) }
	}
	switch x.Type {
	case externalauth.TypeHeaderInjection:
		return credential.Header(x.HeaderInjection.HeaderName, value), nil
	case externalauth.TypeBearerToken:
		return credential.Bearer(value), nil
	case externalauth.TypeTokenExchange:
		cfg := externalExchange(x.TokenExchange)
		cfg.ClientSecret, cfg.CAFiles, cfg.Log = value, caFiles, log
		return credential.NewExchange(cfg)
	}
	return nil, nil
}

// externalExchange is the token exchange of a resource, without its client secret.
func externalExchange(x *externalauth.TokenExchange) credential.ExchangeConfig {
	return credential.ExchangeConfig{
		URL: x.TokenURL, Audience: x.Audience, Scopes: x.Scopes, ClientID: x.ClientID, Header: x.ExternalTokenHeaderName,
		SubjectType: strings.TrimPrefix(x.SubjectTokenType, "urn:ietf:params:oauth:token-type:"),
	}
}

// validateExternalAuth reports what is wrong with the resource of --auth at this server. set
// is called with the header that it sets.
func (s *Spec) validateExternalAuth(set func(header, setting string)) error {
	x := s.ExternalAuth
	if x == nil {
		return nil
	}
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf("--auth: "+format, args...)) }
	var faults externalauth.Faults
	if errors.As(x.Validate(), &faults) {
		for _, fault := range faults {
			add("%w", fault)
		}
		return errors.Join(errs...)
	}
	setting := "the resource of --auth (" + string(x.Type) + ")"
	switch x.Type {
	case externalauth.TypeUnauthenticated:
		if s.Remote != nil && s.Remote.Auth != nil {
			add("type unauthenticated sends no credential, and a login at the remote server (--remote-auth) is configured")
		}
		return errors.Join(errs...)
	case externalauth.TypeHeaderInjection:
		set(x.HeaderInjection.HeaderName, setting)
	case externalauth.TypeBearerToken:
		set("Authorization", setting)
	case externalauth.TypeTokenExchange:
		cfg := externalExchange(x.TokenExchange)
		if err := cfg.Validate(); err != nil {
			add("%w", err)
		}
		if x.TokenExchange.SubjectProviderName != "" {
			add("spec.tokenExchange.subjectProviderName: there is no embedded authorization server, and so no upstream provider %q", x.TokenExchange.SubjectProviderName)
		}
		if s.TokenExchange != nil {
			add("--token-exchange-url exchanges tokens too; give one of them")
		}
		if s.Auth == nil {
			add("type tokenExchange: the clients have no access tokens that could be exchanged; give --oidc-issuer too")
		}
		header := x.TokenExchange.ExternalTokenHeaderName
		if header == "" {
			header = "Authorization"
		}
		set(header, setting)
	default:
		add("this version of thv does not have the type %s", x.Type)
	}
	if s.Transport == Stdio {
		add("type %s sends a header, and a stdio server receives no HTTP requests; run a server with --transport streamable-http or sse", x.Type)
	}
	return errors.Join(errs...)
}
