package workload

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/credential"
	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/secret"
)

// TokenExchange is how the tokens of clients are exchanged for those of the server (RFC
// 8693).
type TokenExchange struct {
	URL      string   `json:"url"`
	Audience string   `json:"audience,omitempty"`
	Scopes   []string `json:"scopes,omitempty"`
	ClientID string   `json:"clientId,omitempty"`
	// ClientSecret is the reference of a secret; ClientSecretFile is an absolute path.
	ClientSecret     string `json:"clientSecret,omitempty"`
	ClientSecretFile string `json:"clientSecretFile,omitempty"`
	// HeaderName carries the new token; "" is Authorization.
	HeaderName string `json:"headerName,omitempty"`
	// SubjectTokenType is access_token or id_token; "" is access_token.
	SubjectTokenType string `json:"subjectTokenType,omitempty"`
}

// The keys of a workload's secrets that flags give. No environment variable has such a
// name.
const (
	ClientSecretKey         = "oidc-client-secret"
	BearerTokenKey          = "remote-auth-bearer-token"
	RemoteClientSecretKey   = "remote-auth-client-secret"
	ExchangeClientSecretKey = "token-exchange-client-secret"
)

// SecretField is a field of a Spec that holds the reference of the secret with the key, or
// "".
type SecretField struct {
	Key  string
	what string
	Ref  *string
}

// SecretFields returns the fields of the sections that the Spec has.
func (s *Spec) SecretFields() []SecretField {
	var fields []SecretField
	if a := s.Auth; a != nil && a.ClientID+a.ClientSecret != "" {
		fields = append(fields, SecretField{ClientSecretKey, "client secret", &a.ClientSecret})
	}
	if s.Remote != nil {
		fields = append(fields, SecretField{BearerTokenKey, "bearer token", &s.Remote.BearerToken})
		if a := s.Remote.Auth; a != nil && a.ClientID+a.ClientSecret != "" {
			fields = append(fields, SecretField{RemoteClientSecretKey, "client secret", &a.ClientSecret})
		}
	}
	if x := s.TokenExchange; x != nil && x.ClientID+x.ClientSecret != "" {
		fields = append(fields, SecretField{ExchangeClientSecretKey, "client secret", &x.ClientSecret})
	}
	return fields
}

// validateSecretFields accepts references to the workload's own secrets, and to those that
// the user named: see checkSecretRefs.
func validateSecretFields(s *Spec) error {
	var errs []error
	for _, f := range s.SecretFields() {
		name, shared := secret.SharedName(*f.Ref)
		switch {
		case shared:
			if err := secret.CheckName(name); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", f.Key, err))
			}
		case *f.Ref != "" && *f.Ref != secret.Ref(s.Name, f.Key):
			errs = append(errs, fmt.Errorf("%s: %q is not the %s of workload %q", f.Key, *f.Ref, f.what, s.Name))
		}
	}
	return errors.Join(errs...)
}

// secretValue returns a function that reads a secret from the store, or from a file; nil
// without either.
func secretValue(secrets func(string) (string, error), ref, file string) func() (string, error) {
	switch {
	case ref != "":
		return func() (string, error) { return secrets(ref) }
	case file != "":
		return func() (string, error) { return netguard.ReadSecret(file) }
	}
	return nil
}

// HeaderKey is the key of a header's value among a workload's secrets.
func HeaderKey(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }

