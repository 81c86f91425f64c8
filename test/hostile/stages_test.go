//go:build hostile

package hostile

import (
	"encoding/pem"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/toolhaven/toolhaven/test/tokens"
)

// bearers are the tokens for gateways that require one, by URL.
var bearers sync.Map

// authorized sends the token for url with each request.
func authorized(url string, next http.RoundTripper) http.RoundTripper {
	token, ok := bearers.Load(url)
	if !ok {
		return next
	}
	return bearer{"Bearer " + token.(string), next}
}

type bearer struct {
	value string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", b.value)
	return b.next.RoundTrip(r)
}

// everyStage returns the flags that switch on every stage of a gateway so that it permits all
// requests with a token of the issuer.
func everyStage(t *testing.T, issuer tokens.Issuer) []string {
	t.Helper()
	dir := t.TempDir()
	hooks := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"allowed":true}`)
	}))
	t.Cleanup(hooks.Close)
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	authority := file("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hooks.Certificate().Raw})))
	return []string{
		"--oidc-issuer", issuer.URL, "--oidc-audience", issuer.Audience,
		"--tools-override", file("override.json", `{"toolsOverride":{"good":{"description":"is good"}}}`),
		// By default a tool is destructive (MCP, Schema, ToolAnnotations).
		"--authz-config", file("authz.json", `{"version":"1.0","type":"cedarv1","cedar":{"policies":["permit(principal == Client::\"jo\", action, resource) when { principal.claim_sub == \"jo\" };","forbid(principal, action, resource) when { !resource.destructiveHint };"]}}`),
		"--webhook-config", file("hooks.yaml", "validating:\n  - {name: all, url: "+hooks.URL+", failure_policy: fail, tls_config: {ca_bundle_path: "+authority+"}}\n"),
		"--audit-config", file("audit.json", `{"includeRequestData":true,"includeResponseData":true}`),
	}
}

// refuseAll sends every credential that must be refused to the built program, in both eras.
func refuseAll(t *testing.T, url string, issuer tokens.Issuer) {
	t.Helper()
	for _, row := range tokens.Refused(t, issuer, "http://127.0.0.1:1") {
		for _, modern := range []bool{false, true} {
			c := clientOf(t, url, modern)
			h := c.header("tools/list", "")
			maps.Copy(h, row.Header)
			resp, err := c.Send(t.Context(), http.MethodPost, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`), h)
			if err != nil {
				t.Fatalf("%s/%s: %v", row.Rule, row.Name, err)
			}
			challenge := resp.Header.Get("WWW-Authenticate")
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusUnauthorized || row.Code != "" && !strings.Contains(challenge, row.Code) {
				t.Errorf("%s/%s, modern client %v: %s %s", row.Rule, row.Name, modern, resp.Status, challenge)
			}
		}
	}
}
