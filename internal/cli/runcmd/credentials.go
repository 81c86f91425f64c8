package runcmd

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/credential"
	"github.com/toolhaven/toolhaven/internal/secret"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// The environment variables with the values of flags for client secrets: the arguments of a
// process are visible to others.
const (
	envClientSecret         = "THV_OIDC_CLIENT_SECRET"
	envRemoteClientSecret   = "THV_REMOTE_AUTH_CLIENT_SECRET"
	envExchangeClientSecret = "THV_TOKEN_EXCHANGE_CLIENT_SECRET"
)

// givenSecret is how the value of a workload.SecretField is given.
type givenSecret struct {
	flag string
	env  string // "" for none
	what string // for messages
}

// givenSecrets are by the key of the secret. A bearer token is not taken from the
// environment: it would be sent to whatever server is run next.
var givenSecrets = map[string]givenSecret{
	workload.ClientSecretKey:         {"oidc-client-secret", envClientSecret, "client secret for token introspection"},
	workload.RemoteClientSecretKey:   {"remote-auth-client-secret", envRemoteClientSecret, "client secret for the login at the remote server"},
	workload.BearerTokenKey:          {"remote-auth-bearer-token", "", "bearer token for the remote server"},
	workload.ExchangeClientSecretKey: {"token-exchange-client-secret", envExchangeClientSecret, "client secret for the token exchange"},
}

// serverOptions are the flags of the credentials for the server.
type serverOptions struct {
	headers       []string
	secretHeaders []string

	exchange workload.TokenExchange
	// login are the flags of the login at a remote server.
	login         workload.RemoteAuth
	remoteAuth    bool
	resource      string
	timeout       time.Duration
	bearerFile    string
	clientSecrets map[string]*string // by key
}

// exchangeFlags are the flags any of which configures a token exchange.
var exchangeFlags = []string{
	"token-exchange-url", "token-exchange-audience", "token-exchange-client-id", "token-exchange-client-secret", "token-exchange-client-secret-file",
	"token-exchange-header-name", "token-exchange-scopes", "token-exchange-subject-token-type",
}

func addServerFlags(f *pflag.FlagSet, o *serverOptions) {
	o.clientSecrets = map[string]*string{}
	for key := range givenSecrets {
		o.clientSecrets[key] = new(string)
	}
	f.StringVar(o.clientSecrets[workload.BearerTokenKey], "remote-auth-bearer-token", "", "Bearer token (alternative to OAuth)")
	f.StringVar(&o.bearerFile, "remote-auth-bearer-token-file", "", "File holding the bearer token")
	f.StringArrayVar(&o.headers, "remote-forward-headers", nil, "Headers injected into remote requests, format Name=Value; repeatable")
	f.StringArrayVar(&o.secretHeaders, "remote-forward-headers-secret", nil, "Headers with values from the secrets manager, format Name=secret-name; repeatable")
	a := &o.login
	f.BoolVar(&o.remoteAuth, "remote-auth", false, "Enable OAuth/OIDC toward the remote server, also if it answers without a login (default: if it requires one; false: never)")
	f.StringVar(&a.Issuer, "remote-auth-issuer", "", "Issuer URL (default: the server names it)")
	f.StringVar(&a.AuthorizeURL, "remote-auth-authorize-url", "", "Authorization endpoint (alternative to issuer, non-OIDC)")
	f.StringVar(&a.TokenURL, "remote-auth-token-url", "", "Token endpoint (alternative to issuer, non-OIDC)")
	f.StringVar(&a.ClientID, "remote-auth-client-id", "", "Client id; optional if dynamic client registration (RFC 7591) is supported")
	f.StringVar(o.clientSecrets[workload.RemoteClientSecretKey], "remote-auth-client-secret", "", "Client secret; optional with dynamic registration or PKCE")
	f.StringVar(&a.ClientSecretFile, "remote-auth-client-secret-file", "", "File holding the client secret (alternative)")
	f.StringSliceVar(&a.Scopes, "remote-auth-scopes", nil, "Scopes to request (default: those that the server names; OIDC: openid,profile,email)")
	f.StringVar(&a.ScopeParam, "remote-auth-scope-param-name", "", "Override the query parameter name for scopes in the authorization URL (for providers using a non-standard name)")
	f.StringVar(&o.resource, "remote-auth-resource", "", "Resource indicator (RFC 8707) (default: that of the server's metadata; an empty value sends none)")
	f.IntVar(&a.CallbackPort, "remote-auth-callback-port", workload.DefaultCallbackPort, "Port of the local OAuth callback server")
	f.BoolVar(&a.SkipBrowser, "remote-auth-skip-browser", false, "Do not open a browser")
	f.DurationVar(&o.timeout, "remote-auth-timeout", workload.DefaultLoginTimeout, "Timeout of the authentication flow")
	x := &o.exchange
	f.StringVar(&x.URL, "token-exchange-url", "", "Token exchange endpoint; providing it enables token exchange")
	f.StringVar(&x.Audience, "token-exchange-audience", "", "Target audience")
	f.StringVar(&x.ClientID, "token-exchange-client-id", "", "Client id")
	f.StringVar(o.clientSecrets[workload.ExchangeClientSecretKey], "token-exchange-client-secret", "", "Client secret")
	f.StringVar(&x.ClientSecretFile, "token-exchange-client-secret-file", "", "File holding the client secret")
	f.StringVar(&x.HeaderName, "token-exchange-header-name", "", "Header that carries the exchanged token (default: replaces Authorization header)")
	f.StringSliceVar(&x.Scopes, "token-exchange-scopes", nil, "Scopes to request")
	f.StringVar(&x.SubjectTokenType, "token-exchange-subject-token-type", credential.AccessToken, "access_token or id_token (id_token is required by one cloud security token service)")
}

