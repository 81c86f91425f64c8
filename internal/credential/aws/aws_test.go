package aws

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/credential"
	"github.com/toolhaven/toolhaven/internal/credential/aws/awstest"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

var scope = awstest.Scope{Region: "eu-central-1", Service: "aws-mcp"}

// world is an STS, and a service that accepts the credentials of it.
type world struct {
	*awstest.STS
	sts, service *httptest.Server
	log          bytes.Buffer
	c            *Credential
	clock        time.Time
	mu           sync.Mutex

	received []*http.Request
	bodies   []string
}

func newWorld(t testing.TB, spec externalauth.AWSSTS, change func(*Config)) *world {
	t.Helper()
	w := &world{STS: awstest.NewSTS(), clock: time.Now()}
	w.Now = w.now
	w.sts = httptest.NewServer(w.STS)
	t.Cleanup(w.sts.Close)
	w.service = httptest.NewServer(w.Guard(scope, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.received, w.bodies = append(w.received, r), append(w.bodies, string(body))
	})))
	t.Cleanup(w.service.Close)
	spec.Region = "eu-central-1"
	cfg := Config{Spec: &spec, Endpoint: w.sts.URL, Log: slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	if change != nil {
		change(&cfg)
	}
	var err error
	if w.c, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	w.c.now = w.now
	return w
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clock
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock = w.clock.Add(d)
}

// send sends a request by rt.
func (w *world) send(ctx context.Context, method, path, body string, header http.Header, credentials ...credential.Credential) (*http.Response, error) {
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, method, w.service.URL+path, reader)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		r.Header[name] = values
	}
	resp, err := credential.Transport(http.DefaultTransport, append(credentials, w.c)...).RoundTrip(r)
	if err == nil {
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("%d %s", resp.StatusCode, text)
		}
	}
	return resp, err
}

func (w *world) post(ctx context.Context) error {
	_, err := w.send(ctx, http.MethodPost, "/mcp", "body", nil)
	return err
}

func caller(ctx context.Context, token string, claims map[string]any) context.Context {
	return exchange.WithCaller(ctx, &exchange.Caller{Principal: "p", Token: exchange.NewToken(token), Claims: claims})
}

func jo(ctx context.Context) context.Context {
	return caller(ctx, "jos-token", map[string]any{"sub": "jo|1", "groups": []any{"admins"}})
}

func status(err error) int {
	var rpc *mcp.Error
	if errors.As(err, &rpc) {
		return rpc.Status
	}
	return 0
}

var byGroup = externalauth.AWSSTS{RoleMappings: []externalauth.RoleMapping{{RoleARN: arn("admin"), Claim: "admins"}}}

// The request to STS (AWS STS API reference, AssumeRoleWithWebIdentity), and the service
// receives the request as the role of the caller.
func TestCredential_AssumesRole(t *testing.T) {
	t.Parallel()
	spec := byGroup
	duration := int32(900)
	spec.SessionDuration = &duration
	w := newWorld(t, spec, nil)
	if err := w.post(jo(t.Context())); err != nil {
		t.Fatal(err)
	}
	form := w.Requests()[0]
	for name, want := range map[string]string{"RoleArn": arn("admin"), "RoleSessionName": "jo-1", "WebIdentityToken": "jos-token", "DurationSeconds": "900"} {
		if form.Get(name) != want {
			t.Errorf("%s is %q", name, form.Get(name))
		}
	}
	r := w.received[0]
	if r.Header.Get("X-Role") != arn("admin") || r.Header.Get("X-Session") != "jo-1" || w.bodies[0] != "body" {
		t.Errorf("%v, %q", r.Header, w.bodies)
	}
	for name, values := range r.Header {
		if strings.Contains(strings.Join(values, ""), "jos-token") {
			t.Errorf("the service receives the caller's token in %s", name)
		}
	}
}

