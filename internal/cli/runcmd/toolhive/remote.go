package toolhive

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/credential"
	"github.com/toolhaven/toolhaven/internal/secret"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// toolHiveRemoteAuth is the login at a remote server. References of secrets are of
// ToolHive's store. Logins are not taken over: run logs in again.
type toolHiveRemoteAuth struct {
	ClientID         string            `json:"client_id"`
	ClientSecret     string            `json:"client_secret"` // NAME,target=oauth_secret, or the value
	ClientSecretFile string            `json:"client_secret_file"`
	Scopes           []string          `json:"scopes"`
	SkipBrowser      bool              `json:"skip_browser"`
	Timeout          time.Duration     `json:"timeout"` // an integer, nanoseconds
	CallbackPort     int               `json:"callback_port"`
	UsePKCE          bool              `json:"use_pkce"` // always used here
	Resource         string            `json:"resource"`
	Issuer           string            `json:"issuer"`
	AuthorizeURL     string            `json:"authorize_url"`
	TokenURL         string            `json:"token_url"`
	OAuthParams      map[string]string `json:"oauth_params"`
	ScopeParam       string            `json:"scope_param_name"`
	BearerToken      string            `json:"bearer_token"` // NAME,target=bearer_token, or the value
	BearerTokenFile  string            `json:"bearer_token_file"`
	Headers          []any             `json:"headers"`
	EnvVars          []any             `json:"env_vars"`
	toolHiveCachedLogin
}

// toolHiveCachedLogin is what ToolHive remembers of a login. It has no effect here.
type toolHiveCachedLogin struct {
	RefreshTokenRef any `json:"cached_refresh_token_ref"`
	TokenExpiry     any `json:"cached_token_expiry"`
	ClientID        any `json:"cached_client_id"`
	ClientSecretRef any `json:"cached_client_secret_ref"`
	SecretExpiry    any `json:"cached_secret_expiry"`
	RegTokenRef     any `json:"cached_reg_token_ref"`
	RegClientURI    any `json:"cached_reg_client_uri"`
	TokenAuthMethod any `json:"cached_token_auth_method"`
	CallbackPort    any `json:"cached_dcr_callback_port"`
	CIMDClientID    any `json:"cached_cimd_client_id"`
}

// toolHiveHeaders are the headers of requests to a remote server; those of secrets are by
// their name in ToolHive's store.
type toolHiveHeaders struct {
	Plain  map[string]string `json:"add_plaintext_headers"`
	Secret map[string]string `json:"add_headers_from_secret"`
}

// toolHiveExchange is a token exchange (RFC 8693).
type toolHiveExchange struct {
	TokenURL         string   `json:"token_url"`
	ClientID         string   `json:"client_id"`
	ClientSecret     string   `json:"client_secret"` // the value
	Audience         string   `json:"audience"`
	Scopes           []string `json:"scopes"`
	SubjectTokenType string   `json:"subject_token_type"` // a URN
	HeaderStrategy   string   `json:"header_strategy"`    // replace or custom
	HeaderName       string   `json:"external_token_header_name"`
}

// ownRef returns a secret of the file as the value of a workload.SecretField: a value as it
// is, and a reference into ToolHive's store as one that has no value here yet, so that run
// states how to give it.
func (t *toolHive) ownRef(value, target, key string) string {
	if strings.HasSuffix(value, ",target="+target) {
		return secret.Ref(t.Name, key)
	}
	return value
}

// remote is the remote server. Client secret and bearer token are still in it, if the file
// has their values.
func (t *toolHive) remote() (*workload.Remote, error) {
	r := &workload.Remote{URL: t.RemoteURL}
	if h := t.HeaderForward; h != nil {
		for name, value := range h.Plain {
			r.Headers = put(r.Headers, name, value)
		}
		for name := range h.Secret {
			r.SecretHeaders = put(r.SecretHeaders, name, secret.Ref(t.Name, workload.HeaderKey(name))) // run prompts for it
		}
	}
	a := t.RemoteAuth
	if a == nil {
		return r, nil
	}
	var errs []error
	for _, beyond := range []struct {
		key string
		set bool
	}{{"oauth_params", len(a.OAuthParams) > 0}, {"headers", len(a.Headers) > 0}, {"env_vars", len(a.EnvVars) > 0}} {
		if beyond.set {
			errs = append(errs, fmt.Errorf("remote_auth_config: this version of thv does not have the feature of %s; remove the key to run without", beyond.key))
		}
	}
	if a.BearerToken != "" || a.BearerTokenFile != "" {
		r.BearerToken, r.BearerTokenFile = t.ownRef(a.BearerToken, "bearer_token", workload.BearerTokenKey), a.BearerTokenFile
		return r, errors.Join(errs...)
	}
	r.Auth = &workload.RemoteAuth{
		Issuer: a.Issuer, AuthorizeURL: a.AuthorizeURL, TokenURL: a.TokenURL,
		ClientID: a.ClientID, ClientSecret: t.ownRef(a.ClientSecret, "oauth_secret", workload.RemoteClientSecretKey), ClientSecretFile: a.ClientSecretFile,
		Scopes: a.Scopes, ScopeParam: a.ScopeParam, SkipBrowser: a.SkipBrowser, Timeout: workload.Duration(a.Timeout),
	}
	if a.CallbackPort != workload.DefaultCallbackPort {
		r.Auth.CallbackPort = a.CallbackPort
	}
	if a.Resource != "" {
		r.Auth.Resource = &a.Resource
	}
	return r, errors.Join(errs...)
}

// tokenExchange is the token exchange; nil for none. Its client secret is still in it.
func (t *toolHive) tokenExchange() (*workload.TokenExchange, error) {
	c := t.TokenExchange
	if c == nil || c.TokenURL == "" {
		return nil, nil
	}
	x := &workload.TokenExchange{URL: c.TokenURL, Audience: c.Audience, Scopes: c.Scopes, ClientID: c.ClientID, ClientSecret: c.ClientSecret}
	switch name, _ := strings.CutPrefix(c.SubjectTokenType, "urn:ietf:params:oauth:token-type:"); name {
	case "", credential.AccessToken:
	case credential.IDToken:
		x.SubjectTokenType = name
	default:
		return nil, fmt.Errorf("token_exchange_config: subject_token_type %q: an access token or an ID token can be exchanged", c.SubjectTokenType)
	}
	switch c.HeaderStrategy {
	case "", "replace":
	case "custom":
		if x.HeaderName = c.HeaderName; x.HeaderName == "" {
			return nil, errors.New("token_exchange_config: header_strategy is custom, and external_token_header_name is not set")
		}
	default:
		return nil, fmt.Errorf("token_exchange_config: header_strategy %q is neither replace nor custom", c.HeaderStrategy)
	}
	return x, nil
}
