package workload

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/credential"
	"github.com/toolhaven/toolhaven/internal/credential/aws"
	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/internal/secret"
)

// PerCaller reports whether the credentials for the server are those of each caller: a request
// without a caller has none.
func PerCaller(s *Spec) bool {
	x := s.ExternalAuth
	return s.TokenExchange != nil || s.InjectedProvider() != "" || x != nil && (x.TokenExchange != nil || x.AWSSTS != nil || x.UpstreamInject != nil)
}

// envSTS is the environment variable of the AWS SDKs with the URL of STS, such as that of an
// interface endpoint in a VPC.
const envSTS = "AWS_ENDPOINT_URL_STS"

// externalCredential returns the credential of an outgoing resource; nil for none. upstream
// has the tokens of upstream providers, and is nil where there are none.
func externalCredential(x *externalauth.Spec, secrets func(ref string) (string, error), upstream credential.Upstream, caFiles []string, log *slog.Logger) (credential.Credential, error) {
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
		cfg.ClientSecret, cfg.Upstream, cfg.CAFiles, cfg.Log = value, upstream, caFiles, log
		return credential.NewExchange(cfg)
	case externalauth.TypeUpstreamInject:
		return credential.NewInject(x.UpstreamInject.ProviderName, upstream, log), nil
	case externalauth.TypeAWSSTS:
		return aws.New(aws.Config{Spec: x.AWSSTS, Upstream: upstream, Endpoint: os.Getenv(envSTS), CAFiles: caFiles, Log: log})
	}
	return nil, nil
}

// externalExchange is the token exchange of a resource, without its client secret.
func externalExchange(x *externalauth.TokenExchange) credential.ExchangeConfig {
	return credential.ExchangeConfig{
		URL: x.TokenURL, Audience: x.Audience, Scopes: x.Scopes, ClientID: x.ClientID, Header: x.ExternalTokenHeaderName,
		Provider: x.SubjectProviderName, SubjectType: strings.TrimPrefix(x.SubjectTokenType, "urn:ietf:params:oauth:token-type:"),
	}
}

// validateExternalAuth reports what is wrong with the resource of --auth at this server. set
// is called with the header that it sets.
func validateExternalAuth(s *Spec, set func(header, setting string)) error {
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
	provider := func(field, name string) {
		switch {
		case name == "":
		case s.AuthServer == nil:
			add("%s: there is no embedded authorization server, and so no upstream provider %q", field, name)
		case !slices.ContainsFunc(s.AuthServer.UpstreamProviders, func(u externalauth.UpstreamProvider) bool { return u.Name == name }):
			add("%s: the embedded authorization server has no upstream provider %q", field, name)
		}
	}
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
		cfg.Provider = "" // below
		if err := cfg.Validate(); err != nil {
			add("%w", err)
		}
		provider("spec.tokenExchange.subjectProviderName", x.TokenExchange.SubjectProviderName)
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
	case externalauth.TypeUpstreamInject:
		provider("spec.upstreamInject.providerName", x.UpstreamInject.ProviderName)
		set("Authorization", setting)
	case externalauth.TypeAWSSTS:
		if _, err := aws.Compile(x.AWSSTS); errors.As(err, &faults) {
			for _, fault := range faults {
				add("%w", fault)
			}
		}
		provider("spec.awsSts.subjectProviderName", x.AWSSTS.SubjectProviderName)
		if s.Auth == nil {
			add("type awsSts: the clients have no access tokens that AWS could accept; give --oidc-issuer too")
		}
		for _, header := range aws.Headers() {
			set(header, setting)
		}
	default:
		add("this version of thv does not have the type %s", x.Type)
	}
	if s.Transport == Stdio {
		add("type %s sends a header, and a stdio server receives no HTTP requests; run a server with --transport streamable-http or sse", x.Type)
	}
	return errors.Join(errs...)
}