// Signatures of requests of all shapes are accepted by a verifier of its own.
func TestCredential_Signature(t *testing.T) {
	t.Parallel()
	w := newWorld(t, byGroup, nil)
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/mcp", "{}"},
		{"POST", "", "{}"},
		{"GET", "/mcp", ""},
		{"DELETE", "/mcp", ""},
		{"POST", "/mcp?b=2&a=1&a=0&c=%20x%2By&d", "{}"},
		{"POST", "/runtimes/arn%3Aaws%3Abedrock-agentcore%3Aeu-central-1%3A123456789012%3Aruntime%2Fx/invocations?qualifier=DEFAULT", "{}"},
		{"POST", "/a%20b/%C3%BC/~x/", "{}"},
		{"POST", "/mcp", strings.Repeat("ü", 1<<20)},
	} {
		header := http.Header{
			"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Session-Id": {"  a   b "}, "User-Agent": {"x"},
			"X-Many": {"b", "a"},
		}
		if _, err := w.send(jo(t.Context()), c.method, c.path, c.body, header, credential.Headers{"X-Api-Key": {"k"}}); err != nil {
			t.Errorf("%s %s: %v", c.method, c.path, err)
			continue
		}
		if n := len(w.bodies); w.bodies[n-1] != c.body {
			t.Errorf("%s: the body differs", c.path)
		}
	}
	if n := len(w.Requests()); n != 1 {
		t.Errorf("%d requests for credentials", n)
	}
}

// An Authorization header that was set before is replaced, and so are the headers of an
// earlier signature.
func TestCredential_Replaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t, byGroup, nil)
	header := http.Header{"Authorization": {"Bearer other"}, "X-Amz-Security-Token": {"other"}, "X-Amz-Date": {"20150830T123600Z"}}
	if _, err := w.send(jo(t.Context()), "POST", "/mcp", "{}", header); err != nil {
		t.Fatal(err)
	}
	if got := w.received[0].Header.Get("Authorization"); !strings.HasPrefix(got, "AWS4-HMAC-SHA256 ") {
		t.Error(got)
	}
}

// Credentials are requested once for concurrent requests, kept until shortly before they
// expire, and are each caller's own.
func TestCredential_Kept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, byGroup, nil)
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if err := w.post(jo(t.Context())); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	for _, step := range []struct {
		after    time.Duration
		requests int
	}{{0, 1}, {54 * time.Minute, 1}, {time.Minute, 2}, {0, 2}} {
		w.pass(step.after)
		if err := w.post(jo(t.Context())); err != nil || len(w.Requests()) != step.requests {
			t.Errorf("after %s: %v, %d requests", step.after, err, len(w.Requests()))
		}
	}
	for _, other := range []context.Context{
		caller(t.Context(), "other-token", map[string]any{"sub": "jo|1", "groups": []any{"admins"}}),
		caller(t.Context(), "jos-token", map[string]any{"sub": "other", "groups": []any{"admins"}}),
	} {
		before := len(w.Requests())
		if err := w.post(other); err != nil || len(w.Requests()) != before+1 {
			t.Errorf("another caller: %v, %d requests", err, len(w.Requests()))
		}
	}
}

// What the caller receives when there are no credentials. Nothing is sent to the service, and
// no token is in an error or a log line.
func TestCredential_Fails(t *testing.T) {
	t.Parallel()
	admin := map[string]any{"sub": "jo", "groups": []any{"admins"}}
	for name, c := range map[string]struct {
		ctx    context.Context
		code   string // of STS
		status int    // of STS
		want   int
	}{
		"no caller":                     {t.Context(), "", 0, 401},
		"no token":                      {caller(t.Context(), "", admin), "", 0, 401},
		"no role":                       {caller(t.Context(), "jos-token", map[string]any{"sub": "jo"}), "", 0, 403},
		"no session name":               {caller(t.Context(), "jos-token", map[string]any{"groups": []any{"admins"}}), "", 0, 401},
		"a token that is too long":      {caller(t.Context(), strings.Repeat("a", 20001), admin), "", 0, 401},
		"the token has expired":         {jo(t.Context()), "ExpiredTokenException", 400, 401},
		"the token is invalid":          {jo(t.Context()), "InvalidIdentityToken", 400, 401},
		"the claims are rejected":       {jo(t.Context()), "IDPRejectedClaim", 403, 401},
		"the role is refused":           {jo(t.Context()), "AccessDenied", 403, 403},
		"the identity provider is away": {jo(t.Context()), "IDPCommunicationError", 400, 503},
		"the region is disabled":        {jo(t.Context()), "RegionDisabledException", 403, 503},
		"a fault of the request":        {jo(t.Context()), "ValidationError", 400, 503},
		"an outage":                     {jo(t.Context()), "InternalFailure", 500, 503},
		"the code has the token":        {jo(t.Context()), "jos-token", 400, 503},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, byGroup, nil)
			w.Refuse = func(url.Values) (int, string) { return c.status, c.code }
			for range 2 { // the second time the outcome is kept
				err := w.post(c.ctx)
				if status(err) != c.want || strings.Contains(fmt.Sprint(err), "jos-token") {
					t.Errorf("%#v", err)
				}
			}
			if len(w.received) != 0 || strings.Contains(w.log.String(), "jos-token") || c.code == "" && len(w.Requests()) != 0 || len(w.Requests()) > 2 {
				t.Errorf("%d requests to STS, %d to the service, log:\n%s", len(w.Requests()), len(w.received), w.log.String())
			}
		})
	}
}

