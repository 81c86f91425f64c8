package upstream

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
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

func TestOIDC_Login(t *testing.T) {
	f := newFake(t)
	f.claims = object{"name": "Jo", "email": "jo@example.com"}
	f.answer = object{"scope": "openid email"}
	p := newProvider(t, f.oidc())
	location, a, err := p.Authorize(t.Context(), "the-state")
	if err != nil {
		t.Fatal(err)
	}
	u, _ := url.Parse(location)
	q := u.Query()
	challenge := sha256.Sum256([]byte(a.Verifier))
	for name, want := range map[string]string{
		"response_type": "code", "client_id": "gateway", "redirect_uri": callbackURL, "state": "the-state", // RFC 6749 4.1.1
		"code_challenge": base64.RawURLEncoding.EncodeToString(challenge[:]), "code_challenge_method": "S256", // RFC 7636 4.3
		"scope": "openid offline_access", "nonce": a.Nonce, "prompt": "consent", // OpenID Connect Core 3.1.2.1, 11
	} {
		if len(q[name]) != 1 || q.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, q[name], want)
		}
	}
	if !strings.HasPrefix(location, f.URL+"/authorize?") || len(a.Nonce) < 20 || len(a.Verifier) < 43 {
		t.Errorf("%s, %+v", location, a)
	}
	login, err := f.login(t, p)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Identity{Subject: "jo", Name: "Jo", Email: "jo@example.com"}); login.Identity != want {
		t.Errorf("%+v", login.Identity)
	}
	got := login.Tokens
	if got.AccessToken != theAccess || got.RefreshToken != theRefresh || got.IDToken == "" || !slices.Equal(got.Scopes, []string{"openid", "email"}) {
		t.Errorf("%+v", got)
	}
	if left := time.Until(got.Expiry); left < 50*time.Minute || left > time.Hour {
		t.Errorf("it expires in %s", left)
	}
	sent := f.sent("/token")[0]
	user, password, _ := (&http.Request{Header: sent.header}).BasicAuth()
	if user != "gateway" || password != clientSecret || sent.form.Get("grant_type") != "authorization_code" || sent.form.Get("code") != theCode ||
		sent.form.Get("redirect_uri") != callbackURL || len(sent.form.Get("code_verifier")) < 43 || sent.form.Has("client_secret") {
		t.Errorf("%+v", sent)
	}
}

func TestOIDC_IDToken(t *testing.T) {
	other, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	none := func(claims string) string {
		part := base64.RawURLEncoding.EncodeToString
		return part([]byte(`{"alg":"none"}`)) + "." + part([]byte(claims)) + "."
	}
	for _, row := range []struct {
		rule           string // of OpenID Connect Core 1.0
		claims, answer object
		fault          string // "": the sign-in succeeds
	}{
		{"3.1.3.7-2 another issuer", object{"iss": "https://other.example"}, nil, "issuer does not match"},
		{"3.1.3.7-3 another client", object{"aud": "other"}, nil, "audience does not match"},
		{"3.1.3.7-5 azp of another client", object{"azp": "other"}, nil, "azp"},
		{"3.1.3.7-6 another key", nil, object{"id_token": sign(other, "k", object{"sub": "jo"})}, "signature"},
		{"3.1.3.7-7 none", nil, object{"id_token": none(`{"sub":"jo"}`)}, "algorithm"},
		{"3.1.3.7-9 expired", object{"exp": 1000}, nil, "expired"},
		{"3.1.3.7-11 no nonce", object{"nonce": nil}, nil, "nonce"},
		{"3.1.3.7-11 nonce of another sign-in", object{"nonce": "other"}, nil, "nonce"},
		{"3.1.3.7-11 nonce is no text", object{"nonce": []string{}}, nil, "nonce"},
		{"3.1.3.8 at_hash of another token", object{"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"}, nil, "at_hash"},
		{"3.1.3.3 no ID token", nil, object{"id_token": nil}, "no ID token"},
		{"3.1.3.3 no text", nil, object{"id_token": 7}, "no ID token"},
		{"2 no subject", object{"sub": nil}, nil, "no subject"},
		{"bound on length", nil, object{"id_token": strings.Repeat("a", maxIDToken+1)}, "longer than"},
		{"5.1 control characters in the name", object{"name": "J\u202eo\n\x1b[31m!"}, nil, ""},
	} {
		t.Run(row.rule, func(t *testing.T) {
			f := newFake(t)
			f.claims, f.answer = row.claims, row.answer
			login, err := f.login(t, newProvider(t, f.oidc()))
			if row.fault == "" {
				if err != nil || login.Identity.Name != "Jo !" {
					t.Errorf("%+v, %v", login, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), row.fault) || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrDenied) || errors.Is(err, ErrExpired) {
				t.Errorf("got %v, want %q", err, row.fault)
			}
		})
	}
}

