package build

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

const pypi = "https://pypi.org/"

var pep503 = regexp.MustCompile(`[-_.]+`)

// normalName is a Python package's name as an index files it (PEP 503).
func normalName(name string) string {
	return strings.ToLower(pep503.ReplaceAllString(name, "-"))
}

// python resolves Python packages with the index that the environment names, or PyPI.
type python struct{ env environment }

// resolve finds the version that a request means: an exact one, or the newest.
func (p python) resolve(ctx context.Context, r Request) (resolved, error) {
	var found resolved
	var err error
	if index := p.env.first("PIP_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX"); index != "" {
		found, err = fromIndex(ctx, r, index)
	} else {
		found, err = fromPyPI(ctx, r)
	}
	if err != nil {
		return resolved{}, err
	}
	// The version becomes part of a command and of a tag.
	if !versionText.MatchString(found.version) || len(found.version) > maxVersion {
		return resolved{}, fmt.Errorf("the package index names the version %.120q of %s, which is not one", found.version, r.Name)
	}
	return found, nil
}

// project is a response of PyPI's JSON API.
type project struct {
	Info struct {
		Version string `json:"version"`
	} `json:"info"`
	Releases map[string][]distribution `json:"releases"`
}

type distribution struct {
	Digests struct {
		SHA256 string `json:"sha256"`
	} `json:"digests"`
}

// fromPyPI resolves a package with the JSON API of PyPI.
func fromPyPI(ctx context.Context, r Request) (resolved, error) {
	base, err := url.Parse(pypi)
	if err != nil {
		return resolved{}, fmt.Errorf("request PyPI: %w", err)
	}
	// One response has all versions. Some mirrors do not serve the address of a single version.
	var p project
	err = getJSON(ctx, r, query{address: base.JoinPath("pypi", normalName(r.Name), "json"), accept: "application/json"}, &p)
	if errors.Is(err, errAbsent) {
		return resolved{}, notFound(r, base.Host, "")
	}
	if err != nil {
		return resolved{}, err
	}
	version := p.Info.Version
	if r.Version != "" && r.Version != "latest" {
		version = ""
		for v, files := range p.Releases {
			if len(files) > 0 && sameVersion(v, r.Version) {
				version = v
			}
		}
		if version == "" {
			return resolved{}, notFound(r, base.Host, p.Info.Version)
		}
	}
	var digests []string
	for _, f := range p.Releases[version] {
		digests = append(digests, f.Digests.SHA256)
	}
	slices.Sort(digests)
	return resolved{version: version, content: hash([]byte(strings.Join(digests, " ")))}, nil
}

// listing is a response of the simple repository API in JSON (PEP 691, PEP 700).
type listing struct {
	Versions []string `json:"versions"`
	Files    []struct {
		Filename string            `json:"filename"`
		Hashes   map[string]string `json:"hashes"`
	} `json:"files"`
}

// fromIndex resolves a package with the simple repository API of an index.
func fromIndex(ctx context.Context, r Request, index string) (resolved, error) {
	base, err := registryURL(index)
	if err != nil {
		return resolved{}, err
	}
	var l listing
	err = getJSON(ctx, r, query{address: base.JoinPath(normalName(r.Name), "/"), accept: "application/vnd.pypi.simple.v1+json"}, &l)
	if errors.Is(err, errAbsent) {
		return resolved{}, notFound(r, base.Redacted(), "")
	}
	if err != nil {
		return resolved{}, err
	}
	versions := l.versions()
	newest := newestRelease(versions)
	version := newest
	if r.Version != "" && r.Version != "latest" {
		i := slices.IndexFunc(versions, func(v string) bool { return sameVersion(v, r.Version) })
		if i < 0 {
			return resolved{}, notFound(r, base.Redacted(), newest)
		}
		version = versions[i]
	}
	if version == "" {
		return resolved{}, fmt.Errorf("%w: %s has no release of %s; name a version", ErrNotFound, base.Redacted(), r.Name)
	}
	found := resolved{version: version, content: l.fingerprint(version)}
	if base.User == nil {
		found.registry = base.String()
		return found, nil
	}
	// With a password the address belongs in a file, not in a command.
	found.settings = []byte("[global]\nindex-url = " + base.String() + "\n")
	return found, nil
}

// versions lists the versions, from the file names where an index gives no list.
func (l listing) versions() []string {
	if len(l.Versions) > 0 {
		return l.Versions
	}
	var out []string
	for _, f := range l.Files {
		if v := fileVersion(f.Filename); v != "" && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

func (l listing) fingerprint(version string) string {
	var digests []string
	for _, f := range l.Files {
		if fileVersion(f.Filename) == version {
			digests = append(digests, f.Hashes["sha256"])
		}
	}
	slices.Sort(digests)
	return hash([]byte(strings.Join(digests, " ")))
}

// fileVersion is the version in the name of a distribution file: the second part
// of a wheel's, the last of a source archive's.
func fileVersion(name string) string {
	if wheel, ok := strings.CutSuffix(name, ".whl"); ok {
		parts := strings.Split(wheel, "-")
		if len(parts) < 5 {
			return ""
		}
		return parts[1]
	}
	source, ok := strings.CutSuffix(name, ".tar.gz")
	if !ok {
		return ""
	}
	return source[strings.LastIndex(source, "-")+1:]
}

// newestRelease is the highest version that is a final release or a correction
// of one (1.2.post1 comes after 1.2 and before 1.2.1).
func newestRelease(versions []string) string {
	best, bestNumbers, bestPost := "", []int(nil), 0
	for _, v := range versions {
		release, post, _ := strings.Cut(v, ".post")
		n, ok := numbers(release)
		p, okPost := numbers(post)
		switch {
		case !ok || post != "" && (!okPost || len(p) != 1):
			continue
		case post == "":
			p = []int{-1}
		}
		order := compareNumbers(n, bestNumbers)
		if best == "" || order > 0 || order == 0 && p[0] > bestPost {
			best, bestNumbers, bestPost = v, n, p[0]
		}
	}
	return best
}

// sameVersion compares as PEP 440 does where numbers are concerned: 1.2 is 1.2.0.
func sameVersion(a, b string) bool {
	x, okX := numbers(a)
	y, okY := numbers(b)
	if okX && okY {
		return compareNumbers(x, y) == 0
	}
	return strings.EqualFold(a, b)
}