// An STS that cannot be reached, or whose answer cannot be used, is an outage.
func TestCredential_Outage(t *testing.T) {
	t.Parallel()
	const format = `<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>%s</AccessKeyId><SecretAccessKey>%s</SecretAccessKey>` +
		`<SessionToken>%s</SessionToken><Expiration>%s</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`
	later := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	for name, answer := range map[string]string{
		"closed":             "",
		"HTML":               `<html>jos-token</html>`,
		"no credentials":     `<AssumeRoleWithWebIdentityResponse></AssumeRoleWithWebIdentityResponse>`,
		"no key":             fmt.Sprintf(format, "", "s", "t", later),
		"no token":           fmt.Sprintf(format, "a", "s", "", later),
		"expired":            fmt.Sprintf(format, "a", "s", "t", "2015-08-30T12:36:00Z"),
		"no expiry":          fmt.Sprintf(format, "a", "s", "t", ""),
		"a token of 2 lines": fmt.Sprintf(format, "a", "s", "t&#10;x", later),
		"endless":            `<A>` + strings.Repeat(" ", 64<<20),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, byGroup, nil)
			w.sts.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, answer) })
			if name == "closed" {
				w.sts.Close()
			}
			if err := w.post(jo(t.Context())); status(err) != 503 || strings.Contains(fmt.Sprint(err)+w.log.String(), "jos-token") {
				t.Errorf("%v\n%s", err, w.log.String())
			}
			if len(w.received) != 0 {
				t.Error("a request was sent")
			}
		})
	}
}

// Credentials that the service rejects as such are requested anew, once, if they are not new.
// A role without permission is no reason to request others.
func TestCredential_Rejected(t *testing.T) {
	t.Parallel()
	w := newWorld(t, byGroup, nil)
	if err := w.post(jo(t.Context())); err != nil {
		t.Fatal(err)
	}
	w.c.now = func() time.Time { return w.now().Add(refusedTime) }
	w.Now = func() time.Time { return w.now().Add(2 * time.Hour) } // the service's clock
	if err := w.post(jo(t.Context())); err == nil || len(w.Requests()) != 2 {
		t.Errorf("%v, %d requests", err, len(w.Requests()))
	}
	w.Now = w.now
	if err := w.post(jo(t.Context())); err != nil || len(w.Requests()) != 2 {
		t.Errorf("%v, %d requests", err, len(w.Requests()))
	}
	denied := &http.Response{StatusCode: 403, Header: http.Header{"X-Amzn-Errortype": {"AccessDeniedException:http://x"}}}
	if again, err := w.c.Renew(jo(t.Context()), http.Header{}, denied); again || err != nil {
		t.Errorf("%v, %v", again, err)
	}
}

// A request of the gateway's own is not signed.
func TestCredential_Anonymous(t *testing.T) {
	t.Parallel()
	w := newWorld(t, byGroup, nil)
	if _, err := w.send(credential.Anonymous(t.Context()), "POST", "/mcp", "{}", nil); err == nil || !strings.Contains(err.Error(), "not signed") || len(w.Requests()) != 0 {
		t.Errorf("%v", err)
	}
}

type upstream struct{ token string }

func (u upstream) Token(context.Context, string) (access, id string, err error) {
	return u.token, "id", nil
}
func (u upstream) Renew(context.Context, string, string) (string, error) { return u.token, nil }

// With a provider its access token is the web identity.
func TestCredential_Provider(t *testing.T) {
	t.Parallel()
	spec := byGroup
	spec.SubjectProviderName = "okta"
	w := newWorld(t, spec, func(cfg *Config) { cfg.Upstream = upstream{"theirs"} })
	if err := w.post(jo(t.Context())); err != nil || w.Requests()[0].Get("WebIdentityToken") != "theirs" {
		t.Errorf("%v, %v", err, w.Requests())
	}
}

