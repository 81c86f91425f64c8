package command

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// The charts' own tests keep what they give in testdata current.
const (
	rendered = "../../../deploy/charts/testdata"
	base     = "../../../deploy/operator"
)

// Each flag of run can be set by a value of the chart.
func TestChartHasEveryFlag(t *testing.T) {
	files, err := filepath.Glob(rendered + "/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{"kubeconfig": true} // a pod has that of its account
	run := newRun(Env{})
	for _, file := range files {
		for _, o := range objects(t, file) {
			if o["kind"] != "Deployment" {
				continue
			}
			args := arguments(t, o)
			if args[0] != "run" {
				t.Errorf("%s: %v", file, args)
			}
			for _, arg := range args[1:] {
				name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
				flag := run.Flags().Lookup(name)
				if flag == nil {
					t.Errorf("%s: %s is not a flag", file, arg)
					continue
				}
				used[name] = true
				if value == "" {
					value = flag.NoOptDefVal
				}
				if err := flag.Value.Set(value); err != nil {
					t.Errorf("%s: %s: %v", file, arg, err)
				}
			}
		}
	}
	run.Flags().VisitAll(func(f *pflag.Flag) {
		if !used[f.Name] {
			t.Errorf("no value of the chart sets --%s: add it to values.yaml, and to all.values.yaml in its testdata", f.Name)
		}
	})
}

// The chart without values installs what deploy/operator does.
func TestChartIsTheKustomizeBase(t *testing.T) {
	want, got := map[string]any{}, map[string]any{}
	for _, file := range []string{"rbac.yaml", "deployment.yaml", "webhook.yaml"} {
		add(want, objects(t, filepath.Join(base, file)))
	}
	add(got, objects(t, filepath.Join(rendered, "default.yaml")))
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-deploy/operator +chart):\n%s", d)
	}
}

// add adds objects by kind and name, without their own labels.
func add(all map[string]any, objects []map[string]any) {
	for _, o := range objects {
		metadata := o["metadata"].(map[string]any)
		delete(metadata, "labels")
		all[o["kind"].(string)+" "+metadata["name"].(string)] = o
	}
}

// The charts and the kustomize base use one version of the images.
func TestVersions(t *testing.T) {
	images := regexp.MustCompile(`ghcr\.io/toolhaven/(thv|thv-operator):(\S+)`)
	versions := map[string]bool{}
	for _, file := range []string{base + "/deployment.yaml", rendered + "/default.yaml"} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := images.FindAllSubmatch(content, -1)
		if len(found) != 2 {
			t.Errorf("%s has %d images", file, len(found))
		}
		for _, m := range found {
			versions[string(m[2])] = true
		}
	}
	for _, chart := range []string{"toolhaven-operator", "toolhaven-operator-crds"} {
		content, err := os.ReadFile("../../../deploy/charts/" + chart + "/Chart.yaml")
		if err != nil {
			t.Fatal(err)
		}
		var c struct {
			AppVersion string `json:"appVersion"`
		}
		if err := yaml.Unmarshal(content, &c); err != nil {
			t.Fatal(err)
		}
		versions[c.AppVersion] = true
	}
	if len(versions) != 1 {
		t.Errorf("versions %v", versions)
	}
}

func objects(t *testing.T, file string) []map[string]any {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return documents(t, string(content))
}

func documents(t *testing.T, content string) (all []map[string]any) {
	t.Helper()
	for document := range bytes.SplitSeq([]byte("\n"+content), []byte("\n---\n")) {
		var o map[string]any
		if err := yaml.UnmarshalStrict(document, &o); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		if o["kind"] != nil {
			all = append(all, o)
		}
	}
	return all
}

func arguments(t *testing.T, deployment map[string]any) []string {
	t.Helper()
	content, err := yaml.Marshal(deployment)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Spec struct {
			Template struct {
				Spec struct {
					Containers []struct {
						Args []string `json:"args"`
					} `json:"containers"`
				} `json:"spec"`
			} `json:"template"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(content, &d); err != nil || len(d.Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("%v\n%s", err, content)
	}
	return d.Spec.Template.Spec.Containers[0].Args
}