func TestOIDC_AuthorizationResponse(t *testing.T) {
	for _, row := range []struct {
		rule        string
		sendsIssuer bool
		change      func(f *fake, v url.Values)
		want        error // of the outcomes
		fault       string
	}{
		{"RFC 6749 4.1.2.1: the person refuses", false, func(_ *fake, v url.Values) { v.Set("error", "access_denied"); v.Del("code") }, ErrDenied, "access_denied"},
		{"OIDC Core 3.1.2.6: no interaction", false, func(_ *fake, v url.Values) { v.Set("error", "login_required"); v.Del("code") }, ErrDenied, "login_required"},
		{"RFC 6749 4.1.2.1: overloaded", false, func(_ *fake, v url.Values) { v.Set("error", "temporarily_unavailable"); v.Del("code") }, ErrUnavailable, "temporarily_unavailable"},
		{"RFC 6749 4.1.2.1: text of the provider", false, func(_ *fake, v url.Values) {
			v.Set("error", "access_denied")
			v.Set("error_description", "\x1b[31m"+theCode+" the-state")
		}, ErrDenied, "(hidden) (hidden)"},
		{"RFC 6749 10.12: another state", false, func(_ *fake, v url.Values) { v.Set("state", "other") }, nil, "another sign-in"},
		{"RFC 6749 10.12: no state", false, func(_ *fake, v url.Values) { v.Del("state") }, nil, "another sign-in"},
		{"RFC 6749 3.1: a parameter twice", false, func(_ *fake, v url.Values) { v.Add("code", "other") }, nil, "twice"},
		{"RFC 6749 4.1.2: no code", false, func(_ *fake, v url.Values) { v.Del("code") }, nil, "neither a code"},
		{"RFC 9207 2.4: the issuer", true, func(f *fake, v url.Values) { v.Set("iss", f.URL) }, nil, ""},
		{"RFC 9207 2.4: another issuer", true, func(f *fake, v url.Values) { v.Set("iss", f.URL+"/") }, nil, "another issuer"},
		{"RFC 9207 2.4: no issuer though advertised", true, func(*fake, url.Values) {}, nil, "another issuer"},
		{"RFC 9207 2.4: another issuer though not advertised", false, func(_ *fake, v url.Values) { v.Set("iss", "https://other.example") }, nil, "another issuer"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			f := newFake(t)
			f.metadata["authorization_response_iss_parameter_supported"] = row.sendsIssuer
			p := newProvider(t, f.oidc())
			a, callback := f.begin(t, p)
			row.change(f, callback)
			_, err := p.Finish(t.Context(), a, callback)
			if row.fault == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), row.fault) || row.want != nil && !errors.Is(err, row.want) {
				t.Fatalf("got %v, want %q", err, row.fault)
			}
			checkNoSecrets(t, err.Error())
			if n := len(f.sent("/token")); n != 0 {
				t.Error("a token request was sent")
			}
		})
	}
}

// An attempt of one provider must not be finished at another (RFC 9700 section 4.4.2).
func TestFinish_AttemptOfAnotherProvider(t *testing.T) {
	f := newFake(t)
	p := newProvider(t, f.oidc())
	a, callback := f.begin(t, p)
	a.Provider = "other"
	for _, attempt := range []Attempt{a, {}} {
		if _, err := p.Finish(t.Context(), attempt, callback); err == nil {
			t.Errorf("%+v", attempt)
		}
	}
	if n := len(f.sent("/token")); n != 0 {
		t.Error("a token request was sent")
	}
}

