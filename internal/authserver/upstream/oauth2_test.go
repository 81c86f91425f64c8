package upstream

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/externalauth"
)

// withUserInfo sets the userinfo endpoint.
func (f *fake) withUserInfo(fields *externalauth.FieldMapping) func(*externalauth.OAuth2) {
	return func(c *externalauth.OAuth2) {
		c.UserInfo = &externalauth.UserInfo{EndpointURL: f.URL + "/userinfo", FieldMapping: fields}
	}
}

// GitHub: errors with status 200, forms, scopes with commas, numbers as identifiers, no expiry.
func TestOAuth2_LikeGitHub(t *testing.T) {
	f := newFake(t)
	spec := f.oauth2(f.withUserInfo(&externalauth.FieldMapping{SubjectFields: []string{"id"}, NameFields: []string{"name", "login"}}), func(c *externalauth.OAuth2) {
		c.Scopes = []string{"read:user", "user:email"}
	})
	f.says("/userinfo", 200, "application/json; charset=utf-8", `{"login":"jo","id":9007199254740993,"name":null,"email":null,"site_admin":false}`)
	p := newProvider(t, spec)
	for _, row := range []struct{ name, media, body string }{
		{"JSON", "application/json", `{"access_token":"gho_1","scope":"read:user,user:email","token_type":"bearer"}`},
		{"a form", "application/x-www-form-urlencoded; charset=utf-8", `access_token=gho_1&scope=read%3Auser%2Cuser%3Aemail&token_type=bearer`},
		{"a form as text", "text/plain", `access_token=gho_1&scope=read%3Auser%2Cuser%3Aemail&token_type=bearer`},
	} {
		t.Run(row.name, func(t *testing.T) {
			f.says("/token", 200, row.media, row.body)
			login, err := f.login(t, p)
			if err != nil {
				t.Fatal(err)
			}
			if want := (Identity{Subject: "9007199254740993", Name: "jo"}); login.Identity != want {
				t.Errorf("%+v", login.Identity)
			}
			if got := login.Tokens; got.AccessToken != "gho_1" || !got.Expiry.IsZero() || got.RefreshToken != "" || !slices.Equal(got.Scopes, []string{"read:user", "user:email"}) {
				t.Errorf("%+v", got)
			}
		})
	}
	if got := f.sent("/token")[0].header.Get("Accept"); got != "application/json" {
		t.Errorf("Accept is %q", got)
	}
	for _, row := range []struct {
		body string
		want error
	}{
		{`{"error":"bad_verification_code","error_description":"The code passed is incorrect or expired."}`, ErrDenied},
		{`{"error":"incorrect_client_credentials"}`, nil},
	} {
		f.says("/token", 200, "application/json", row.body)
		if _, err := f.login(t, p); err == nil || row.want != nil && !errors.Is(err, row.want) || row.want == nil && errors.Is(err, ErrDenied) {
			t.Errorf("%s: %v", row.body, err)
		}
	}
	f.says("/token", 200, "application/json", `{"error":"bad_refresh_token"}`)
	if _, err := p.Refresh(t.Context(), Tokens{RefreshToken: theRefresh}); !errors.Is(err, ErrExpired) {
		t.Errorf("refresh: %v", err)
	}
}

