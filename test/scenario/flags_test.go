//go:build integration

package scenario

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// flagProof shows for a flag of run that it is not ignored.
type flagProof struct {
	// args set the flag. WORK stands for a directory with the files of proofFiles.
	args string
	// remote: the workload is a server at a URL; else it is a container.
	remote bool
	// seen is the script, or the file and a text in it, such as the name of a test, in which a
	// client, the server, the container or a log sees the effect.
	seen string
}

var proofFiles = map[string]string{
	"env":           "A=1\n",
	"dir/env":       "B=2\n",
	"profile.json":  `{"name":"own","network":{"outbound":{"insecure_allow_all":true}}}`,
	"override.json": `{"toolsOverride":{"echo":{"name":"say"}}}`,
	"audit.json":    `{"includeRequestData":true}`,
	"authz.json":    `{"version":"1.0","type":"cedarv1","cedar":{"policies":["permit(principal, action, resource);"]}}`,
	"hooks.json":    `{"validating":[{"name":"a","url":"https://127.0.0.1:1/","failure_policy":"ignore"}]}`,
	"config.json":   "", // an export, written by the test
	"token":         "t\n",
	"secrets":       "proof=hidden\n", // imported by the test
}

const (
	otel        = "--otel-endpoint http://127.0.0.1:1 "
	oidc        = "--oidc-issuer http://127.0.0.1:1 --oidc-audience a "
	endpoints   = "--remote-auth-authorize-url http://127.0.0.1:1/a --remote-auth-token-url http://127.0.0.1:1/t --remote-auth-client-id c "
	exchangeURL = oidc + "--token-exchange-url http://127.0.0.1:1/token "
)

// proofSecret is the value of flags that take a secret.
const proofSecret = "s3cr3t-of-the-proof"