func TestOIDC_UserInfo(t *testing.T) {
	f := newFake(t)
	at := f.URL + "/me"
	override := func(fields *externalauth.FieldMapping) func(*externalauth.OIDC) {
		return func(c *externalauth.OIDC) {
			c.UserInfoOverride = &externalauth.UserInfo{EndpointURL: at, HTTPMethod: "POST", AdditionalHeaders: map[string]string{"Accept": "application/vnd.x+json", "X-Team": "a"}, FieldMapping: fields}
		}
	}
	profile := func(c *externalauth.OIDC) { c.Scopes = []string{"openid", "profile", "email"} }
	for _, row := range []struct {
		rule   string // of OpenID Connect Core 1.0
		spec   func(*externalauth.OIDC)
		status int
		answer string
		want   Identity
		fault  string
		kind   error
	}{
		{"5.3.2 the same person", override(nil), 200, `{"sub":"jo","name":"Jo B","email":"b@example.com"}`, Identity{Subject: "jo", Name: "Jo B", Email: "b@example.com"}, "", nil},
		{"5.3.2 another person", override(nil), 200, `{"sub":"eve","name":"Jo"}`, Identity{}, "another person", nil},
		{"5.3.2 nobody", override(nil), 200, `{"name":"Jo"}`, Identity{}, "another person", nil},
		{"5.3.2 a name twice", override(nil), 200, `{"sub":"jo","sub":"eve"}`, Identity{}, "unique names", nil},
		{"5.1 an address that is not verified", override(nil), 200, `{"sub":"jo","email":"ceo@example.com","email_verified":false}`, Identity{Subject: "jo", Name: "Jo"}, "", nil},
		{"own fields", override(&externalauth.FieldMapping{SubjectFields: []string{"none", "id"}, NameFields: []string{"nick"}}), 200, `{"sub":"jo","id":9007199254740993,"nick":"J"}`,
			Identity{Subject: "9007199254740993", Name: "J", Email: "jo@example.com"}, "", nil},
		{"5.3.3 refused", override(nil), 401, `{"error":"invalid_token"}`, Identity{}, "401", nil},
		{"a web page", override(nil), 200, `<html>`, Identity{}, "not a JSON object", nil},
		{"overloaded", override(nil), 503, ``, Identity{}, "503", ErrUnavailable},
		{"the claims of the ID token suffice", profile, 500, ``, Identity{Subject: "jo", Name: "Jo", Email: "jo@example.com"}, "", nil},
		{"the claim of the subject", func(c *externalauth.OIDC) { c.SubjectClaim = "employee" }, 500, ``, Identity{Subject: "4711", Name: "Jo", Email: "jo@example.com"}, "", nil},
		{"no claim of the subject", func(c *externalauth.OIDC) { c.SubjectClaim = "none" }, 500, ``, Identity{}, "nothing in the answer", nil},
	} {
		t.Run(row.rule, func(t *testing.T) {
			f.claims = object{"name": "Jo", "email": "jo@example.com", "employee": 4711}
			f.says("/me", row.status, "application/json", row.answer)
			login, err := f.login(t, newProvider(t, f.oidc(row.spec)))
			if row.fault != "" {
				if err == nil || !strings.Contains(err.Error(), row.fault) || row.kind != nil && !errors.Is(err, row.kind) {
					t.Errorf("got %v, want %q", err, row.fault)
				}
				return
			}
			if err != nil || login.Identity != row.want {
				t.Errorf("%+v, %v", login, err)
			}
		})
	}
	sent := f.sent("/me")[0]
	if sent.method != http.MethodPost || sent.header.Get("Authorization") != "Bearer "+theAccess || sent.header.Get("Accept") != "application/vnd.x+json" || sent.header.Get("X-Team") != "a" {
		t.Errorf("%+v", sent)
	}
}

