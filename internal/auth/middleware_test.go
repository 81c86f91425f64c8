package auth

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

// protected starts a server with one route to read and one to write.
func protected(t *testing.T) (*issuer, *signer, *httptest.Server, *testLog) {
	t.Helper()
	p := newIssuer(t)
	s := newSigner(t, jose.ES256, "k1")
	p.publish(s)
	resource, err := NewResource(ResourceConfig{URL: "https://r.example/registry", Realm: `the "realm"`, AuthorizationServers: []string{p.URL}})
	if err != nil {
		t.Fatal(err)
	}
	v := newValidator(t, p.provider("main"))
	mux := http.NewServeMux()
	log := new(testLog)
	mux.Handle("/secret", Require(v, resource.Unauthorized, log.logger(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(From(r.Context()).Subject)
	})))
	mux.Handle("POST /secret", Require(v, resource.Unauthorized, log.logger(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !From(r.Context()).HasScope("write") {
			resource.Refuse(w, http.StatusForbidden, "insufficient_scope", "the access token lacks the scope write", "write")
		}
	})))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return p, s, server, log
}

func TestRequire(t *testing.T) {
	p, s, server, log := protected(t)
	good := s.sign(t, "", p.claims(nil))
	expired := s.sign(t, "", p.claims(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}))
	const metadata = `resource_metadata="https://r.example/.well-known/oauth-protected-resource/registry"`
	for _, c := range []struct {
		rule, name string
		method     string
		path       string
		headers    []string
		status     int
		code       string // of WWW-Authenticate; "" is none
	}{
		{"RFC 6750 3.1", "no credential", "GET", "/secret", nil, 401, ""},
		{"RFC 6750 2.1", "a good token", "GET", "/secret", []string{"Bearer " + good}, 200, ""},
		{"RFC 9110 11.1", "the scheme in lowercase", "GET", "/secret", []string{"bearer " + good}, 200, ""},
		{"RFC 9110 11.1", "the scheme in capitals", "GET", "/secret", []string{"BEARER " + good}, 200, ""},
		{"RFC 6750 3.1", "an expired token", "GET", "/secret", []string{"Bearer " + expired}, 401, "invalid_token"},
		{"decisions", "two blanks", "GET", "/secret", []string{"Bearer  " + good}, 401, "invalid_request"},
		{"decisions", "a tab", "GET", "/secret", []string{"Bearer\t" + good}, 401, ""},
		{"RFC 6750 2.1", "a quoted token", "GET", "/secret", []string{`Bearer "` + good + `"`}, 401, "invalid_request"},
		{"RFC 6750 2.1", "no token", "GET", "/secret", []string{"Bearer"}, 401, "invalid_request"},
		{"RFC 6750 2.1", "no blank", "GET", "/secret", []string{"Bearer" + good}, 401, ""},
		{"RFC 6750 3.1", "another scheme", "GET", "/secret", []string{"Basic abc"}, 401, ""},
		{"RFC 6750 3.1", "an empty header", "GET", "/secret", []string{""}, 401, ""},
		{"decisions", "two headers", "GET", "/secret", []string{"Bearer " + good, "Bearer " + good}, 401, "invalid_request"},
		{"decisions", "two headers, one of another scheme", "GET", "/secret", []string{"Basic abc", "Bearer " + good}, 401, "invalid_request"},
		{"RFC 6750 2.1", "words behind it", "GET", "/secret", []string{"Bearer " + good + " x"}, 401, "invalid_request"},
		{"RFC 6750 2.1", "two tokens with a comma", "GET", "/secret", []string{"Bearer " + good + ",Bearer " + good}, 401, "invalid_request"},
		{"RFC 6750 2.1", "letters of other scripts", "GET", "/secret", []string{"Bearer tökén"}, 401, "invalid_request"},
		{"bounds", "too long", "GET", "/secret", []string{"Bearer " + strings.Repeat("a", maxToken+1)}, 401, "invalid_request"},
		{"RFC 6750 2.3", "the token in the query", "GET", "/secret?access_token=" + good, nil, 401, ""},
		{"RFC 9110 9.3.2", "HEAD without a credential", "HEAD", "/secret", nil, 401, ""},
		{"RFC 9110 9.3.2", "HEAD with one", "HEAD", "/secret", []string{"Bearer " + good}, 200, ""},
		{"RFC 9110 9.3.7", "OPTIONS without a credential", "OPTIONS", "/secret", nil, 401, ""},
		{"RFC 9110 9.1", "a method of its own", "BREW", "/secret", nil, 401, ""},
		{"RFC 6750 3.1", "a token without the scope", "POST", "/secret", []string{"Bearer " + good}, 403, "insufficient_scope"},
		{"RFC 6750 3.1", "a token with the scope", "POST", "/secret", []string{"Bearer " + s.sign(t, "", p.claims(map[string]any{"scope": "a write"}))}, 200, ""},
		{"RFC 6750 3.1", "a scope that begins alike", "POST", "/secret", []string{"Bearer " + s.sign(t, "", p.claims(map[string]any{"scope": "write2 writ"}))}, 403, "insufficient_scope"},
		{"RFC 8693 4.2", "a scope that is an object", "POST", "/secret", []string{"Bearer " + s.sign(t, "", p.claims(map[string]any{"scope": map[string]any{"write": true}}))}, 403, "insufficient_scope"},
	} {
		t.Run(c.rule+"/"+c.name, func(t *testing.T) {
			req, err := http.NewRequest(c.method, server.URL+c.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header["Authorization"] = c.headers
			resp, err := client(t).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != c.status {
				t.Fatalf("status %d", resp.StatusCode)
			}
			if c.status == 200 {
				return
			}
			challenge := resp.Header.Get("WWW-Authenticate")
			if !strings.HasPrefix(challenge, `Bearer realm="the \"realm\"", `+metadata) {
				t.Errorf("challenge %s", challenge)
			}
			for _, parameter := range []string{"error=", "error_description="} {
				if has := strings.Contains(challenge, parameter); has != (c.code != "") {
					t.Errorf("challenge %s, want error %q", challenge, c.code)
				}
			}
			if c.code != "" && !strings.Contains(challenge, `error="`+c.code+`"`) {
				t.Errorf("challenge %s, want error %q", challenge, c.code)
			}
			if c.status == 403 && !strings.Contains(challenge, `scope="write"`) {
				t.Errorf("challenge %s names no scope", challenge)
			}
			if resp.Header.Get("Cache-Control") != "no-store" || resp.Header.Get("Content-Type") != "application/json" {
				t.Errorf("headers %v", resp.Header)
			}
			if c.method == "HEAD" {
				return
			}
			var body map[string]string
			if err := json.NewDecoder(resp.Body).Decode(&body); err != nil || len(body) != 2 || body["error"] == "" || body["error_description"] == "" {
				t.Errorf("body %v, %v", body, err)
			}
			for _, h := range c.headers {
				if _, token, _ := strings.Cut(h, " "); len(token) > 2 && strings.Contains(challenge+body["error_description"], token) {
					t.Error("the token is repeated")
				}
			}
		})
	}
	logged := log.String()
	if !strings.Contains(logged, "has expired") {
		t.Errorf("the cause is not in the log: %s", logged)
	}
	for _, token := range []string{good, expired} {
		for _, part := range strings.Split(token, ".") {
			if strings.Contains(logged, part) {
				t.Errorf("a part of a token is in the log: %s", logged)
			}
		}
	}
}