// flagProofs has a row for each flag of the specification's table.
var flagProofs = map[string]flagProof{
	"--name":                                {"--name other", true, "bad-name.txtar"},
	"--group":                               {"--group work", true, "lifecycle.txtar"},
	"--foreground":                          {"", false, "foreground.txtar run -f"}, // of the command, not of the workload
	"--from-config":                         {"", false, "run-config.txtar"},        // as above
	"--env":                                 {"-e A=1", false, "flags.txtar"},
	"--secret":                              {"--secret proof,target=TOKEN", false, "secrets.txtar"},
	"--env-file":                            {"--env-file WORK/env", false, "flags.txtar"},
	"--env-file-dir":                        {"--env-file-dir WORK/dir", false, "flags.txtar"},
	"--label":                               {"-l a=b", false, "flags.txtar"},
	"--volume":                              {"-v WORK:/work:ro", false, "run-npx.txtar"},
	"--ignore-globally":                     {"--ignore-globally=false", false, "ignore.txtar"},
	"--print-resolved-overlays":             {"", false, "ignore.txtar"}, // of the command
	"--publish":                             {"-p 28799:9000", false, "flags.txtar"},
	"--network":                             {"--network none", false, "flags.txtar"},
	"--isolate-network":                     {"--isolate-network", false, "isolate.txtar"},
	"--allow-docker-gateway":                {"--isolate-network --allow-docker-gateway", false, "isolate.txtar"},
	"--permission-profile":                  {"--permission-profile WORK/profile.json", false, "flags.txtar"},
	"--ca-cert":                             {"", false, "internal/build/private_test.go TestAPrivateRegistryBehindAPrivateAuthority"}, // of the build
	"--runtime-image":                       {"", false, "run-npx.txtar"},                                                              // of the build
	"--runtime-add-package":                 {"", false, "internal/build/integration_test.go TestAGoPackageWithPackagesBesideIt"},
	"--image-verification":                  {"--image-verification enabled", false, "image-verification.txtar"},
	"--tools":                               {"--tools echo", true, "tools.txtar"},
	"--tools-override":                      {"--tools-override WORK/override.json", true, "tools.txtar"},
	"--audit-config":                        {"--audit-config WORK/audit.json", true, "audit.txtar"},
	"--enable-audit":                        {"--enable-audit", true, "audit.txtar"},
	"--authz-config":                        {"--authz-config WORK/authz.json", true, "policy.txtar"},
	"--webhook-config":                      {"--webhook-config WORK/hooks.json", true, "webhooks.txtar"},
	"--transport":                           {"--transport streamable-http --target-port 8080 -- -http 127.0.0.1:8080", false, "flags.txtar"},
	"--proxy-mode":                          {"--proxy-mode sse", true, "flags.txtar"},
	"--host":                                {"--host 127.0.0.2", true, "flags.txtar"},
	"--proxy-port":                          {"--proxy-port 28798", true, "bad-port.txtar"},
	"--target-host":                         {"--target-host localhost --transport streamable-http --target-port 8080 -- -http 127.0.0.1:8080", false, "flags.txtar"},
	"--target-port":                         {"--transport streamable-http --target-port 8081 -- -http 127.0.0.1:8081", false, "flags.txtar"},
	"--endpoint-prefix":                     {"--endpoint-prefix /tools", true, "flags.txtar"},
	"--session-ttl":                         {"--session-ttl 30m", true, "run-config.txtar"},
	"--stateless":                           {"--stateless", true, "flags.txtar"},
	"--trust-proxy-headers":                 {"--trust-proxy-headers", true, "internal/gateway/authn/authn_test.go TestResource_IsTheURLOfTheClient"},
	"--thv-ca-bundle":                       {"--thv-ca-bundle WORK/ca.pem", true, "authn.txtar"},
	"--oidc-issuer":                         {"--oidc-issuer http://127.0.0.1:1 --oidc-audience a", true, "authn.txtar"},
	"--oidc-audience":                       {oidc, true, "authn.txtar"},
	"--oidc-client-id":                      {"--oidc-audience a --oidc-introspection-url http://127.0.0.1:1/i --oidc-client-id c", true, "authn.txtar"},
	"--oidc-client-secret":                  {"--oidc-audience a --oidc-introspection-url http://127.0.0.1:1/i --oidc-client-id c --oidc-client-secret " + proofSecret, true, "authn.txtar"},
	"--oidc-jwks-url":                       {oidc + "--oidc-jwks-url http://127.0.0.1:1/jwks", true, "internal/auth/outbound_test.go JWKSURL"},
	"--oidc-introspection-url":              {"--oidc-audience a --oidc-introspection-url http://127.0.0.1:1/i", true, "authn.txtar"},
	"--oidc-scopes":                         {oidc + "--oidc-scopes a,b", true, "authn.txtar"},
	"--oidc-insecure-allow-http":            {oidc + "--oidc-insecure-allow-http", true, "internal/gateway/authn_test.go TestAuthentication_PrivateAuthority"},
	"--jwks-allow-private-ip":               {oidc + "--jwks-allow-private-ip", true, "internal/gateway/authn_test.go TestAuthentication_PrivateAuthority"},
	"--jwks-auth-token-file":                {oidc + "--jwks-auth-token-file WORK/token", true, "internal/auth/outbound_test.go TestAuthTokenFile_Origins"},
	"--resource-url":                        {oidc + "--resource-url https://tools.example.com/mcp", true, "authn.txtar"},
	"--otel-endpoint":                       {"--otel-endpoint http://127.0.0.1:1", true, "telemetry.txtar"},
	"--otel-headers":                        {otel + "--otel-headers a=" + proofSecret, true, "telemetry.txtar"},
	"--otel-insecure":                       {otel + "--otel-insecure", true, "telemetry.txtar"},
	"--otel-service-name":                   {otel + "--otel-service-name x", true, "telemetry.txtar"},
	"--otel-sampling-rate":                  {otel + "--otel-sampling-rate 1", true, "telemetry.txtar"},
	"--otel-tracing-enabled":                {otel + "--otel-tracing-enabled=false", true, "telemetry.txtar"},
	"--otel-metrics-enabled":                {otel + "--otel-metrics-enabled=false", true, "telemetry.txtar"},
	"--otel-custom-attributes":              {otel + "--otel-custom-attributes a=b", true, "telemetry.txtar"},
	"--otel-env-vars":                       {otel + "--otel-env-vars STAGE", true, "telemetry.txtar"},
	"--otel-use-legacy-attributes":          {otel + "--otel-use-legacy-attributes=false", true, "telemetry.txtar"},
	"--otel-enable-prometheus-metrics-path": {"--otel-enable-prometheus-metrics-path", true, "telemetry.txtar"},
	"--remote-auth":                         {"", true, "remote-auth.txtar"}, // the server must offer a login
	"--remote-auth-issuer":                  {"--remote-auth-issuer http://127.0.0.1:1", true, "remote-auth.txtar"},
	"--remote-auth-authorize-url":           {endpoints, true, "remote-auth.txtar"},
	"--remote-auth-token-url":               {endpoints, true, "remote-auth.txtar"},
	"--remote-auth-client-id":               {"--remote-auth-client-id c", true, "remote-auth.txtar"},
	"--remote-auth-client-secret":           {"--remote-auth-client-id c --remote-auth-client-secret s", true, "remote-auth.txtar"},
	"--remote-auth-client-secret-file":      {"--remote-auth-client-id c --remote-auth-client-secret-file WORK/token", true, "remote-auth.txtar"},
	"--remote-auth-scopes":                  {"--remote-auth-scopes a,b", true, "remote-auth.txtar"},
	"--remote-auth-scope-param-name":        {"--remote-auth-scope-param-name user_scope", true, "remote-auth.txtar"},
	"--remote-auth-resource":                {"--remote-auth-resource https://x.example", true, "remote-auth.txtar"},
	"--remote-auth-callback-port":           {"--remote-auth-callback-port 8667", true, "remote-auth.txtar"},
	"--remote-auth-skip-browser":            {"--remote-auth-skip-browser", true, "remote-auth.txtar"},
	"--remote-auth-timeout":                 {"--remote-auth-timeout 1m", true, "remote-auth.txtar"},
	"--remote-auth-bearer-token":            {"--remote-auth-bearer-token t", true, "remote-auth.txtar"},
	"--remote-auth-bearer-token-file":       {"--remote-auth-bearer-token-file WORK/token", true, "remote-auth.txtar"},
	"--remote-forward-headers":              {"--remote-forward-headers X-A=b", true, "internal/credential/static_test.go TestHeadersAndBearer"},
	"--remote-forward-headers-secret":       {"--remote-forward-headers-secret X-A=proof", true, "remote-auth.txtar"},
	"--token-exchange-url":                  {exchangeURL, true, "token-exchange.txtar"},
	"--token-exchange-audience":             {exchangeURL + "--token-exchange-audience a", true, "token-exchange.txtar"},
	"--token-exchange-client-id":            {exchangeURL + "--token-exchange-client-id c", true, "token-exchange.txtar"},
	"--token-exchange-client-secret":        {exchangeURL + "--token-exchange-client-id c --token-exchange-client-secret s", true, "token-exchange.txtar"},
	"--token-exchange-client-secret-file":   {exchangeURL + "--token-exchange-client-id c --token-exchange-client-secret-file WORK/token", true, "token-exchange.txtar"},
	"--token-exchange-header-name":          {exchangeURL + "--token-exchange-header-name X-Token", true, "token-exchange.txtar"},
	"--token-exchange-scopes":               {exchangeURL + "--token-exchange-scopes a,b", true, "token-exchange.txtar"},
	"--token-exchange-subject-token-type":   {exchangeURL + "--token-exchange-subject-token-type id_token", true, "token-exchange.txtar"},
}

