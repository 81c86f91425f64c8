package verify

import (
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// policyFile writes a policy file and returns its directory.
func policyFile(t *testing.T, content string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, FileName), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func keyPEM(t *testing.T) string {
	t.Helper()
	private, _ := newKey(t)
	der := must(marshalKey(private.Public()))(t)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

const identityOf = `
    identities:
      - issuer: https://login.test
        subject: a@example.test
`

// The rule that names an image most exactly decides, and every rule precedes the registry.
func TestPolicy_For(t *testing.T) {
	dir := policyFile(t, `
trustedRoot: root.json
images:
  - image: "*"`+strings.ReplaceAll(identityOf, "a@", "all@")+`
  - image: ghcr.io/*`+strings.ReplaceAll(identityOf, "a@", "ghcr@")+`
  - image: ghcr.io/example/*`+strings.ReplaceAll(identityOf, "a@", "example@")+`
  - image: ghcr.io/example/server`+strings.ReplaceAll(identityOf, "a@", "server@")+`
    trustedRoot: /other/root.json
  - image: someone/*`+strings.ReplaceAll(identityOf, "a@", "hub@")+`
  - image: alpine`+strings.ReplaceAll(identityOf, "a@", "library@")+`
  - image: localhost:5000/*`+strings.ReplaceAll(identityOf, "a@", "local@"))
	p := must(LoadPolicy(dir))(t)
	for ref, want := range map[string]string{
		"ghcr.io/example/server:1":                                 "server@example.test",
		"ghcr.io/example/server@sha256:" + strings.Repeat("1", 64): "server@example.test",
		"ghcr.io/example/server/more:1":                            "example@example.test",
		"ghcr.io/example/other":                                    "example@example.test",
		"ghcr.io/example-evil/server":                              "ghcr@example.test",
		"ghcr.io.evil.test/example/server":                         "all@example.test",
		"alpine:3":                                                 "library@example.test",
		"docker.io/library/alpine":                                 "library@example.test",
		"someone/tool":                                             "hub@example.test",
		"docker.io/someone/tool:2":                                 "hub@example.test",
		"localhost:5000/x":                                         "local@example.test",
		"localhost:5001/x":                                         "all@example.test",
	} {
		req, err := p.For(ref, &Provenance{})
		if err != nil || len(req.Identities) != 1 || req.Identities[0].Subject != want {
			t.Errorf("%s: got %+v, %v; want %s", ref, req, err, want)
			continue
		}
		root := filepath.Join(dir, "root.json")
		if strings.HasPrefix(want, "server@") {
			root = "/other/root.json"
		}
		if req.TrustedRoot != root {
			t.Errorf("%s: the trusted root is %s", ref, req.TrustedRoot)
		}
	}
	if _, err := p.For("no image", nil); err == nil {
		t.Error("a reference with a blank is accepted")
	}
}

// Without a file and without provenance nothing can be verified.
func TestPolicy_None(t *testing.T) {
	p := must(LoadPolicy(t.TempDir()))(t)
	_, err := p.For("ghcr.io/example/server:1", nil)
	if !errors.Is(err, ErrNoPolicy) || !strings.Contains(err.Error(), FileName) {
		t.Errorf("got %v", err)
	}
	if _, err := p.For("ghcr.io/example/server:1", &Provenance{CertIssuer: "https://x.test"}); !errors.Is(err, ErrNoPolicy) || !strings.Contains(err.Error(), "neither a signer nor a repository") {
		t.Errorf("got %v", err)
	}
	if dir := filepath.Join(t.TempDir(), "file"); os.WriteFile(dir, nil, 0o600) == nil {
		if _, err := LoadPolicy(dir); err == nil {
			t.Error("a directory that is a file has a policy")
		}
	}
}

// A policy file that is not understood whole is refused: its rules might be restrictions.
func TestPolicy_Faults(t *testing.T) {
	rule := func(lines string) string { return "images:\n  - image: ghcr.io/a/b\n" + lines }
	for name, c := range map[string]struct{ content, want string }{
		"an unknown key":            {"imags: []", "imags"},
		"an unknown key of a rule":  {rule("    identites: []"), "line 3"},
		"a repeated key":            {"images: []\nimages: []", "line 2"},
		"two rules for an image":    {rule(identityOf) + strings.TrimPrefix(rule(identityOf), "images:\n"), "two rules"},
		"no signer":                 {rule("    timestamp: true"), "neither identities nor keys"},
		"no image":                  {"images:\n  - identities: []", "not the name of an image"},
		"a tag":                     {strings.Replace(rule(identityOf), "a/b", "a/b:1", 1), "leave out the tag"},
		"a * within":                {strings.Replace(rule(identityOf), "a/b", "a*/b", 1), "a * stands"},
		"a * without a /":           {strings.Replace(rule(identityOf), "a/b", "a/b*", 1), "a * stands"},
		"no issuer":                 {rule("    identities: [{subject: a@b}]"), "no issuer"},
		"only an issuer":            {rule("    identities: [{issuer: https://x}]"), "neither a signer nor a repository"},
		"a path without repository": {rule("    identities: [{issuer: https://x, subject: /a.yml}]"), "no repository is named"},
		"no regular expression":     {rule("    identities: [{issuer: https://x, subjectRegexp: '('}]"), "subjectRegexp"},
		"one that ends the whole":   {rule("    identities: [{issuer: https://x, subjectRegexp: 'a)|(?:'}]"), "subjectRegexp"},
		"a bad issuer's":            {rule("    identities: [{issuerRegexp: '[', subject: a@b}]"), "issuerRegexp"},
		"a missing key file":        {rule("    keys: [nothing.pub]"), "nothing.pub"},
		"a private key":             {rule("    keys: [\"-----BEGIN PRIVATE KEY-----\\n-----END PRIVATE KEY-----\\n\"]"), "BEGIN PUBLIC KEY"},
		"a second document":         {"images: []\n---\nimages: []", "second document"},
		"no mapping":                {"- a", "line 1"},
		"too large":                 {"# " + strings.Repeat("x", maxPolicy), "too large"},
	} {
		_, err := LoadPolicy(policyFile(t, c.content))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), FileName) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestPolicy_Keys(t *testing.T) {
	text := keyPEM(t)
	dir := policyFile(t, "images:\n  - image: a/b\n    keys:\n      - cosign.pub\n      - |\n        "+strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n        ")+"\n")
	if err := os.WriteFile(filepath.Join(dir, "cosign.pub"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	req := must(must(LoadPolicy(dir))(t).For("a/b", nil))(t)
	if len(req.Keys) != 2 || req.Keys[0].Name != "cosign.pub" || len(req.Keys[1].Name) != 16 {
		t.Errorf("got %+v", req.Keys)
	}
	if req.log(false) || !req.log(true) {
		t.Error("the log is demanded of keys, or not of certificates")
	}
}

// Regular expressions match whole texts.
func TestIdentity_Patterns(t *testing.T) {
	id := must(ruleIdentity{IssuerRegexp: "https://[a-z]+.test", SubjectRegexp: "a@x|b@x"}.compile())(t)
	for subject, want := range map[string]bool{"a@x": true, "b@x": true, "ca@x": false, "b@xy": false, "a@x\n": false} {
		if got := id.matches(summary(subject, "https://login.test")); got != want {
			t.Errorf("%q: got %t", subject, got)
		}
	}
	if id.matches(summary("a@x", "https://login.test.evil")) {
		t.Error("a longer issuer matches")
	}
}

// What a registry's entry states, as far as it determines a signer.
func TestFromProvenance(t *testing.T) {
	const gitHub = "https://token.actions.githubusercontent.com"
	for name, c := range map[string]struct {
		p    Provenance
		want string // of the identity, or of the error
	}{
		"all of it":         {Provenance{SigstoreURL: publicInstance, RepositoryURI: "https://github.com/a/b", SignerIdentity: "/c.yml", RepositoryRef: "refs/tags/v1", RunnerEnvironment: "github-hosted", CertIssuer: gitHub}, "https://github.com/a/b/c.yml at refs/tags/v1 on github-hosted (issuer " + gitHub + ")"},
		"only a repository": {Provenance{RepositoryURI: "https://github.com/a/b.git"}, "a workflow of https://github.com/a/b (issuer " + gitHub + ")"},
		"one of GitLab":     {Provenance{RepositoryURI: "https://gitlab.com/a/b/"}, "a workflow of https://gitlab.com/a/b (issuer https://gitlab.com)"},
		"elsewhere":         {Provenance{RepositoryURI: "https://git.test/a/b"}, "no issuer"},
		"not GitHub":        {Provenance{RepositoryURI: "https://github.com.evil.test/a/b"}, "no issuer"},
		"a person":          {Provenance{SignerIdentity: "a@b", CertIssuer: "https://login.test"}, "a@b (issuer https://login.test)"},
		"only an issuer":    {Provenance{CertIssuer: gitHub}, "neither a signer nor a repository"},
		"only a path":       {Provenance{CertIssuer: gitHub, SignerIdentity: "/c.yml"}, "no repository is named"},
		"a bad predicate":   {Provenance{RepositoryURI: "https://github.com/a/b", Predicate: "[]"}, "not a JSON object"},
		"nothing":           {Provenance{}, "no issuer"},
	} {
		req, err := FromProvenance(c.p)
		if err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if got := req.accepts(); got != c.want {
			t.Errorf("%s: got %s", name, got)
		}
	}
	req := must(FromProvenance(Provenance{RepositoryURI: "https://github.com/a/b", SigstoreURL: "https://tuf-repo.github.com/", PredicateType: typeSLSA1, Predicate: `{"x":{"y":1}}`}))(t)
	if diff := cmp.Diff(&Attestation{PredicateType: typeSLSA1, Predicate: map[string]any{"x": map[string]any{"y": 1.0}}}, req.Attestation); diff != "" || req.log(true) || req.Instance != gitHubInstance {
		t.Errorf("%s; %+v", diff, req)
	}
}

func FuzzPolicy(f *testing.F) {
	f.Add([]byte("trustedRoot: a\nimages:\n  - image: ghcr.io/*" + identityOf))
	f.Add([]byte("images:\n  - image: a/b\n    keys: [x]\n    attestation: {builder: b}\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		p := &Policy{path: "/nowhere/" + FileName}
		if p.parse(content) != nil {
			return
		}
		req, err := p.For("ghcr.io/example/server:1", nil)
		if (req == nil) == (err == nil) {
			t.Errorf("neither a requirement nor an error: %v", err)
		}
		if req != nil && len(req.Identities)+len(req.Keys) == 0 {
			t.Error("a requirement that names no signer")
		}
	})
}