// The discovered userinfo endpoint supplies what the scopes request and the ID token does
// not have (OpenID Connect Core 1.0 section 5.4).
func TestOIDC_DiscoveredUserInfo(t *testing.T) {
	for _, row := range []struct {
		rule, answer string // of OpenID Connect Core 1.0
		status       int
		want         Identity
	}{
		{"5.3.2 the same person", `{"sub":"jo","name":"Jo","email":"jo@example.com","email_verified":true}`, 200, Identity{Subject: "jo", Name: "Jo", Email: "jo@example.com"}},
		{"5.3.2 another person: not used", `{"sub":"eve","name":"Eve"}`, 200, Identity{Subject: "jo"}},
		{"it does not answer", ``, 503, Identity{Subject: "jo"}},
		{"no object", `[]`, 200, Identity{Subject: "jo"}},
	} {
		t.Run(row.rule, func(t *testing.T) {
			f := newFake(t)
			f.metadata["userinfo_endpoint"] = f.URL + "/userinfo"
			f.says("/userinfo", row.status, "application/json", row.answer)
			login, err := f.login(t, newProvider(t, f.oidc(func(c *externalauth.OIDC) { c.Scopes = []string{"profile", "email"} })))
			if err != nil || login.Identity != row.want {
				t.Errorf("%+v, %v", login, err)
			}
		})
	}
}

func TestDiscovery_Faults(t *testing.T) {
	for _, row := range []struct {
		rule   string
		change func(f *fake)
		fault  string
	}{
		{"OIDC Discovery 4.3: another issuer", func(f *fake) { f.metadata["issuer"] = f.URL + "/" }, "another issuer"},
		{"OIDC Discovery 3: no token endpoint", func(f *fake) { delete(f.metadata, "token_endpoint") }, "token_endpoint"},
		{"OIDC Discovery 3: no keys", func(f *fake) { delete(f.metadata, "jwks_uri") }, "jwks_uri"},
		{"RFC 8414 2: plain HTTP", func(f *fake) { f.metadata["token_endpoint"] = "http://idp.example/token" }, "token_endpoint"},
		{"a script", func(f *fake) { f.metadata["authorization_endpoint"] = "javascript:alert(1)" }, "authorization_endpoint"},
		{"user information", func(f *fake) { f.metadata["authorization_endpoint"] = "https://idp.example@evil.example/" }, "authorization_endpoint"},
		{"RFC 6749 3.1: a fragment", func(f *fake) { f.metadata["authorization_endpoint"] = "https://idp.example/#a" }, "authorization_endpoint"},
		{"RFC 7636 4.2: no S256", func(f *fake) { f.metadata["code_challenge_methods_supported"] = []string{"plain"} }, "S256"},
		{"RFC 7493 2.3: a name twice", func(f *fake) {
			f.says("/.well-known/openid-configuration", 200, "application/json", `{"issuer":"a","issuer":"b"}`)
		}, "two members"},
		{"RFC 6749 3.1: the endpoint sets a parameter of the request", func(f *fake) { f.metadata["authorization_endpoint"] = f.URL + "/authorize?client_id=other" }, "its query sets"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			f := newFake(t)
			row.change(f)
			p := newProvider(t, f.oidc())
			if _, _, err := p.Authorize(t.Context(), "s"); err == nil || !strings.Contains(err.Error(), row.fault) || errors.Is(err, ErrUnavailable) {
				t.Errorf("got %v, want %q", err, row.fault)
			}
		})
	}
}

