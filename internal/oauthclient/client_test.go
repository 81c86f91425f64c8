package oauthclient

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// RFC 6749 section 2.3.1.
func TestSignIn_RegisteredClient(t *testing.T) {
	const secret = "s3cret: with+marks/"
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := func(name string) string { return map[string]string{"CLIENT_SECRET": secret}[name] }
	for name, c := range map[string]struct {
		client  Registered
		methods []string
		header  bool
		form    bool
		says    string
	}{
		"public":                   {Registered{ID: "app"}, nil, false, false, ""},
		"secret in a file":         {Registered{ID: "app", SecretFile: file}, nil, true, false, ""},
		"secret in a variable":     {Registered{ID: "app", SecretEnv: "CLIENT_SECRET"}, []string{"client_secret_post", "client_secret_basic"}, true, false, ""},
		"in the form":              {Registered{ID: "app", SecretFile: file}, []string{"client_secret_post"}, false, true, ""},
		"no way that we know":      {Registered{ID: "app", SecretFile: file}, []string{"private_key_jwt"}, false, false, "private_key_jwt"},
		"a file that is not there": {Registered{ID: "app", SecretFile: file + "x"}, nil, false, false, "no such file"},
		"an empty file":            {Registered{ID: "app", SecretFile: os.DevNull}, nil, false, false, "is empty"},
		"a variable not set":       {Registered{ID: "app", SecretEnv: "NONE"}, nil, false, false, "NONE is not set"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.secrets = append(f.secrets, secret)
			s := openIn(t.TempDir(), env)
			if c.methods != nil {
				f.metadata["token_endpoint_auth_methods_supported"] = c.methods
			}
			r := f.request()
			r.Client = c.client
			_, err := s.SignIn(t.Context(), r)
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) || len(f.authorized) > 0 {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			req := &http.Request{Header: http.Header{"Authorization": {f.auth[0]}}}
			id, password, ok := req.BasicAuth()
			if ok != c.header || ok && (id != "app" || password != url.QueryEscape(secret)) {
				t.Errorf("Authorization: %q", f.auth[0])
			}
			if got := f.forms[0].Get("client_secret"); (got == secret) != c.form || got != "" && !c.form {
				t.Errorf("client_secret %q", got)
			}
			if len(f.registrations) > 0 {
				t.Error("it registered itself all the same")
			}
			for _, file := range keptFiles(t, s) { // a reference is kept, not the secret
				b, _ := os.ReadFile(file)
				if strings.Contains(string(b), secret) {
					t.Errorf("%s holds the client's secret", file)
				}
			}
			// The renewal finds the secret again.
			source, _ := s.Source(f.url)
			_, kept, _ := s.records.find(t.Context(), mustURL(f.url))
			if _, err := source.Renew(t.Context(), string(kept.AccessToken)); err != nil || f.auth[1] != f.auth[0] {
				t.Errorf("renewal: %v, %q", err, f.auth[1])
			}
		})
	}
}

func TestRegistration_Remembered(t *testing.T) {
	f, s := newFake(t), testStore(t)
	f.mustSignIn(s)
	f.mustSignIn(s)
	if len(f.registrations) != 1 || f.authorized[1].Get("redirect_uri") != f.authorized[0].Get("redirect_uri") {
		t.Errorf("%d registrations, redirect URIs %s and %s", len(f.registrations), f.authorized[0].Get("redirect_uri"), f.authorized[1].Get("redirect_uri"))
	}
	// Its port is taken: servers that compare redirect URIs exactly would refuse
	// another one, so another client is registered.
	var busy error
	r := f.request()
	l, err := listen(t.Context(), portOf(f.authorized[0].Get("redirect_uri")), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, busy = s.SignIn(t.Context(), r); busy != nil {
		t.Fatal(busy)
	}
	l.Close()
	if len(f.registrations) != 2 {
		t.Errorf("%d registrations", len(f.registrations))
	}
	// Other scopes than it was registered for.
	r.Scopes = []string{"other"}
	if _, err := s.SignIn(t.Context(), r); err != nil || len(f.registrations) != 3 {
		t.Errorf("%d registrations, %v", len(f.registrations), err)
	}
	// The old sign-in goes on with the client it was made with.
	r.Scopes = nil
	// A server that forgot its clients refuses in the browser, where we see
	// nothing: after such an attempt another client is registered.
	forgetful := r
	forgetful.Show, forgetful.Patience, forgetful.Scopes = nil, 10*time.Millisecond, []string{"other"}
	if _, err := s.SignIn(t.Context(), forgetful); err == nil {
		t.Fatal("signed in")
	}
	at := &server{}
	at.Issuer = f.issuer
	if known, err := (&flow{store: s, at: at}).registration(t.Context()); known != nil || err != nil {
		t.Errorf("%+v, %v", known, err)
	}
}

func TestRegistration_SecretAndScopes(t *testing.T) {
	f, s := newFake(t), testStore(t)
	f.asPath["/register"] = func(w http.ResponseWriter, r *http.Request) {
		var m map[string]any
		json.NewDecoder(r.Body).Decode(&m)
		f.registrations = append(f.registrations, m)
		if m["scope"] != nil {
			refuse(400, "invalid_client_metadata", "scope")(w, r)
			return
		}
		writeJSON(w, 201, map[string]any{"client_id": "confidential", "client_secret": f.secret("client"), "client_secret_expires_at": time.Now().Add(2 * time.Hour).Unix(), "token_endpoint_auth_method": "client_secret_basic"})
	}
	f.mustSignIn(s)
	if len(f.registrations) != 2 || !strings.HasPrefix(f.auth[0], "Basic ") {
		t.Errorf("%v %v", f.registrations, f.auth)
	}
	f.mustSignIn(s)
	if len(f.registrations) != 2 {
		t.Error("it registered again")
	}
	s.now = func() time.Time { return time.Now().Add(90 * time.Minute) } // the secret ends soon
	f.mustSignIn(s)
	if len(f.registrations) != 4 {
		t.Error("it went on with a secret that ends")
	}
}
