package runflag

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLoadPolicy(t *testing.T) {
	const permit = `permit(principal, action, resource);`
	good := `{"version":"1.0","type":"cedarv1","cedar":{"policies":["` + permit + `"],"entities_json":"[]","group_claim_name":"g","multi_valued_claims":["m"]}}`
	for _, row := range []struct {
		name, file, content string
		want                string // "" is valid, else a part of the error
	}{
		{"JSON", "a.json", good, ""},
		{"JSON without an extension", "a", good, ""},
		{"YAML", "a.yaml", "version: \"1.0\"\ntype: cedarv1\ncedar:\n  policies:\n    - |\n      " + permit + "\n  group_claim_name: g\n", ""},
		{"an unknown key", "a.json", strings.Replace(good, "entities_json", "entitie_json", 1), `line 1: unknown key "entitie_json"; did you mean "entities_json"?`},
		{"an unknown key in YAML", "a.yml", "version: \"1.0\"\ntype: cedarv1\ncedar:\n  policie: []\n", "line 4"},
		{"a key twice in YAML", "a.yml", "version: \"1.0\"\nversion: \"1.0\"\n", "line 2"},
		{"not JSON", "a.json", "version: 1.0", "not valid JSON"},
		{"another version", "a.json", strings.Replace(good, "1.0", "2.0", 1), `version "2.0"`},
		{"another type", "a.json", strings.Replace(good, "cedarv1", "opa", 1), `type "opa"`},
		{"a decision point over HTTP", "a.json", `{"version":"1.0","type":"httpv1","pdp":{"http":{}}}`, "httpv1"},
		{"no policies", "a.json", `{"version":"1.0","type":"cedarv1","cedar":{"policies":[]}}`, "there is no policy"},
		{"no cedar", "a.json", `{"version":"1.0","type":"cedarv1"}`, "the key cedar is missing"},
		{"an upstream provider", "a.json", strings.Replace(good, `"group_claim_name":"g"`, `"primary_upstream_provider":"x"`, 1), "primary_upstream_provider"},
		{"a policy that does not parse", "a.json", strings.Replace(good, "permit(", "permit", 1), "policy 1: line 1:"},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), row.file)
			if err := os.WriteFile(path, []byte(row.content), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg, err := LoadPolicy(path)
			if row.want == "" {
				if err != nil || len(cfg.Policies) != 1 || cfg.GroupClaim != "g" {
					t.Errorf("%+v, %v", cfg, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got  %v\nwant %s", err, row.want)
			}
		})
	}
	if _, err := LoadPolicy(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing file is accepted")
	}
}