// Each flag of the specification's table changes the configuration of a workload, and a
// script or test shows what sees the change.
func TestFlagProof(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile(filepath.Join(repo(), "internal", "cli", "runcmd", "testdata", "run-flags.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPlace()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, trace := range p.leave() {
			t.Errorf("left behind: %s", trace)
		}
	})
	p.secrets.add(proofSecret)
	work := proofDir(t)
	addr, end, err := startProbe("-json")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	thv := func(args ...string) (string, string, error) {
		cmd := exec.Command(thvPath(), args...)
		cmd.Dir = work
		cmd.Env = append(os.Environ(), p.vars()...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		return string(out), stderr.String(), err
	}
	// run starts a workload, returns its export without the name, port and times, and
	// removes it.
	run := func(proof flagProof) string {
		args := []string{"run", "http://" + addr + "/mcp"}
		if !proof.remote {
			args[1] = "go://" + filepath.Join(repo(), "test", "servers", "probe")
		}
		given := strings.Fields(strings.ReplaceAll(proof.args, "WORK", work))
		name := "proof"
		if len(given) > 0 && given[0] == "--name" {
			name = given[1]
		} else {
			given = append([]string{"--name", name}, given...)
		}
		if _, stderr, err := thv(append(args, given...)...); err != nil {
			t.Errorf("%s: %v: %s", proof.args, err, stderr)
			return ""
		}
		export, stderr, err := thv("export", name)
		if err != nil {
			t.Errorf("%s: %v: %s", proof.args, err, stderr)
		}
		for _, leak := range p.leaks() {
			t.Errorf("%s: %s", proof.args, leak)
		}
		if _, stderr, err := thv("rm", name); err != nil {
			t.Errorf("%s: %v: %s", proof.args, err, stderr)
		}
		var spec map[string]any
		if err := json.Unmarshal([]byte(export), &spec); err != nil {
			t.Errorf("%s: %v", proof.args, err)
		}
		text, _ := json.Marshal(spec)
		return string(text)
	}
	if _, stderr, err := thv("group", "create", "work"); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	if _, stderr, err := thv("secret", "import", "secrets"); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	base := map[bool]string{true: run(flagProof{remote: true}), false: run(flagProof{})}
	for _, line := range strings.Split(strings.TrimSpace(string(table)), "\n")[1:] {
		flag := strings.Split(line, "\t")[1]
		proof, there := flagProofs[flag]
		if !there {
			t.Errorf("%s has no proof", flag)
			continue
		}
		if proof.args != "" && run(proof) == base[proof.remote] {
			t.Errorf("%s does not change the configuration", flag)
		}
		checkSeen(t, flag, proof)
	}
}

// checkSeen fails unless the script uses the flag, or the file has the test.
func checkSeen(t *testing.T, flag string, proof flagProof) {
	t.Helper()
	file, text, given := strings.Cut(proof.seen, " ")
	path, want := filepath.Join("testdata", file), []string{flag, " " + strings.Fields(proof.args + " -")[0] + " "}
	if strings.Contains(file, "/") {
		path = filepath.Join(repo(), file)
	}
	if given {
		want = []string{text}
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Errorf("%s: %v", flag, err)
		return
	}
	for _, text := range want {
		if bytes.Contains(content, []byte(text)) {
			return
		}
	}
	t.Errorf("%s: %s has none of %q", flag, proof.seen, want)
}

// proofDir is a directory with proofFiles.
func proofDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	authority, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"ca.pem": string(authority)}
	for name, content := range proofFiles {
		files[name] = content
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
