package build

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNoLineOfADockerfileIsReadByAShell(t *testing.T) {
	for _, scheme := range []string{schemeNPX, schemeUVX} {
		first, second := installation{
			scheme: scheme, name: "pkg", version: "1.2.3", base: "base:1", registry: "https://u:p$HOME@example.com/\"x",
			packages: []string{"git"}, args: []string{"$HOME", "a\nRUN evil", `"; id`}, certs: []byte("x"), keepCA: true, settings: []byte("x"),
		}.dockerfiles("stage:1")
		var last string
		for line := range strings.Lines(first + second) {
			instruction, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			last = instruction
			switch instruction {
			case "RUN", "ENTRYPOINT", "CMD":
				var words []string
				if err := json.Unmarshal([]byte(rest), &words); err != nil {
					t.Errorf("not in exec form: %s", line)
				}
				if instruction == "ENTRYPOINT" {
					want := []string{"/app/server", "$HOME", "a\nRUN evil", `"; id`}
					if diff := cmp.Diff(want, words); diff != "" {
						t.Errorf("entry point (-want +got):\n%s", diff)
					}
				}
			case "FROM", "COPY", "USER", "WORKDIR", "ENV", "LABEL":
			default:
				t.Errorf("unexpected line %q", line)
			}
		}
		if last != "ENTRYPOINT" {
			t.Errorf("the last line is %s", last)
		}
		if _, own, _ := strings.Cut(second, "COPY --from="); !strings.Contains(own, "\nUSER 10001:10001\n") || strings.Contains(own, "\nRUN ") {
			t.Errorf("the image itself:\n%s", second)
		}
	}
}

func TestCertificatesStayOnlyOnRequest(t *testing.T) {
	in := installation{scheme: schemeNPX, name: "pkg", version: "1", base: "base:1", certs: []byte("x")}
	first, second := in.dockerfiles("stage:1")
	if strings.Contains(second, "ca.crt") || !strings.Contains(first, "NODE_EXTRA_CA_CERTS=/thv/ca.crt") {
		t.Errorf("they are not to be kept:\n%s\n%s", first, second)
	}
	in.keepCA = true
	_, second = in.dockerfiles("stage:1")
	if !strings.Contains(second, "COPY thv/ca.crt "+caPath) {
		t.Errorf("they are to be kept:\n%s", second)
	}
}

func TestAnImageIsNamedByAllThatMadeIt(t *testing.T) {
	in := inputs{Recipe: 1, Scheme: "npx", Name: "@Scope/Pkg", Version: "1.2.3+b", Arch: "amd64", Base: "sha256:1"}
	tag, err := imageTag(in)
	if err != nil {
		t.Fatal(err)
	}
	// A different hash for the same inputs would build every image again.
	if want := "thv.local/npx/scope-pkg:1.2.3_b-"; !strings.HasPrefix(tag, want) || len(tag) != len(want)+12 {
		t.Fatalf("%s", tag)
	}
	seen := map[string]bool{tag: true}
	for _, change := range []func(*inputs){
		func(i *inputs) { i.Recipe++ }, func(i *inputs) { i.Name = "scope/pkg" }, func(i *inputs) { i.Version = "1.2.3_b" },
		func(i *inputs) { i.Arch = "arm64" }, func(i *inputs) { i.Args = []string{"a", "b"} }, func(i *inputs) { i.Args = []string{"ab"} },
		func(i *inputs) { i.AddPackages = []string{"a"} }, func(i *inputs) { i.Base = "sha256:2" },
		func(i *inputs) { i.CA = "x" }, func(i *inputs) { i.Content = "x" },
	} {
		other := in
		change(&other)
		tag, err := imageTag(other)
		if err != nil {
			t.Fatal(err)
		}
		if seen[tag] {
			t.Errorf("%+v has the name of another: %s", other, tag)
		}
		seen[tag] = true
	}
}