// The endpoint is that of the region and its partition.
func TestCredential_Endpoint(t *testing.T) {
	t.Parallel()
	for region, want := range map[string]string{
		"eu-central-1": "sts.eu-central-1.amazonaws.com", "us-east-1": "sts.us-east-1.amazonaws.com",
		"cn-north-1": "sts.cn-north-1.amazonaws.com.cn", "us-gov-west-1": "sts.us-gov-west-1.amazonaws.com",
	} {
		spec := byGroup
		spec.Region = region
		c, err := New(Config{Spec: &spec})
		if err != nil {
			t.Fatal(err)
		}
		var host string
		c.sts = c.sts.with(httpClient(func(r *http.Request) (*http.Response, error) {
			host = r.URL.Scheme + "://" + r.URL.Host
			return nil, errors.New("not sent")
		}))
		_ = c.Sign(httptest.NewRequestWithContext(jo(t.Context()), http.MethodPost, "https://service.example/mcp", nil))
		if host != "https://"+want {
			t.Errorf("%s: %s", region, host)
		}
	}
}

type httpClient func(*http.Request) (*http.Response, error)

func (f httpClient) Do(r *http.Request) (*http.Response, error) { return f(r) }

func TestNew_Faults(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Config){
		"HTTPS":                       func(c *Config) { c.Endpoint = "http://sts.example" },
		"no upstream provider okta":   func(c *Config) { c.Spec.SubjectProviderName = "okta" },
		"CA certificate":              func(c *Config) { c.CAFiles = []string{"missing.pem"} },
		"spec.awsSts.roleMappings[0]": func(c *Config) { c.Spec.RoleMappings = []externalauth.RoleMapping{{RoleARN: arn("a"), Matcher: "("}} },
	} {
		spec := byGroup
		spec.Region = "eu-central-1"
		cfg := Config{Spec: &spec}
		change(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func BenchmarkCredential_Kept(b *testing.B) {
	w := newWorld(b, byGroup, nil)
	ctx := caller(b.Context(), strings.Repeat("a", 1500), map[string]any{"sub": "jo", "groups": []any{"staff", "admins"}})
	body := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"message":"` + strings.Repeat("x", 200) + `"}}}`)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://service.example/mcp", bytes.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for b.Loop() {
		if err := w.c.Sign(r); err != nil {
			b.Fatal(err)
		}
	}
}

var legalSession = regexp.MustCompile(`^[A-Za-z0-9_+=,.@-]{2,64}$`)

// Whatever a claim is, the session name is legal or there is none.
func FuzzSessionName(f *testing.F) {
	for _, seed := range []string{"jo", "auth0|1", "", "a", "日本", "\x00\xff", strings.Repeat("x", 100)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		got, err := sessionName("sub", map[string]any{"sub": value})
		if (err != nil) != (value == "") {
			t.Fatalf("%q: %v", value, err)
		}
		if err == nil && !legalSession.MatchString(got) {
			t.Fatalf("%q becomes %q", value, got)
		}
	})
}

// Whatever the claims are, roles are chosen without a panic, and only by a match.
func FuzzRoles(f *testing.F) {
	roles := compile(f, &externalauth.AWSSTS{RoleMappings: []externalauth.RoleMapping{
		{RoleARN: arn("a"), Claim: "admins"},
		{RoleARN: arn("b"), Matcher: `claims.groups.exists(g, g == "x" || g > 5) && claims.a.b[0] != claims.c`},
		{RoleARN: arn("c"), Matcher: `claims.email.matches("^.*@example.com$") || claims.level >= 3`},
	}})
	for _, seed := range []string{`{"groups":["admins"]}`, `{"groups":["x",7],"a":{"b":[1e999]},"c":null}`, `{"email":"a@example.com"}`, `{"level":1e400}`, `{"level":-0}`, `{}`, `null`, `[1]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		var claims map[string]any
		if d.Decode(&claims) != nil {
			return
		}
		role := roles.Choose(claims)
		for _, e := range roles.explain(claims) {
			if e.Matched {
				if role != e.Mapping.RoleARN {
					t.Fatalf("%s: %s, but %s matches", text, role, e.Mapping.RoleARN)
				}
				return
			}
		}
		if role != "" {
			t.Fatalf("%s: %s without a match", text, role)
		}
	})
}
