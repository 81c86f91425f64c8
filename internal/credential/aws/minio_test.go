//go:build integration && minio

package aws

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/credential"
	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/test/minio"
	"github.com/toolhaven/toolhaven/test/tokens"
)

// withoutRole is an STS before MinIO's that leaves the role out: MinIO's roles have ARNs of
// their own kind, and without one the token's claim policy determines the rights.
func withoutRole(t *testing.T, target string) string {
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		_ = p.In.ParseForm()
		form := p.In.PostForm
		form.Del("RoleArn")
		body := form.Encode()
		p.SetURL(u)
		p.Out.Body, p.Out.ContentLength = io.NopCloser(bytes.NewReader([]byte(body))), int64(len(body))
		p.Out.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}})
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// `make minio-test` runs it: a real STS verifies the caller's token at its issuer, and a real
// service verifies the signature with the credentials.
func TestMinIO(t *testing.T) {
	issuer := tokens.Start(t, minio.ClientID)
	service := minio.Start(t, issuer.URL)
	c, err := New(Config{Spec: &externalauth.AWSSTS{Region: "us-east-1", Service: "s3", FallbackRoleARN: arn("reader")}, Endpoint: withoutRole(t, service)})
	if err != nil {
		t.Fatal(err)
	}
	token := func(change map[string]any) string {
		claims := map[string]any{"policy": "consoleAdmin", "sub": "jo", "exp": time.Now().Add(time.Hour).Unix()}
		for name, v := range change {
			claims[name] = v
		}
		return issuer.Token(t, claims)
	}
	send := func(token, method, path, body string) (int, error) {
		t.Helper()
		r, err := http.NewRequestWithContext(caller(t.Context(), token, map[string]any{"sub": "jo"}), method, service+path, bytes.NewReader([]byte(body)))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := credential.Transport(http.DefaultTransport, c).RoundTrip(r)
		if err != nil {
			return status(err), err
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		if resp.StatusCode >= 300 {
			t.Logf("%s %s: %s: %s", method, path, resp.Status, text)
		}
		return resp.StatusCode, nil
	}
	admin, reader := token(nil), token(map[string]any{"policy": "readonly", "sub": "eve"})
	// MinIO's errors have codes of their own, so a refused token is 503 here, and 401 at AWS.
	const refused = http.StatusServiceUnavailable
	for _, row := range []struct {
		what, token, method, path, body string
		want                            int
	}{
		{"a bucket", admin, http.MethodPut, "/notes", "", 200},
		{"a body", admin, http.MethodPut, "/notes/a%20b/c", "the text", 200},
		{"a query", admin, http.MethodGet, "/notes?list-type=2&prefix=a%20b%2F&delimiter=%2F", "", 200},
		{"a person who may read", reader, http.MethodGet, "/notes/a%20b/c", "", 200},
		{"and not write", reader, http.MethodPut, "/notes/d", "x", 403},
		{"an expired token", token(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}), http.MethodGet, "/notes", "", refused},
		{"a token for another service", token(map[string]any{"aud": "another"}), http.MethodGet, "/notes", "", refused},
		{"a token of another key", tokens.Mint(t, tokens.NewKey(t, "k1"), issuer.Claims(map[string]any{"policy": "consoleAdmin"})), http.MethodGet, "/notes", "", refused},
	} {
		if got, err := send(row.token, row.method, row.path, row.body); got != row.want {
			t.Errorf("%s: %d, want %d: %v", row.what, got, row.want, err)
		}
	}
}
