package runcmd

import (
	"strings"
	"testing"

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
	if !strings.Contains(notices, ".thvignore") || !strings.Contains(notices, "middleware_configs are not used (x)") {
		t.Errorf("notices: %s", notices)
	}
	for change, want := range map[string]string{
		`"isolate_network":true`: "does not have the features of isolate_network", `"tools_filtr":["a"]`: `line 4: unknown key "tools_filtr"; did you mean "tools_filter"?`,
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
