package oauth

import (
	"net/url"
	"slices"
	"strings"
)

// OfflineAccess is the scope for a refresh token (OpenID Connect Core 1.0 section 11).
const OfflineAccess = "offline_access"

// Preset is what a well-known provider requires beyond the standards.
type Preset struct {
	// Params are parameters of the authorization request.
	Params map[string]string
	// NoOffline: it refuses or does not need offline_access.
	NoOffline bool
	// NoConsent: prompt=consent would prevent logins that an administrator approved.
	NoConsent bool
	// Method is that of client authentication in its documentation; "" is as its metadata
	// names.
	Method string
}

// presets are by the host where users log in.
var presets = map[string]Preset{
	// Google issues refresh tokens for access_type=offline, and again only with
	// prompt=consent. It refuses the scope offline_access
	// (developers.google.com/identity/protocols/oauth2/web-server).
	"accounts.google.com": {Params: map[string]string{"access_type": "offline", "prompt": "consent"}, NoOffline: true},
	// GitHub documents client_id and client_secret as parameters
	// (docs.github.com, "Authorizing OAuth apps").
	"github.com": {Method: MethodPost},
	// Entra issues refresh tokens for offline_access alone. prompt=consent would require
	// consent of each user where only administrators may give it.
	"login.microsoftonline.com": {NoConsent: true},
	"login.microsoftonline.us":  {NoConsent: true},
}

// PresetOf returns the Preset of the provider at a URL; the zero value for an unknown one.
func PresetOf(address string) Preset {
	u, err := url.Parse(address)
	if err != nil {
		return Preset{}
	}
	return presets[strings.ToLower(u.Hostname())]
}

// AuthorizationParams returns the parameters of an authorization request for the scopes.
func (p Preset) AuthorizationParams(scopes []string) map[string]string {
	params := map[string]string{}
	if slices.Contains(scopes, OfflineAccess) && !p.NoConsent {
		params["prompt"] = "consent" // OpenID Connect Core 1.0 section 11
	}
	for name, value := range p.Params {
		params[name] = value
	}
	return params
}