// Slack: the person's token inside the answer, beside that of the application.
func TestOAuth2_LikeSlack(t *testing.T) {
	f := newFake(t)
	p := newProvider(t, f.oauth2(func(c *externalauth.OAuth2) {
		c.TokenResponseMapping = &externalauth.TokenResponseMapping{
			AccessTokenPath: "authed_user.access_token", RefreshTokenPath: "authed_user.refresh_token",
			ExpiresInPath: "authed_user.expires_in", ScopePath: "authed_user.scope",
		}
		c.IdentityFromToken = &externalauth.IdentityFromToken{SubjectPath: "authed_user.id", NamePath: "team.name"}
		c.AdditionalAuthorizationParams = map[string]string{"user_scope": "search:read"}
	}))
	f.says("/token", 200, "application/json", `{"ok":true,"access_token":"xoxb-app","refresh_token":"xoxe-app","token_type":"bot",
		"team":{"id":"T1","name":"A team"},"authed_user":{"id":"U1","scope":"search:read,im:read","access_token":"xoxp-person","token_type":"user","expires_in":43200}}`)
	location, _, err := p.Authorize(t.Context(), "s")
	if u, _ := url.Parse(location); err != nil || u.Query().Get("user_scope") != "search:read" {
		t.Errorf("%s, %v", location, err)
	}
	login, err := f.login(t, p)
	if err != nil {
		t.Fatal(err)
	}
	got := login.Tokens
	// The refresh token of the application is not that of the person.
	if got.AccessToken != "xoxp-person" || got.RefreshToken != "" || !slices.Equal(got.Scopes, []string{"search:read", "im:read"}) || time.Until(got.Expiry) < 11*time.Hour {
		t.Errorf("%+v", got)
	}
	if want := (Identity{Subject: "U1", Name: "A team"}); login.Identity != want {
		t.Errorf("%+v", login.Identity)
	}
	// The answer to a refresh is plain.
	f.says("/token", 200, "application/json", `{"ok":true,"access_token":"xoxp-2","refresh_token":"xoxe-2","expires_in":43200,"token_type":"user"}`)
	after, err := p.Refresh(t.Context(), Tokens{RefreshToken: theRefresh})
	if err != nil || after.AccessToken != "xoxp-2" || after.RefreshToken != "xoxe-2" {
		t.Errorf("%+v, %v", after, err)
	}
	f.says("/token", 200, "application/json", `{"ok":false,"error":"invalid_code"}`)
	if _, err := f.login(t, p); !errors.Is(err, ErrDenied) {
		t.Errorf("got %v", err)
	}
	f.says("/token", 200, "application/json", `{"ok":true,"access_token":"xoxb-app","token_type":"bot"}`)
	if _, err := f.login(t, p); err == nil {
		t.Error("the token of the application was taken for that of the person")
	}
}

func TestOAuth2_IdentityFromToken(t *testing.T) {
	f := newFake(t)
	jwt := sign(f.key, "k", object{"sub": "from the token"})
	for _, row := range []struct {
		path, answer, subject string // "": the sign-in fails
	}{
		{"id", `{"id":"u1"}`, "u1"},
		{"a.b.c", `{"a":{"b":{"c":"u1"}}}`, "u1"},
		{"accounts.1.id", `{"accounts":[{"id":"u0"},{"id":12345678901234567890}]}`, "12345678901234567890"},
		{`a\.b`, `{"a.b":"u1","a":{"b":"u2"}}`, "u1"},
		{"access_token.@upstreamjwt.sub", `{"access_token":"` + jwt + `"}`, "from the token"},
		{"access_token|@upstreamjwt|sub", `{"access_token":"` + jwt + `"}`, "from the token"},
		{"id.@upstreamjwt.sub", `{"id":"opaque"}`, ""},
		{"id", `{}`, ""},
		{"id", `{"id":""}`, ""},
		{"id", `{"id":null}`, ""},
		{"id", `{"id":true}`, ""},
		{"id", `{"id":["u1"]}`, ""},
		{"id", `{"id":{"u":1}}`, ""},
		{"id", `{"id":1.5}`, ""},
		{"id", `{"id":1e3}`, ""},
		{"id", `{"id":"a\u0000b"}`, ""},
		{"accounts.2.id", `{"accounts":[{"id":"u0"}]}`, ""},
		{"accounts.-1.id", `{"accounts":[{"id":"u0"}]}`, ""},
		{"accounts.00.id", `{"accounts":[{"id":"u0"}]}`, ""},
		{"id", `{"id":"` + strings.Repeat("x", maxSubject+1) + `"}`, ""},
	} {
		t.Run(row.path+" "+row.answer[:min(40, len(row.answer))], func(t *testing.T) {
			body := row.answer
			if !strings.Contains(body, "access_token") {
				body = strings.Replace(body, "{", `{"access_token":"a",`, 1)
				body = strings.Replace(body, ",}", "}", 1)
			}
			body = strings.Replace(body, "{", `{"token_type":"Bearer",`, 1)
			f.says("/token", 200, "application/json", body)
			login, err := f.login(t, newProvider(t, f.oauth2(f.withUserInfo(nil), func(c *externalauth.OAuth2) {
				c.IdentityFromToken = &externalauth.IdentityFromToken{SubjectPath: row.path, NamePath: "none", EmailPath: "none"}
			})))
			if row.subject == "" {
				if err == nil {
					t.Errorf("identified %+v", login.Identity)
				}
			} else if err != nil || login.Identity != (Identity{Subject: row.subject}) {
				t.Errorf("%+v, %v", login, err)
			}
		})
	}
	if len(f.sent("/userinfo")) != 0 {
		t.Error("userinfo was requested, and identityFromToken has precedence")
	}
}

