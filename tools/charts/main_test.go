package main

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"sigs.k8s.io/yaml"
)

const (
	charts   = "../../deploy/charts"
	operator = charts + "/toolhaven-operator"
	crds     = charts + "/toolhaven-operator-crds"
)

var update = flag.Bool("update", false, "write what is rendered into deploy/charts/testdata")

func TestLint(t *testing.T) {
	for _, dir := range []string{operator, crds} {
		if err := check(dir); err != nil {
			t.Error(err)
		}
	}
	if err := check(t.TempDir()); err == nil {
		t.Error("a folder without a chart passes")
	}
}

// The operator with values of testdata gives what is there, which other tests give to an
// API server.
func TestTemplate(t *testing.T) {
	files, err := filepath.Glob(charts + "/testdata/*.values.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		golden := strings.TrimSuffix(file, ".values.yaml") + ".yaml"
		var got bytes.Buffer
		if err := run([]string{"template", "-values", file, operator}, &got); err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if *update {
			if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, got.Bytes()) {
			t.Errorf("%s is not what the chart gives; run `make charts UPDATE=1` and read the difference", golden)
		}
	}
}

// The definitions are those of deploy/crds, and are kept when the chart is uninstalled.
func TestDefinitions(t *testing.T) {
	for _, keep := range []bool{true, false} {
		var out bytes.Buffer
		c := load(t, crds)
		if err := render(&out, c, chartutil.Values{"keep": keep, "annotations": map[string]any{"a": "b"}}, release); err != nil {
			t.Fatal(err)
		}
		rendered := map[string]map[string]any{}
		for document := range strings.SplitSeq(out.String(), "\n---\n") {
			o := parse(t, document)
			metadata := o["metadata"].(map[string]any)
			annotations := metadata["annotations"].(map[string]any)
			if kept := annotations["helm.sh/resource-policy"] == "keep"; kept != keep || annotations["a"] != "b" {
				t.Errorf("keep %t: annotations %v", keep, annotations)
			}
			delete(annotations, "helm.sh/resource-policy")
			delete(annotations, "a")
			delete(metadata, "labels")
			rendered[metadata["name"].(string)] = o
		}
		err := fs.WalkDir(os.DirFS("../../deploy/crds"), ".", func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasPrefix(path, "toolhaven.dev_") {
				return err
			}
			content, err := os.ReadFile("../../deploy/crds/" + path)
			want := parse(t, string(content))
			name := want["metadata"].(map[string]any)["name"].(string)
			if text(t, rendered[name]) != text(t, want) {
				t.Errorf("the chart's %s differs from deploy/crds", name)
			}
			delete(rendered, name)
			return err
		})
		if err != nil || len(rendered) > 0 {
			t.Errorf("%v, and more than deploy/crds has: %v", err, rendered)
		}
	}
}

func TestRefusedValues(t *testing.T) {
	c := load(t, operator)
	for _, values := range []string{
		"replica: 2",
		"replicas: '2'",
		"replicas: -1",
		"replicas: 2\nleaderElection: {enabled: false}",
		"image: {tag: 'a b'}",
		"image: {repository: ''}",
		"gatewayImage: {digest: sha256:abc}",
		"gatewayImage: {repository: 'a@sha256:0'}",
		"imagePullSecrets: [registry]",
		"namespaces: [A]",
		"namespaces: team-a",
		"namespaces: [a, a]",
		"fullnameOverride: ''",
		"concurrency: 0",
		"metrics: {port: 0}",
		"health: {port: 65536}",
		"webhook: {failurePolicy: fail}",
		"webhook: {timeoutSeconds: 31}",
		"webhook: {certManager: {issuerRef: issuer}}",
		"podDisruptionBudget: {maxUnavailable: half}",
		"podLabels: {a: 1}",
	} {
		given, err := chartutil.ReadValues([]byte(values))
		if err != nil {
			t.Fatal(err)
		}
		if err := render(&bytes.Buffer{}, c, given, release); err == nil {
			t.Errorf("%s: no error", values)
		}
	}
}

// Every default has a place in the schema: what a user may set is checked.
func TestSchemaHasEveryValue(t *testing.T) {
	for _, dir := range []string{operator, crds} {
		c := load(t, dir)
		schema := parse(t, string(c.Schema))
		properties := schema["properties"].(map[string]any)
		for name := range c.Values {
			if properties[name] == nil {
				t.Errorf("%s: %s is not in values.schema.json", dir, name)
			}
		}
		for name := range properties {
			if _, ok := c.Values[name]; !ok && name != "global" {
				t.Errorf("%s: %s is not in values.yaml", dir, name)
			}
		}
	}
}

func TestPackage(t *testing.T) {
	out := t.TempDir()
	if err := run([]string{"package", "-version", "v1.2.3", "-out", out, crds, operator}, os.Stdout); err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{"toolhaven-operator": "toolhaven-operator-1.2.3.tgz", "toolhaven-operator-crds": "toolhaven-operator-crds-1.2.3.tgz"} {
		c, err := loader.Load(filepath.Join(out, file))
		if err != nil {
			t.Fatal(err)
		}
		if c.Name() != name || c.Metadata.AppVersion != "v1.2.3" {
			t.Errorf("%s: %+v", file, c.Metadata)
		}
		var rendered bytes.Buffer
		if err := render(&rendered, c, chartutil.Values{}, release); err != nil {
			t.Error(err)
		}
		for _, f := range c.Files {
			if strings.HasSuffix(f.Name, ".go") || strings.HasSuffix(f.Name, "kustomization.yaml") {
				t.Errorf("%s has %s", file, f.Name)
			}
		}
	}
	install, err := os.ReadFile(filepath.Join(out, "install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"image: ghcr.io/toolhaven/thv-operator:v1.2.3\n", "--gateway-image=ghcr.io/toolhaven/thv:v1.2.3\n", "\nkind: Namespace\n"} {
		if strings.Count(string(install), want) != 1 {
			t.Errorf("install.yaml has %q %d times", want, strings.Count(string(install), want))
		}
	}
	if n := strings.Count(string(install), "\nkind: CustomResourceDefinition\n"); n != 11 {
		t.Errorf("install.yaml has %d definitions", n)
	}
}

func TestChartVersion(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3": "1.2.3", "1.2.3-rc.1": "1.2.3-rc.1", "v1.2.3-4-gabcdef0-dirty": "1.2.3-4-gabcdef0-dirty",
		"0123456": "0.0.0-g0123456", "abc_d/e": "0.0.0-gabc-d-e", "dev": "0.0.0-gdev",
	} {
		got := chartVersion(version)
		c := &chart.Metadata{APIVersion: "v2", Name: "a", Version: got}
		if err := c.Validate(); got != want || err != nil {
			t.Errorf("%s: %s, %v; want %s", version, got, err, want)
		}
	}
}

func load(t *testing.T, dir string) *chart.Chart {
	t.Helper()
	c, err := loader.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func parse(t *testing.T, document string) map[string]any {
	t.Helper()
	o := map[string]any{}
	if err := yaml.Unmarshal([]byte(document), &o); err != nil {
		t.Fatalf("%v\n%s", err, document)
	}
	return o
}

func text(t *testing.T, o map[string]any) string {
	t.Helper()
	content, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
