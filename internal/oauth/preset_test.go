package oauth

import (
	"net/url"
	"testing"
)

// What well-known providers require is in the authorization request, unless the URL of the
// endpoint decides otherwise.
func TestPresetOf(t *testing.T) {
	const google, entra = "https://accounts.google.com/o/oauth2/v2/auth", "https://login.microsoftonline.com/t/oauth2/v2.0/authorize"
	for name, c := range map[string]struct {
		endpoint, scope   string
		prompt, access    string
		noOffline, secret string
	}{
		"any":                         {"https://as.example/authorize", "a offline_access", "consent", "", "", ""},
		"any, without offline":        {"https://as.example/authorize", "a", "", "", "", ""},
		"Google":                      {google, "a", "consent", "offline", "yes", ""},
		"Google, by its URL":          {google + "?access_type=online", "a", "consent", "online", "yes", ""},
		"Google, in another case":     {"https://ACCOUNTS.google.com/o", "a", "consent", "offline", "yes", ""},
		"Entra":                       {entra, "a offline_access", "", "", "", ""},
		"GitHub":                      {"https://github.com/login/oauth/authorize", "a", "", "", "", MethodPost},
		"a host that ends alike":      {"https://evil-accounts.google.com/o", "a", "", "", "", ""},
		"a host in another place":     {"https://as.example/accounts.google.com", "a", "", "", "", ""},
		"a URL that cannot be parsed": {"https://%zz", "a", "", "", "", ""},
	} {
		preset := PresetOf(c.endpoint)
		a := NewAuthorization(&Metadata{}, "http://127.0.0.1/callback")
		a.Params = preset.AuthorizationParams([]string{c.scope})
		if c.scope == "a offline_access" {
			a.Params = preset.AuthorizationParams([]string{"a", OfflineAccess})
		}
		u, err := url.Parse(a.URL(&Metadata{Authorization: c.endpoint}, "client", "", nil))
		if err != nil {
			if c.endpoint != "https://%zz" {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		q := u.Query()
		if q.Get("prompt") != c.prompt || q.Get("access_type") != c.access || len(q["access_type"]) > 1 || preset.NoOffline != (c.noOffline == "yes") || preset.Method != c.secret {
			t.Errorf("%s: %s, %+v", name, u, preset)
		}
	}
}