// The specification: without userInfo and identityFromToken, the subject is synthesized.
func TestOAuth2_Synthesized(t *testing.T) {
	f := newFake(t)
	p := newProvider(t, f.oauth2())
	first, err := f.login(t, p)
	if err != nil {
		t.Fatal(err)
	}
	id := first.Identity
	if !id.Synthesized || len(id.Subject) != 35 || !strings.HasPrefix(id.Subject, "tk-") || id.Name != "" || id.Email != "" {
		t.Errorf("%+v", id)
	}
	same, err := f.login(t, p)
	f.answer = object{"access_token": "another"}
	other, errOther := f.login(t, p)
	if err != nil || errOther != nil || same.Identity != id || other.Identity == id {
		t.Errorf("%+v, %+v, %v, %v", same, other, err, errOther)
	}
}

// Where the access token is about a person, the synthesized subject is that person's at each
// sign-in.
func TestOAuth2_SynthesizedPerson(t *testing.T) {
	token := func(typ, claims string) string {
		part := base64.RawURLEncoding.EncodeToString
		return part([]byte(`{"alg":"RS256","typ":"`+typ+`"}`)) + "." + part([]byte(claims)) + "." + part([]byte("signature"))
	}
	f := newFake(t)
	p := newProvider(t, f.oauth2())
	subject := func(accessToken string) Identity {
		t.Helper()
		f.answer = object{"access_token": accessToken}
		login, err := f.login(t, p)
		if err != nil {
			t.Fatal(err)
		}
		return login.Identity
	}
	jo := subject(token("at+jwt", `{"iss":"https://a.example","sub":"jo","client_id":"c","jti":"1"}`))
	if jo.Synthesized || !strings.HasPrefix(jo.Subject, "tk-") || strings.Contains(jo.Subject, "jo") {
		t.Errorf("%+v", jo)
	}
	for name, c := range map[string]struct {
		token string
		same  bool
	}{
		"another token":                {token("application/at+jwt", `{"iss":"https://a.example","sub":"jo","client_id":"c","jti":"2"}`), true},
		"another person":               {token("at+jwt", `{"iss":"https://a.example","sub":"eve","client_id":"c"}`), false},
		"another issuer":               {token("at+jwt", `{"iss":"https://b.example","sub":"jo","client_id":"c"}`), false},
		"RFC 9068 2.1 of another type": {token("JWT", `{"iss":"https://a.example","sub":"jo","client_id":"c"}`), false},
		"RFC 9068 2.2 of a client":     {token("at+jwt", `{"iss":"https://a.example","sub":"jo","client_id":"jo"}`), false},
		"no issuer":                    {token("at+jwt", `{"sub":"jo"}`), false},
		"no subject":                   {token("at+jwt", `{"iss":"https://a.example"}`), false},
	} {
		if got := subject(c.token); (got == jo) != c.same {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestTokenResponse_Faults(t *testing.T) {
	refuse := func(status int, code string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, secret, _ := r.BasicAuth()
			writeJSON(w, object{"error": code, "error_description": strings.Join([]string{secret, r.FormValue("client_secret"), r.FormValue("code"), r.FormValue("code_verifier"), r.FormValue("refresh_token")}, " ")})
		}
	}
	says := func(media, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			_, _ = w.Write([]byte(body))
		}
	}
	const json = "application/json"
	for _, row := range []struct {
		rule           string
		handler        http.HandlerFunc
		login, refresh error // nil: none of the outcomes
	}{
		{"RFC 6749 5.2: invalid_grant", refuse(400, "invalid_grant"), ErrDenied, ErrExpired},
		{"RFC 6749 5.2: invalid_request, as Dex", refuse(400, "invalid_request"), ErrDenied, ErrExpired},
		{"RFC 6749 5.2: invalid_client", refuse(401, "invalid_client"), nil, nil},
		{"RFC 6749 5.2: invalid_scope", refuse(400, "invalid_scope"), nil, nil},
		{"RFC 6749 5.2: a reason with status 200", refuse(200, "invalid_grant"), ErrDenied, ErrExpired},
		{"OIDC Core 3.1.2.6: as Entra", refuse(400, "interaction_required"), nil, ErrExpired},
		{"RFC 9110 15.6.4: overloaded", refuse(503, "invalid_grant"), ErrUnavailable, ErrUnavailable},
		{"RFC 6585 4: too many requests", refuse(429, "slow_down"), ErrUnavailable, ErrUnavailable},
		{"RFC 6749 4.1.2.1: temporary", refuse(400, "temporarily_unavailable"), ErrUnavailable, ErrUnavailable},
		{"no reason", says(json, `{}`), nil, nil},
		{"a web page", says("text/html", `<html>`), nil, nil},
		{"RFC 6749 5.1: no token", says(json, `{"token_type":"Bearer"}`), nil, nil},
		{"RFC 6749 5.1: no type", says(json, `{"access_token":"a"}`), nil, nil},
		{"RFC 6749 7.1: another type", says(json, `{"access_token":"a","token_type":"mac"}`), nil, nil},
		{"RFC 6750 2.1: no b64token", says(json, `{"access_token":"a\r\nX: b","token_type":"Bearer"}`), nil, nil},
		{"RFC 6749 5.1: a negative lifetime", says(json, `{"access_token":"a","token_type":"Bearer","expires_in":-1}`), nil, nil},
		{"RFC 7493 2.3: a name twice", says(json, `{"access_token":"a","access_token":"b","token_type":"Bearer"}`), nil, nil},
		{"RFC 6749 3.2: a parameter twice", says("application/x-www-form-urlencoded", `access_token=a&access_token=b&token_type=Bearer`), nil, nil},
		{"nested too deeply", says(json, `{"access_token":"a","token_type":"Bearer","x":`+strings.Repeat("[", 100)+strings.Repeat("]", 100)+`}`), nil, nil},
		{"too large", says(json, `{"access_token":"a","token_type":"Bearer","x":"`+strings.Repeat("x", 1<<20)+`"}`), nil, nil},
		{"a long refresh token", says(json, `{"access_token":"a","token_type":"Bearer","refresh_token":"`+strings.Repeat("x", 1<<17)+`"}`), nil, nil},
		{"RFC 9700 4.12: a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, nil, nil},
		{"slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, ErrUnavailable, ErrUnavailable},
		{"a connection that ends", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, ErrUnavailable, ErrUnavailable},
	} {
		t.Run(row.rule, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.serve("/token", row.handler)
			p := newProvider(t, f.oauth2(), func(c *Config) {
				if row.rule == "slow" {
					c.timeout = 100 * time.Millisecond
				}
			})
			_, err := f.login(t, p)
			_, again := p.Refresh(t.Context(), Tokens{RefreshToken: theRefresh})
			for _, got := range []struct{ err, want error }{{err, row.login}, {again, row.refresh}} {
				if got.err == nil {
					t.Fatal("it succeeds")
				}
				checkNoSecrets(t, got.err.Error())
				for _, outcome := range []error{ErrDenied, ErrUnavailable, ErrExpired} {
					if errors.Is(got.err, outcome) != (outcome == got.want) {
						t.Errorf("%v: is %v", got.err, outcome)
					}
				}
			}
			if len(f.sent("/elsewhere")) != 0 {
				t.Error("a redirect was followed")
			}
		})
	}
	if _, err := newProvider(t, newFake(t).oauth2()).Refresh(t.Context(), Tokens{AccessToken: "a"}); !errors.Is(err, ErrExpired) {
		t.Errorf("without a refresh token: %v", err)
	}
}

// RFC 6749 appendix A.14, and how it is sent.
func TestTokenResponse_Lifetime(t *testing.T) {
	f := newFake(t)
	p := newProvider(t, f.oauth2())
	clock := p.stop()
	for text, want := range map[string]time.Duration{
		`3600`: time.Hour, `"3600"`: time.Hour, `3600.7`: time.Hour, `null`: 0, `1e300`: 10 * 365 * 24 * time.Hour,
	} {
		f.says("/token", 200, "application/json", `{"access_token":"a","token_type":"Bearer","expires_in":`+text+`}`)
		login, err := f.login(t, p)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var left time.Duration
		if e := login.Tokens.Expiry; !e.IsZero() {
			left = e.Sub(clock.now().Truncate(time.Second))
		}
		if left != want {
			t.Errorf("%s: %s", text, left)
		}
	}
}

func TestClientAuthentication(t *testing.T) {
	for _, row := range []struct {
		rule    string
		methods []string // of the metadata
		public  bool
		want    string // basic, post, none; "" fails
	}{
		{"RFC 8414 2: the default", nil, false, "basic"},
		{"RFC 8414 2: both", []string{"client_secret_post", "client_secret_basic"}, false, "basic"},
		{"RFC 8414 2: post", []string{"private_key_jwt", "client_secret_post"}, false, "post"},
		{"RFC 8414 2: neither", []string{"private_key_jwt"}, false, ""},
		{"RFC 6749 2.1: a public client", []string{"client_secret_basic"}, true, "none"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			f := newFake(t)
			if row.methods != nil {
				f.metadata["token_endpoint_auth_methods_supported"] = row.methods
			}
			p := newProvider(t, f.oidc(func(c *externalauth.OIDC) {
				if row.public {
					c.ClientSecretRef = nil
				}
			}))
			if row.want == "" {
				if _, _, err := p.Authorize(t.Context(), "s"); err == nil {
					t.Error("it succeeds")
				}
				return
			}
			if _, err := f.login(t, p); err != nil {
				t.Fatal(err)
			}
			if got := methodOf(f.sent("/token")[0]); got != row.want {
				t.Errorf("got %s", got)
			}
		})
	}
}

func methodOf(r request) string {
	switch {
	case r.header.Get("Authorization") != "":
		return "basic"
	case r.form.Get("client_secret") == clientSecret:
		return "post"
	}
	return "none"
}

// A provider without metadata that reads the other method only.
func TestClientAuthentication_Unnamed(t *testing.T) {
	f := newFake(t)
	f.serve("/token", func(w http.ResponseWriter, r *http.Request) {
		if r.PostFormValue("client_secret") != clientSecret {
			w.WriteHeader(http.StatusUnauthorized)
			writeJSON(w, object{"error": "invalid_client"})
			return
		}
		writeJSON(w, f.tokens())
	})
	p := newProvider(t, f.oauth2())
	for range 2 {
		if _, err := f.login(t, p); err != nil {
			t.Fatal(err)
		}
	}
	var methods []string
	for _, r := range f.sent("/token") {
		methods = append(methods, methodOf(r))
	}
	if !slices.Equal(methods, []string{"basic", "post", "post"}) {
		t.Error(methods)
	}
}

func TestSecret(t *testing.T) {
	f := newFake(t)
	for name, secret := range map[string]func(externalauth.SecretRef) (string, error){
		"an error": func(r externalauth.SecretRef) (string, error) { return "", errors.New(r.String() + " is missing") },
		"empty":    func(externalauth.SecretRef) (string, error) { return "", nil },
	} {
		p := newProvider(t, f.oauth2(), func(c *Config) { c.Secret = secret })
		if _, _, err := p.Authorize(t.Context(), "s"); err == nil || !strings.Contains(err.Error(), "clientSecretRef") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPresets(t *testing.T) {
	consent := map[string]string{"prompt": "consent"}
	google := map[string]string{"access_type": "offline", "prompt": "consent"}
	for _, row := range []struct {
		name   string
		got    settings
		scopes string
		params map[string]string
	}{
		{"any", oidcSettings(&externalauth.OIDC{IssuerURL: "https://idp.example"}), "openid offline_access", consent},
		{"without offline_access", oidcSettings(&externalauth.OIDC{IssuerURL: "https://idp.example", Scopes: []string{"openid", "email"}}), "openid email", map[string]string{}},
		{"OIDC Core 3.1.2.1: openid", oidcSettings(&externalauth.OIDC{IssuerURL: "https://idp.example", Scopes: []string{"email"}}), "openid email", map[string]string{}},
		{"Google", oidcSettings(&externalauth.OIDC{IssuerURL: "https://accounts.google.com"}), "openid", google},
		{"Google, with other choices", oidcSettings(&externalauth.OIDC{IssuerURL: "https://accounts.google.com", Scopes: []string{"openid", "email"}, AdditionalAuthorizationParams: map[string]string{"prompt": "select_account", "access_type": ""}}),
			"openid email", map[string]string{"prompt": "select_account"}},
		{"Google as OAuth 2.0", oauth2Settings(&externalauth.OAuth2{AuthorizationEndpoint: "https://accounts.google.com/o/oauth2/v2/auth", Scopes: []string{"email"}}), "email", google},
		{"Entra", oidcSettings(&externalauth.OIDC{IssuerURL: "https://login.microsoftonline.com/t/v2.0"}), "openid offline_access", map[string]string{}},
		{"a host that ends alike", oidcSettings(&externalauth.OIDC{IssuerURL: "https://evil-accounts.google.com", Scopes: []string{"openid"}}), "openid", map[string]string{}},
	} {
		if got := strings.Join(row.got.scopes, " "); got != row.scopes {
			t.Errorf("%s: %s", row.name, got)
		}
		if len(row.got.params) != len(row.params) {
			t.Errorf("%s: %v", row.name, row.got.params)
		}
		for name, value := range row.params {
			if row.got.params[name] != value {
				t.Errorf("%s: %v", row.name, row.got.params)
			}
		}
	}
	if s := oauth2Settings(&externalauth.OAuth2{AuthorizationEndpoint: "https://github.com/login/oauth/authorize"}); s.method != "client_secret_post" {
		t.Errorf("GitHub: %q", s.method)
	}
	if f := fieldMapping(&externalauth.UserInfo{EndpointURL: "https://api.github.com/user"}); f.SubjectFields[0] != "id" || f.NameFields[1] != "login" {
		t.Errorf("GitHub: %+v", f)
	}
}

// Additional parameters cannot replace those of the protocol (RFC 9101 section 5 for request
// objects).
func TestAuthorize_AdditionalParameters(t *testing.T) {
	f := newFake(t)
	for _, name := range []string{"client_id", "redirect_uri", "response_type", "state", "code_challenge", "code_challenge_method", "nonce", "request", "request_uri"} {
		p := newProvider(t, f.oidc(func(c *externalauth.OIDC) { c.AdditionalAuthorizationParams = map[string]string{name: "x"} }))
		if location, _, err := p.Authorize(t.Context(), "s"); err == nil {
			t.Errorf("%s: %s", name, location)
		}
	}
	p := newProvider(t, f.oidc(func(c *externalauth.OIDC) {
		c.AdditionalAuthorizationParams = map[string]string{"hd": "example.com", "x&y": "1=2"}
	}))
	location, _, err := p.Authorize(t.Context(), "s")
	if u, _ := url.Parse(location); err != nil || u.Query().Get("hd") != "example.com" || u.Query().Get("x&y") != "1=2" {
		t.Errorf("%s, %v", location, err)
	}
}

func TestNew_Faults(t *testing.T) {
	f := newFake(t)
	dcr := f.oauth2(func(c *externalauth.OAuth2) {
		c.ClientID, c.ClientSecretRef, c.DCR = "", nil, &externalauth.DCR{RegistrationEndpoint: f.URL + "/register"}
	})
	for name, c := range map[string]Config{
		"no type":        {Spec: externalauth.UpstreamProvider{Name: "idp"}, RedirectURI: callbackURL},
		"another type":   {Spec: externalauth.UpstreamProvider{Name: "idp", Type: externalauth.UpstreamOIDC, OAuth2: &externalauth.OAuth2{}}, RedirectURI: callbackURL},
		"no redirect":    {Spec: f.oidc(func(c *externalauth.OIDC) { c.ClientSecretRef = nil })},
		"no secrets":     {Spec: f.oidc(), RedirectURI: callbackURL},
		"no store":       {Spec: dcr, RedirectURI: callbackURL},
		"no authorities": {Spec: f.oidc(func(c *externalauth.OIDC) { c.ClientSecretRef = nil }), RedirectURI: callbackURL, CAFiles: []string{"/nowhere"}},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if len(f.requests) != 0 {
		t.Error("New sends requests")
	}
	if p := newProvider(t, f.oidc(func(c *externalauth.OIDC) { c.RedirectURI = "https://other.example/cb" })); p.redirect != "https://other.example/cb" || p.Name() != "idp" {
		t.Errorf("%+v", p)
	}
	scopes, known, err := newProvider(t, f.oauth2()).SupportedScopes(t.Context())
	if scopes != nil || known || err != nil {
		t.Errorf("%v, %t, %v", scopes, known, err)
	}
}
