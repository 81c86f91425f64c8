package build

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

const npmRegistry = "https://registry.npmjs.org/"

// npmPackage is a package in npm's registry, in the short form that
// installers request.
type npmPackage struct {
	Tags     map[string]string `json:"dist-tags"`
	Versions map[string]struct {
		Dist struct {
			Integrity string `json:"integrity"`
			Shasum    string `json:"shasum"`
		} `json:"dist"`
	} `json:"versions"`
}

// npm resolves npm packages with the registries that the environment names.
type npm struct{ env environment }

// resolve finds the version that a request means: an exact one, a dist-tag, or
// the newest release that begins with the numbers given.
func (n npm) resolve(ctx context.Context, r Request) (resolved, error) {
	settings, err := n.settings()
	if err != nil {
		return resolved{}, err
	}
	found := resolved{registry: settings["registry"], settings: settings.file()}
	base, err := registryURL(settings.registry(r.Name))
	if err != nil {
		return resolved{}, err
	}
	address := base.JoinPath("/")
	// A scoped name is one path element: @scope%2Fname.
	address.RawPath = strings.TrimSuffix(address.EscapedPath(), "/") + "/" + strings.ReplaceAll(r.Name, "/", "%2F")
	if address.Path, err = url.PathUnescape(address.RawPath); err != nil {
		return resolved{}, fmt.Errorf("request %s: %w", r.Name, err)
	}
	var pkg npmPackage
	err = getJSON(ctx, r, query{
		address: address, accept: "application/vnd.npm.install-v1+json, application/json",
		authorization: settings.authorization(base),
	}, &pkg)
	if errors.Is(err, errAbsent) {
		return resolved{}, notFound(r, base.Redacted(), "")
	}
	if err != nil {
		return resolved{}, err
	}
	found.version = pkg.pick(r.Version)
	v, ok := pkg.Versions[found.version]
	if !ok {
		return resolved{}, notFound(r, base.Redacted(), pkg.Tags["latest"])
	}
	// The version becomes part of a command and of a tag.
	if !versionText.MatchString(found.version) || len(found.version) > maxVersion {
		return resolved{}, fmt.Errorf("the registry at %s names the version %.120q of %s, which is not one", base.Redacted(), found.version, r.Name)
	}
	found.content = v.Dist.Integrity + v.Dist.Shasum
	return found, nil
}

// pick returns the version meant by wanted, "" when there is none.
func (p npmPackage) pick(wanted string) string {
	if wanted == "" {
		wanted = "latest"
	}
	if _, ok := p.Versions[wanted]; ok {
		return wanted
	}
	if v, ok := p.Tags[wanted]; ok {
		return v
	}
	best, bestNumbers := "", []int(nil)
	prefix, ok := numbers(strings.TrimSuffix(wanted, ".x"))
	if !ok || len(prefix) > 2 {
		return ""
	}
	for v := range p.Versions {
		n, ok := numbers(v)
		if !ok || len(n) != 3 || compareNumbers(n[:len(prefix)], prefix) != 0 {
			continue
		}
		if best == "" || compareNumbers(n, bestNumbers) > 0 {
			best, bestNumbers = v, n
		}
	}
	return best
}

var dotted = regexp.MustCompile(`^\d{1,9}(\.\d{1,9})*$`)

// numbers reads a release version, which has nothing but numbers.
func numbers(version string) ([]int, bool) {
	if !dotted.MatchString(version) {
		return nil, false
	}
	var out []int
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil, false
		}
		out = append(out, n)
	}
	return out, true
}

// compareNumbers compares number by number; missing ones are zero (PEP 440).
func compareNumbers(a, b []int) int {
	for i := range max(len(a), len(b)) {
		x, y := 0, 0
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return x - y
		}
	}
	return 0
}