// loginFlags are the flags any of which configures a login at a remote server.
var loginFlags = []string{
	"remote-auth", "remote-auth-issuer", "remote-auth-authorize-url", "remote-auth-token-url", "remote-auth-client-id",
	"remote-auth-client-secret", "remote-auth-client-secret-file", "remote-auth-scopes", "remote-auth-scope-param-name",
	"remote-auth-resource", "remote-auth-callback-port", "remote-auth-skip-browser", "remote-auth-timeout",
}

// parseLogin returns the login of the flags; nil with --remote-auth=false.
func (o *serverOptions) parseLogin(given func(string) bool) (*workload.RemoteAuth, error) {
	if given("remote-auth") && !o.remoteAuth {
		for _, flag := range loginFlags {
			if flag != "remote-auth" && given(flag) {
				return nil, fmt.Errorf("--%s contradicts --remote-auth=false", flag)
			}
		}
		return nil, nil
	}
	a := o.login
	a.Required = o.remoteAuth
	if given("remote-auth-resource") {
		a.Resource = &o.resource
	}
	var errs []error
	if !given("remote-auth-callback-port") {
		a.CallbackPort = 0
	} else if a.CallbackPort < 1 || a.CallbackPort > 65535 {
		errs = append(errs, fmt.Errorf("--remote-auth-callback-port %d is not a port", a.CallbackPort))
	}
	if given("remote-auth-timeout") {
		a.Timeout = workload.Duration(o.timeout)
		if o.timeout <= 0 {
			errs = append(errs, fmt.Errorf("--remote-auth-timeout %s is not a time to log in", o.timeout))
		}
	}
	if *o.clientSecrets[workload.RemoteClientSecretKey] != "" && a.ClientID == "" {
		errs = append(errs, errors.New("--remote-auth-client-secret needs --remote-auth-client-id"))
	}
	var err error
	a.ClientSecretFile, err = readable("remote-auth-client-secret-file", a.ClientSecretFile)
	errs = append(errs, err)
	return &a, errors.Join(errs...)
}

// parse sets what the flags configure in s, whose source is not known yet: remote are the
// settings for a remote server, nil for none.
func (o *serverOptions) parse(s *workload.Spec, given func(string) bool) (remote *workload.Remote, err error) {
	var errs []error
	note := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	if slices.ContainsFunc(exchangeFlags, given) {
		x := o.exchange
		x.ClientSecretFile, err = readable("token-exchange-client-secret-file", x.ClientSecretFile)
		note(err)
		switch {
		case x.URL == "":
			note(errors.New("the other --token-exchange flags need --token-exchange-url"))
		case *o.clientSecrets[workload.ExchangeClientSecretKey] != "" && x.ClientID == "":
			note(errors.New("--token-exchange-client-secret needs --token-exchange-client-id"))
		default:
			if x.SubjectTokenType == credential.AccessToken {
				x.SubjectTokenType = ""
			}
			s.TokenExchange = &x
		}
	}
	r := &workload.Remote{}
	r.BearerTokenFile, err = readable("remote-auth-bearer-token-file", o.bearerFile)
	note(err)
	if token := *o.clientSecrets[workload.BearerTokenKey]; token != "" && o.bearerFile != "" {
		note(errors.New("--remote-auth-bearer-token and --remote-auth-bearer-token-file are alternatives; give one"))
	} else if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		note(errors.New("--remote-auth-bearer-token: a token is one word of visible ASCII characters"))
	}
	if slices.ContainsFunc(loginFlags, given) {
		a, err := o.parseLogin(given)
		note(err)
		r.Auth = a
	}
	for _, header := range o.headers {
		name, value, found := strings.Cut(header, "=")
		if !found {
			note(fmt.Errorf("--remote-forward-headers %q: write Name=Value", name))
			continue
		}
		if err := credential.CheckHeader(name, value); err != nil {
			note(fmt.Errorf("--remote-forward-headers: %w", err))
			continue
		}
		r.Headers = put(r.Headers, name, value)
	}
	r.SecretHeaders, err = o.parseSecretHeaders()
	note(err)
	return r, errors.Join(errs...)
}

