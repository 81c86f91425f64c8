package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/telemetry"
	"github.com/toolhaven/toolhaven/internal/webhook"
)

func TestSecretRefs(t *testing.T) {
	t.Parallel()
	s := &Spec{
		Name: "w", SecretEnv: map[string]string{"A": "workload/w/A", "B": "secret/b"},
		Remote:    &Remote{SecretHeaders: map[string]string{"X": "secret/b", "Y": "secret/op://v/i/f"}},
		Auth:      &Auth{ClientSecret: "workload/w/oidc-client-secret"},
		Telemetry: &telemetry.Config{Headers: map[string]string{"api-key": "workload/w/otel-header-api-key"}},
		Webhooks: &webhook.Config{
			Validating: []webhook.Hook{{HMACSecretRef: "/run/key"}, {HMACSecretRef: "hook"}, {}},
		},
	}
	want := []string{"secret/b", "secret/hook", "secret/op://v/i/f", "workload/w/A", "workload/w/oidc-client-secret", "workload/w/otel-header-api-key"}
	if diff := cmp.Diff(want, s.SecretRefs()); diff != "" {
		t.Error(diff)
	}
	if refs := (&Spec{}).SecretRefs(); len(refs) > 0 {
		t.Error(refs)
	}
}

func TestCheckSecretRefs(t *testing.T) {
	t.Parallel()
	s := &Spec{Name: "w"}
	if err := checkSecretRefs(s, map[string]string{"A": "workload/w/A", "B": "secret/github", "C": "secret/team/x#y"}); err != nil {
		t.Error(err)
	}
	for _, ref := range []string{"", "github", "workload/w2/A", "oauth/0a", "user/github", "secret/", "secret/a,b", "secret/../user/a"} {
		if checkSecretRefs(s, map[string]string{"A": ref}) == nil {
			t.Errorf("%q is accepted", ref)
		}
	}
}