// The log line of a refusal is bounded, also with fifty providers.
func TestRejection_Reasons(t *testing.T) {
	var attempts []Attempt
	for i := range 50 {
		attempts = append(attempts, Attempt{Provider: fmt.Sprint("p", i), Reason: "skipped: the token names another issuer", Skipped: true})
	}
	attempts[30] = Attempt{Provider: "p30", Reason: "it has expired"}
	attempts[40] = Attempt{Provider: "p40", Reason: strings.Repeat("the answer is long ", 1000)}
	got := (&Rejection{Attempts: attempts}).Reasons()
	if len(got) != maxReasons+1 || got[maxReasons] != "and 45 more" {
		t.Fatalf("it says %q", got)
	}
	for i, start := range []string{"p30: it has expired", "p40: the answer", "p0: skipped", "p1: skipped", "p2: skipped"} {
		if !strings.HasPrefix(got[i], start) || len(got[i]) > maxReason+len("...") {
			t.Errorf("reason %d is %d bytes: %.80s", i, len(got[i]), got[i])
		}
	}
	if got := (&Rejection{Attempts: attempts[:maxReasons]}).Reasons(); len(got) != maxReasons {
		t.Errorf("%d reasons of %d", len(got), maxReasons)
	}
	if got := (&Rejection{}).Reasons(); len(got) != 0 {
		t.Errorf("no reasons are %q", got)
	}
}
