package runcmd

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/toolset"
	"github.com/toolhaven/toolhaven/internal/workload"
)

func TestDecodeExport_ToolHive(t *testing.T) {
	good := `{"schema_version":"v0.1.0","name":"fetch","image":"ghcr.io/x/fetch:1","cmd_args":["-v"],"transport":"streamable-http",
	"host":"127.0.0.1","port":12345,"target_port":8080,"env_vars":{"A":"1","MCP_PORT":"8080"},"proxy_mode":"streamable-http","group":"default",
	"container_labels":{"toolhive":"true","team":"x"},"permission_profile":{"network":{"outbound":{"insecure_allow_all":true}}},
	"oidc_config":null,"isolate_network":false,"middleware_configs":[{"type":"x"}]}`
	s, _, err := decodeExport([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if err := workload.Validate(s); err != nil {
		t.Error(err)
	}
	tools, _, err := decodeExport([]byte(strings.Replace(good, `"oidc_config":null`, `"tools_filter":["plus"],"tools_override":{"add":{"name":"plus","description":"adds"}}`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	want := workload.Tools{Filter: []string{"plus"}, Override: map[string]toolset.Override{"add": {Name: "plus", Description: "adds"}}}
	if diff := cmp.Diff(want, tools.Tools); diff != "" {
		t.Error(diff)
	}
	if s.Proxy.Port != 12345 || s.TargetPort != 8080 || s.Env["A"] != "1" || s.Env["MCP_PORT"] != "" || s.Container.Labels["team"] != "x" || len(s.Container.Labels) != 1 {
		t.Errorf("%+v", s)
	}
	notices := func() string {
		_, n, err := decodeExport([]byte(strings.Replace(good, `"oidc_config":null`, `"volumes":["`+t.TempDir()+`:/a"],"ignore_config":{"LoadGlobal":true},"secrets":["gh,target=GITHUB_TOKEN"]`, 1)))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(n, "\n")
	}()
	if !strings.Contains(notices, "middleware_configs are not used (x)") {
		t.Errorf("notices: %s", notices)
	}
	isolated, _, err := decodeExport([]byte(strings.Replace(good, `"isolate_network":false`, `"isolate_network":true,"allow_docker_gateway":true`, 1)))
	if err != nil || !isolated.Container.IsolateNetwork || !isolated.Container.AllowDockerGateway {
		t.Errorf("isolated: %+v, %v", isolated, err)
	}
	for change, want := range map[string]string{
		`"allowed_origins":["x"]`: "does not have the features of allowed_origins", `"tools_filtr":["a"]`: `line 4: unknown key "tools_filtr"; did you mean "tools_filter"?`,
		`"secrets":["x"]`: "target=VARIABLE", `"publish":["x"]`: "not a port",
	} {
		_, _, err := decodeExport([]byte(strings.Replace(good, `"oidc_config":null,"isolate_network":false`, change, 1)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", change, err)
		}
	}
	bad := strings.Replace(good, `"oidc_config":null`, `"rate_limit_config":{"a":1},"scaling_config":{"a":1}`, 1)
	if _, _, err := decodeExport([]byte(bad)); err == nil || !strings.Contains(err.Error(), "rate_limit_config, scaling_config") {
		t.Errorf("got %v", err)
	}
	if _, _, err := decodeExport([]byte(strings.Replace(good, "v0.1.0", "v9", 1))); err == nil {
		t.Error("another version was read")
	}
}

func TestDecodeExport_ToolHiveRemote(t *testing.T) {
	file := func(more string) string {
		return `{"schema_version":"v0.1.0","name":"linear","remote_url":"https://mcp.example/mcp","transport":"streamable-http","port":12345,` + more + `}`
	}
	resource := "https://mcp.example/"
	for name, c := range map[string]struct {
		more   string
		remote *workload.Remote
		x      *workload.TokenExchange
	}{
		"a login": {
			`"remote_auth_config":{"client_id":"c","client_secret":"LINEAR_SECRET,target=oauth_secret","scopes":["read"],"skip_browser":true,"timeout":60000000000,"callback_port":9000,
			"use_pkce":true,"resource":"https://mcp.example/","issuer":"https://as.example","scope_param_name":"user_scope","cached_refresh_token_ref":"x","cached_token_expiry":"2026-01-01T00:00:00Z"}`,
			&workload.Remote{URL: "https://mcp.example/mcp", Auth: &workload.RemoteAuth{
				ClientID: "c", ClientSecret: "workload/linear/remote-auth-client-secret", Scopes: []string{"read"}, SkipBrowser: true,
				Timeout: workload.Duration(time.Minute), CallbackPort: 9000, Resource: &resource, Issuer: "https://as.example", ScopeParam: "user_scope",
			}}, nil,
		},
		"nothing but defaults": {
			`"remote_auth_config":{"use_pkce":true,"callback_port":8666,"timeout":30000000000}`,
			&workload.Remote{URL: "https://mcp.example/mcp", Auth: &workload.RemoteAuth{Timeout: workload.Duration(30 * time.Second)}}, nil,
		},
		"a bearer token": {
			`"remote_auth_config":{"use_pkce":true,"bearer_token":"tok"}`,
			&workload.Remote{URL: "https://mcp.example/mcp", BearerToken: "tok"}, nil,
		},
		"headers": {
			`"header_forward":{"add_plaintext_headers":{"X-Team":"a"},"add_headers_from_secret":{"X-Api-Key":"key"}}`,
			&workload.Remote{URL: "https://mcp.example/mcp", Headers: map[string]string{"X-Team": "a"}, SecretHeaders: map[string]string{"X-Api-Key": "workload/linear/X_API_KEY"}}, nil,
		},
		"a token exchange": {
			`"oidc_config":{"Issuer":"https://as.example","Audience":"a"},"token_exchange_config":{"token_url":"https://as.example/token","client_id":"c","client_secret":"s","audience":"b","scopes":["x"],
			"subject_token_type":"urn:ietf:params:oauth:token-type:id_token","header_strategy":"custom","external_token_header_name":"X-Token"}`,
			&workload.Remote{URL: "https://mcp.example/mcp"},
			&workload.TokenExchange{URL: "https://as.example/token", ClientID: "c", ClientSecret: "s", Audience: "b", Scopes: []string{"x"}, SubjectTokenType: "id_token", HeaderName: "X-Token"},
		},
	} {
		s, _, err := decodeExport([]byte(file(c.more)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(c.remote, s.Remote) + cmp.Diff(c.x, s.TokenExchange); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		d := &draft{spec: s, secrets: map[string]string{}}
		d.hideSecrets()
		if err := workload.Validate(s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, value := range []string{"tok", "s"} {
			if s.Remote.BearerToken == value || s.TokenExchange != nil && s.TokenExchange.ClientSecret == value {
				t.Errorf("%s: the secret %q is in the Spec", name, value)
			}
		}
	}
	for more, want := range map[string]string{
		`"remote_auth_config":{"oauth_params":{"a":"b"}}`:                                        "does not have the feature of oauth_params",
		`"remote_auth_config":{"clientid":"c"}`:                                                  `unknown key "clientid"; did you mean "client_id"?`,
		`"token_exchange_config":{"token_url":"https://a.example","subject_token_type":"saml2"}`: "an access token or an ID token",
		`"token_exchange_config":{"token_url":"https://a.example","header_strategy":"custom"}`:   "external_token_header_name is not set",
		`"token_exchange_config":{"token_url":"https://a.example","header_strategy":"prepend"}`:  "neither replace nor custom",
		`"remote_auth_config":{"timeout":"1m"}`:                                                  "timeout",
		`"aws_sts_config":{"region":"eu-west-1"}`:                                                "does not have the features of aws_sts_config",
	} {
		if _, _, err := decodeExport([]byte(file(more))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", more, err)
		}
	}
}