// parseSecretHeaders returns the references of --remote-forward-headers-secret by header.
func (o *serverOptions) parseSecretHeaders() (map[string]string, error) {
	var refs map[string]string
	var errs []error
	for _, value := range o.secretHeaders {
		header, name, found := strings.Cut(value, "=")
		err := credential.CheckHeader(header, "")
		switch {
		case !found:
			err = fmt.Errorf("%q: write Name=secret-name", value)
		case err == nil:
			err = secret.CheckName(name)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--remote-forward-headers-secret: %w", err))
			continue
		}
		refs = put(refs, header, secret.SharedRef(name))
	}
	return refs, errors.Join(errs...)
}

// remoteFlags are the flags that are for remote servers only.
func remoteFlags() []string {
	return append([]string{"remote-forward-headers", "remote-forward-headers-secret", "remote-auth-bearer-token", "remote-auth-bearer-token-file"}, loginFlags...)
}

// complete adds the settings for a remote server to those of the registry.
func (o *serverOptions) complete(r, flags *workload.Remote) {
	if r == nil || flags == nil {
		return
	}
	r.BearerTokenFile, r.Auth = flags.BearerTokenFile, flags.Auth
	for name, value := range flags.Headers {
		r.Headers = put(r.Headers, name, value)
	}
	for name, ref := range flags.SecretHeaders {
		delete(r.Headers, name) // the registry's
		r.SecretHeaders = put(r.SecretHeaders, name, ref)
	}
}

// value is the value of the secret with the key: that of its flag, or of the environment.
func (o *options) secretValue(key string) string {
	in := givenSecrets[key]
	value := *o.server.clientSecrets[key]
	if key == workload.ClientSecretKey {
		value = o.auth.clientSecret
	}
	if in.env == "" {
		return value
	}
	return cmp.Or(value, o.app.Env(in.env))
}

// keepSecrets stores apart the secrets that flags give: the Spec refers to them.
func (d *draft) keepSecrets(value func(key string) string) {
	for _, f := range d.spec.SecretFields() {
		if v := value(f.Key); v != "" {
			d.keepSecret(f, v)
		}
	}
	if r := d.spec.Remote; r != nil {
		for name, v := range r.Headers {
			if key := workload.HeaderKey(name); v != "" && secret.Looks(key, v) {
				d.secrets[key] = v
				delete(r.Headers, name)
				r.SecretHeaders = put(r.SecretHeaders, name, secret.Ref(d.spec.Name, key))
			}
		}
	}
}

func (d *draft) keepSecret(f workload.SecretField, value string) {
	*f.Ref = secret.Ref(d.spec.Name, f.Key)
	d.secrets[f.Key] = value
}

// recoverSecretFields finds the secrets that an imported configuration refers to: targets
// are those of --secret, which applySecrets sets; given is the value of the command line;
// stored returns that of the very same workload here.
func (d *draft) recoverSecretFields(targets map[string]string, given func(key string) string, stored func(key, ref string) (string, error)) error {
	for _, f := range d.spec.SecretFields() {
		value := cmp.Or(given(f.Key), d.secrets[f.Key])
		if _, shared := secret.SharedName(*f.Ref); targets[f.Key] != "" || shared && value == "" {
			continue
		}
		if *f.Ref != "" && value == "" {
			var err error
			if value, err = stored(f.Key, *f.Ref); err != nil {
				return err
			}
		}
		if *f.Ref != "" && value == "" {
			in := givenSecrets[f.Key]
			or := ""
			if in.env != "" {
				or = " or in " + in.env
			}
			return base.Usage("the configuration needs the %s; give it with --%s%s", in.what, in.flag, or)
		}
		if value != "" {
			d.keepSecret(f, value)
		}
	}
	return nil
}