// Metadata cannot lead requests to private hosts beside those of the configuration.
func TestDiscovery_PrivateHosts(t *testing.T) {
	f := newFake(t)
	here, _ := url.Parse(f.URL)
	for name, address := range map[string]string{
		"this machine": "https://localhost:" + here.Port() + "/token", "a private network": "https://10.1.2.3/token", "metadata of a cloud": "https://169.254.169.254/token",
	} {
		t.Run(name, func(t *testing.T) {
			f.metadata["token_endpoint"] = address
			_, err := f.login(t, newProvider(t, f.oidc()))
			if err == nil || errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "not a public one") {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("this machine by plain HTTP", func(t *testing.T) {
		f.metadata["token_endpoint"] = "http://localhost:" + here.Port() + "/token"
		if _, _, err := newProvider(t, f.oidc()).Authorize(t.Context(), "s"); err == nil || !strings.Contains(err.Error(), "not an https URL") {
			t.Errorf("got %v", err)
		}
	})
	if n := len(f.sent("/token")); n != 0 {
		t.Error("a token request was sent")
	}
}

func TestDiscovery_Outage(t *testing.T) {
	f := newFake(t)
	f.down.Store(true)
	p := newProvider(t, f.oidc())
	clock := p.stop()
	for range 5 {
		if _, _, err := p.Authorize(t.Context(), "s"); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("during the outage: %v", err)
		}
		if _, _, err := p.SupportedScopes(t.Context()); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("during the outage: %v", err)
		}
	}
	if n := len(f.sent("/.well-known/openid-configuration")); n != 1 {
		t.Errorf("%d requests within %s", n, metadataRetry)
	}
	f.down.Store(false)
	clock.advance(metadataRetry)
	if _, err := f.login(t, p); err != nil {
		t.Fatalf("after the outage: %v", err)
	}
	scopes, known, err := p.SupportedScopes(t.Context())
	if !slices.Contains(scopes, "email") || !known || err != nil {
		t.Errorf("%v, %t, %v", scopes, known, err)
	}
	f.down.Store(true)
	clock.advance(metadataFresh)
	if _, _, err := p.Authorize(t.Context(), "s"); err != nil {
		t.Errorf("with old metadata: %v", err)
	}
}

func TestOIDC_Refresh(t *testing.T) {
	f := newFake(t)
	for _, row := range []struct {
		rule           string
		answer, claims object
		check          func(before, after Tokens) bool
		fault          string
	}{
		{"RFC 6749 6: a new refresh token", object{"access_token": "new", "refresh_token": "newer"}, nil,
			func(_, after Tokens) bool { return after.AccessToken == "new" && after.RefreshToken == "newer" }, ""},
		{"RFC 6749 6: no refresh token", object{"refresh_token": nil}, nil, func(_, after Tokens) bool { return after.RefreshToken == theRefresh }, ""},
		{"RFC 6749 6: an empty refresh token", object{"refresh_token": ""}, nil, func(_, after Tokens) bool { return after.RefreshToken == theRefresh }, ""},
		{"RFC 6749 6: no scope", object{"scope": nil}, nil, func(before, after Tokens) bool { return slices.Equal(before.Scopes, after.Scopes) }, ""},
		{"RFC 6749 5.1: no expires_in", object{"expires_in": nil}, nil, func(_, after Tokens) bool { return after.Expiry.IsZero() }, ""},
		{"OIDC Core 12.2: no ID token", object{"id_token": nil}, nil, func(before, after Tokens) bool { return after.IDToken == before.IDToken }, ""},
		{"OIDC Core 12.2: an ID token without nonce", nil, object{"nonce": nil, "jti": "2"}, func(before, after Tokens) bool { return after.IDToken != before.IDToken }, ""},
		{"OIDC Core 12.2: another person", nil, object{"sub": "eve"}, nil, "another person"},
		{"OIDC Core 12.2: another nonce", nil, object{"nonce": "other"}, nil, "nonce"},
		{"OIDC Core 12.2: another client", nil, object{"aud": "other"}, nil, "audience"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			p := newProvider(t, f.oidc())
			f.answer, f.claims = nil, nil
			login, err := f.login(t, p)
			if err != nil {
				t.Fatal(err)
			}
			f.answer, f.claims = row.answer, row.claims
			after, err := p.Refresh(t.Context(), login.Tokens)
			if row.fault != "" {
				if err == nil || !strings.Contains(err.Error(), row.fault) {
					t.Errorf("got %v, want %q", err, row.fault)
				}
				return
			}
			if err != nil || !row.check(login.Tokens, after) {
				t.Errorf("%+v, %v", after, err)
			}
		})
	}
	// A refresh token that was replaced is not lost while the keys cannot be fetched.
	p := newProvider(t, f.oidc())
	f.answer, f.claims = object{"refresh_token": "newer"}, nil
	f.says("/jwks", 503, "text/plain", "")
	former := sign(f.key, "k", object{"sub": "jo"})
	after, err := p.Refresh(t.Context(), Tokens{RefreshToken: theRefresh, IDToken: former})
	if err != nil || after.RefreshToken != "newer" || after.IDToken != former {
		t.Errorf("%+v, %v", after, err)
	}
}
