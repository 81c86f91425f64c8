package verify

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// envCosign is the path of the program cosign, which CI does not have.
const envCosign = "THV_TEST_COSIGN"

// What the program cosign writes, in its present form and in its older one.
func TestVerify_Cosign(t *testing.T) {
	cosign := os.Getenv(envCosign)
	if cosign == "" {
		t.Skipf("%s is not set", envCosign)
	}
	dir := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), cosign, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "COSIGN_PASSWORD=", "HOME="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("cosign %v: %v\n%s", args, err, out)
		}
	}
	run("generate-key-pair")
	key := must(ParseKey(must(os.ReadFile(filepath.Join(dir, "cosign.pub")))(t), "cosign.pub"))(t)
	local := []string{"--key", "cosign.key", "--tlog-upload=false", "--use-signing-config=false", "--allow-insecure-registry", "--yes"}
	for name, args := range map[string][]string{
		"a bundle":             append([]string{"sign", "--new-bundle-format=true"}, local...),
		"a simple signature":   append([]string{"sign", "--new-bundle-format=false"}, local...),
		"an attestation":       append([]string{"attest", "--new-bundle-format=true", "--type", "slsaprovenance1", "--predicate", "predicate.json"}, local...),
		"an older attestation": append([]string{"attest", "--new-bundle-format=false", "--type", "slsaprovenance1", "--predicate", "predicate.json"}, local...),
	} {
		for _, api := range []bool{true, false} {
			p := newPlace(t, registry.WithReferrersSupport(api))
			predicate := `{"buildDefinition":{"buildType":"x"},"runDetails":{"builder":{"id":"https://builder.test/1"}}}`
			if err := os.WriteFile(filepath.Join(dir, "predicate.json"), []byte(predicate), 0o600); err != nil {
				t.Fatal(err)
			}
			run(append(args, p.repo.Name()+"@"+p.digest())...)
			got, err := p.verify(&Requirement{Origin: "the policy", Keys: []Key{key}})
			if err != nil || got.Digest != p.digest() {
				t.Errorf("%s, referrers=%t: got %+v, %v", name, api, got, err)
			}
		}
	}
}
