package cli_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/clitest"
)

func resource(typ, spec string) string {
	return "apiVersion: toolhaven.dev/v1beta1\nkind: MCPExternalAuthConfig\nmetadata: {name: " + strings.ToLower(typ) + "}\nspec: {type: " + typ + ", " + spec + "}\n---\n"
}

// What the server receives by each type of resource.
func TestAuthExplain(t *testing.T) {
	t.Parallel()
	const arn = `"arn:aws:iam::123456789012:role/a"`
	files := map[string]string{
		"all.yaml": resource("headerInjection", "headerInjection: {headerName: X-Key, valueSecretRef: {name: a, key: k}}") +
			resource("bearerToken", "bearerToken: {tokenSecretRef: {name: a, key: t}}") +
			resource("tokenExchange", "tokenExchange: {tokenUrl: https://sts.example/token, audience: api, subjectProviderName: okta, externalTokenHeaderName: X-Token}") +
			resource("upstreamInject", "upstreamInject: {providerName: github}") +
			strings.Replace(resource("unauthenticated", ""), ", }", "}", 1) +
			resource("awsSts", "awsSts: {region: eu-central-1, roleMappings: [{claim: admins, roleArn: "+arn+"}]}"),
		"jo.json":   `{"sub":"jo","groups":["admins"]}`,
		"jo.jwt":    "eyJhbGciOiJSUzI1NiJ9." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"jo","groups":["admins"]}`)) + ".AA\n",
		"list.json": `["jo"]`,
		"two.json":  `{} {}`,
	}
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, claims := range []string{at("jo.json"), at("jo.jwt"), files["jo.json"]} {
		stdout, stderr, code := clitest.Run(t, clitest.App(t), "auth", "explain", at("all.yaml"), "--claims", claims)
		if code != base.ExitOK {
			t.Fatalf("%s: %s", claims, stderr)
		}
		for _, want := range []string{
			"headerinjection (headerInjection): the server receives the header X-Key with the secret a/k; this does not depend on claims.",
			"the secret a/t as the bearer token",
			"a token for api in the header X-Token, for which https://sts.example/token exchanges the token of the upstream provider okta",
			"the token of the upstream provider github as the bearer token",
			"unauthenticated (unauthenticated): the server receives no credential.",
			"session jo (claim sub)",
			"roleMappings[0] is the first that matched",
			"The claims were not verified.",
		} {
			if !strings.Contains(stdout, want) {
				t.Errorf("%s: %q is missing in:\n%s", claims, want, stdout)
			}
		}
	}
	for claims, want := range map[string]string{
		at("list.json"): "neither a JSON object nor a JWT", at("two.json"): "more than one", at("missing"): "--claims: open", `{"sub":`: "not a JSON object",
	} {
		if _, stderr, code := clitest.Run(t, clitest.App(t), "auth", "explain", at("all.yaml"), "--claims", claims); code != base.ExitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s", claims, code, stderr)
		}
	}
}