// Credentials returns what the requests to the server need beside login, which is nil
// without a login. secrets returns the value of a reference. upstream has the tokens of
// upstream providers; it is nil without an embedded authorization server.
func (s *Spec) Credentials(secrets func(ref string) (string, error), login credential.Credential, upstream credential.Upstream, log *slog.Logger) ([]credential.Credential, error) {
	var all []credential.Credential
	if r := s.Remote; r != nil {
		headers := http.Header{}
		for name, value := range r.Headers {
			headers.Set(name, value)
		}
		if len(headers) > 0 {
			all = append(all, credential.Headers(headers))
		}
		for _, name := range slices.Sorted(maps.Keys(r.SecretHeaders)) {
			ref := r.SecretHeaders[name]
			value, err := secrets(ref)
			if err != nil {
				return nil, err
			}
			if err := credential.CheckHeader(name, value); err != nil {
				return nil, err
			}
			// It is read for each request: the value may change while the gateway runs.
			all = append(all, credential.Header(name, func() (string, error) { return secrets(ref) }))
		}
		if token := secretValue(secrets, r.BearerToken, r.BearerTokenFile); token != nil {
			all = append(all, credential.Bearer(token))
		}
	}
	if login != nil {
		all = append(all, login)
	}
	if s.ExternalAuth != nil {
		external, err := externalCredential(s.ExternalAuth, secrets, upstream, s.CAFiles(), log)
		if err != nil {
			return nil, err
		}
		if external != nil {
			all = append(all, external)
		}
	}
	if provider := s.InjectedProvider(); provider != "" {
		all = append(all, credential.NewInject(provider, upstream, log))
	}
	if x := s.TokenExchange; x != nil {
		cfg := x.config(secrets)
		cfg.CAFiles, cfg.Log = s.CAFiles(), log
		exchange, err := credential.NewExchange(cfg)
		if err != nil {
			return nil, err
		}
		all = append(all, exchange)
	}
	return all, nil
}

func (x *TokenExchange) config(secrets func(ref string) (string, error)) credential.ExchangeConfig {
	return credential.ExchangeConfig{
		URL: x.URL, Audience: x.Audience, Scopes: x.Scopes, ClientID: x.ClientID, Header: x.HeaderName, SubjectType: x.SubjectTokenType,
		ClientSecret: secretValue(secrets, x.ClientSecret, x.ClientSecretFile),
	}
}

// validateCredentials reports what is wrong with the credentials for the server.
func validateCredentials(s *Spec) error {
	errs := []error{validateSecretFields(s)}
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	// header is which setting sets a header: two of them would contradict each other.
	header := map[string]string{}
	set := func(name, setting string) {
		name = http.CanonicalHeaderKey(name)
		if other := header[name]; other != "" {
			add("%s and %s both set the header %s; give one of them", other, setting, name)
		}
		header[name] = setting
	}
	if r := s.Remote; r != nil {
		for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
			if err := credential.CheckHeader(name, r.Headers[name]); err != nil {
				errs = append(errs, err)
			}
			set(name, "the forwarded header")
		}
		for _, name := range slices.Sorted(maps.Keys(r.SecretHeaders)) {
			if err := credential.CheckHeader(name, ""); err != nil {
				errs = append(errs, err)
			}
			set(name, "the forwarded header")
		}
		if r.BearerToken != "" && r.BearerTokenFile != "" {
			add("the bearer token is given as a value and as a file")
		}
		if r.BearerToken != "" || r.BearerTokenFile != "" {
			set("Authorization", "the bearer token")
		}
		if r.Auth != nil {
			set("Authorization", "the login (--remote-auth)")
			errs = append(errs, r.Auth.validate())
		}
	}
	if s.InjectedProvider() != "" {
		set("Authorization", "the embedded authorization server of --auth")
	}
	errs = append(errs, validateExternalAuth(s, set))
	x := s.TokenExchange
	if x == nil {
		return errors.Join(errs...)
	}
	cfg := x.config(nil)
	for _, err := range faults(cfg.Validate()) {
		add("token exchange: %w", err)
	}
	if x.ClientSecret != "" && x.ClientSecretFile != "" {
		add("token exchange: the client secret is given as a value and as a file")
	}
	for _, scope := range x.Scopes {
		if !validScope(scope) {
			add("token exchange: %q is not a scope", scope)
		}
	}
	if s.Auth == nil {
		add("token exchange: the clients have no access tokens that could be exchanged; give --oidc-issuer too")
	}
	if s.Transport == Stdio {
		add("token exchange: the new token is sent in a header, and a stdio server receives no HTTP requests; run a server with --transport streamable-http or sse")
	}
	name := x.HeaderName
	if name == "" {
		name = "Authorization"
	}
	set(name, "the token exchange")
	return errors.Join(errs...)
}
