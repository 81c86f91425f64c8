// Command charts checks, renders and packages the Helm charts of deploy/charts by Helm's own
// packages. It is a module of its own, so that Helm is no requirement of the programs.
//
//	charts lint DIR...
//	charts template [-values FILE] [-namespace NAME] DIR...
//	charts package -version v1.2.3 -out dist/packages DIR...
//
// template writes what `helm template` would write, in the order in which Helm installs it.
// package makes a chart archive of each DIR, and install.yaml, which installs all of them with
// their defaults by one `kubectl apply --server-side -f`.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"helm.sh/helm/v3/pkg/releaseutil"
)

// release is the name and, by default, the namespace of what is rendered.
const release = "toolhaven"

func main() {
	log.SetOutput(io.Discard) // Helm reports each link to deploy/operator and deploy/crds
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "charts:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("give lint, template or package")
	}
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	values := f.String("values", "", "a file of values")
	namespace := f.String("namespace", release, "the namespace of the release")
	version := f.String("version", "", "the version of the charts and the tag of their images")
	dir := f.String("out", "dist/packages", "folder for the packages")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "lint":
		for _, chart := range f.Args() {
			if err := check(chart); err != nil {
				return err
			}
		}
		return nil
	case "template":
		given, err := readValues(*values)
		if err != nil {
			return err
		}
		for _, path := range f.Args() {
			c, err := loader.Load(path)
			if err != nil {
				return err
			}
			if err := render(out, c, given, *namespace); err != nil {
				return err
			}
		}
		return nil
	case "package":
		return pack(f.Args(), *version, *dir)
	}
	return fmt.Errorf("%s is not a command", args[0])
}

func readValues(file string) (chartutil.Values, error) {
	if file == "" {
		return chartutil.Values{}, nil
	}
	return chartutil.ReadValuesFile(file)
}

// check fails for a chart in which Helm's linter finds more than advice.
func check(dir string) error {
	linter := lint.All(dir, nil, release, true)
	var all []error
	for _, m := range linter.Messages {
		if m.Severity > support.InfoSev {
			all = append(all, fmt.Errorf("%s: %w", dir, m))
		}
	}
	return errors.Join(all...)
}

// render writes the objects of a chart in the order of their installation. Those of one kind
// are in the order of their names.
func render(out io.Writer, c *chart.Chart, values chartutil.Values, namespace string) error {
	capabilities := chartutil.DefaultCapabilities.Copy()
	all, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: release, Namespace: namespace, Revision: 1, IsInstall: true}, capabilities)
	if err != nil {
		return err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return err
	}
	for name := range files {
		if strings.HasSuffix(name, chartutil.NotesName) {
			delete(files, name)
		}
	}
	hooks, manifests, err := releaseutil.SortManifests(files, capabilities.APIVersions, releaseutil.InstallOrder)
	if err != nil {
		return err
	}
	if len(hooks) > 0 {
		return fmt.Errorf("%s has hooks, which kubectl does not run", c.Name())
	}
	for _, m := range manifests {
		if _, err := fmt.Fprintf(out, "---\n%s\n", strings.TrimSpace(m.Content)); err != nil {
			return err
		}
	}
	return nil
}

// pack writes the archives and install.yaml.
func pack(dirs []string, version, out string) error {
	if version == "" {
		return errors.New("give -version")
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	install := bytes.NewBufferString(namespaceManifest)
	for _, dir := range dirs {
		c, err := loader.Load(dir)
		if err != nil {
			return err
		}
		c.Metadata.Version, c.Metadata.AppVersion = chartVersion(version), version
		if err := render(install, c, chartutil.Values{}, release); err != nil {
			return err
		}
		file, err := chartutil.Save(c, out)
		if err != nil {
			return err
		}
		fmt.Println(file)
	}
	file := filepath.Join(out, "install.yaml")
	fmt.Println(file)
	return os.WriteFile(file, install.Bytes(), 0o644)
}

// namespaceManifest is what Helm makes by --create-namespace; as in deploy/operator.
const namespaceManifest = `apiVersion: v1
kind: Namespace
metadata:
  name: ` + release + `
  labels:
    pod-security.kubernetes.io/enforce: restricted
`

// release version, such as v1.2.3 or v1.2.3-4-gabcdef0.
var semantic = regexp.MustCompile(`^v?(\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?)$`)

// chartVersion is a version in the form that Helm requires. One that is no release's is
// that of `git describe`.
func chartVersion(version string) string {
	if m := semantic.FindStringSubmatch(version); m != nil {
		return m[1]
	}
	return "0.0.0-g" + strings.Trim(regexp.MustCompile(`[^0-9A-Za-z-]+`).ReplaceAllString(version, "-"), "-")
}
