package build

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/toolhaven/toolhaven/internal/build/gosource"
)

// The schemes of package references.
const (
	schemeNPX = "npx"
	schemeUVX = "uvx"
	schemeGo  = "go"
)

// Request is a package to build an image of.
type Request struct {
	Scheme  string // uvx, npx or go
	Name    string // the package; for a local Go directory "", see Dir
	Version string // "": the newest at the first build, kept until Refresh; "latest": the newest each time
	Dir     string // absolute path of a Go package on this machine

	Args         []string // arguments every start gets, before those of the start
	RuntimeImage string   // base image instead of the scheme's default; for go, the image that compiles
	AddPackages  []string // packages of the base image's distribution to install
	CACert       string   // path of a PEM file of authorities to trust, while building and in the image
	Tag          string   // one more tag for the image
	Refresh      bool     // resolve again although a record exists
}

var (
	npmName     = regexp.MustCompile(`^(@[A-Za-z0-9~][A-Za-z0-9._~-]*/)?[A-Za-z0-9~][A-Za-z0-9._~-]*$`)
	pypiName    = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)
	goName      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]*(\.[A-Za-z0-9][A-Za-z0-9-]*)+(/[A-Za-z0-9_~][A-Za-z0-9._~-]*)*$`)
	versionText = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.+_!-]*$`)
	packageName = regexp.MustCompile(`^[a-z0-9][a-z0-9+._-]*$`)
)

const (
	maxName     = 214 // npm's own limit; longer than any name of PyPI
	maxGoName   = 512
	maxVersion  = 100      // leaves room for the hash in a tag, which has 128
	maxArgs     = 60 << 10 // bytes of all arguments in JSON; a line of a Dockerfile has at most 65535
	maxPackages = 100
)

// ParseRef reads a package reference as a person types it: npx://@scope/pkg@1.2,
// uvx://pkg@1.2, go://module/path/cmd@v1, go://./directory. A local directory is
// made absolute. The error is what is wrong with the reference.
func ParseRef(arg string) (Request, error) {
	scheme, rest, ok := strings.Cut(arg, "://")
	if !ok || scheme != schemeNPX && scheme != schemeUVX && scheme != schemeGo {
		return Request{}, fmt.Errorf("%.200q is not a package reference: it starts with npx://, uvx:// or go://", arg)
	}
	r := Request{Scheme: scheme}
	if scheme == schemeGo && gosource.IsLocal(rest) {
		dir, err := filepath.Abs(filepath.FromSlash(rest))
		if err != nil {
			return Request{}, fmt.Errorf("find the directory of %q: %w", arg, err)
		}
		r.Dir = dir
		return r, r.validate()
	}
	r.Name = rest
	// The @ of an npm scope is the first character; a version's is not.
	if at := strings.LastIndex(rest, "@"); at > 0 {
		r.Name, r.Version = rest[:at], rest[at+1:]
		if r.Version == "" {
			return Request{}, fmt.Errorf("%.200q ends in @ without a version", arg)
		}
	}
	if err := r.validate(); err != nil {
		return Request{}, err
	}
	return r, nil
}

// String is the reference as a person would type it.
func (r Request) String() string {
	if r.Dir != "" {
		return r.Scheme + "://" + r.Dir
	}
	if r.Version == "" {
		return r.Scheme + "://" + r.Name
	}
	return r.Scheme + "://" + r.Name + "@" + r.Version
}

// validate holds everything in the request to its grammar, before any of it
// reaches a command, a URL or a Dockerfile.
func (r Request) validate() error {
	if err := r.validateName(); err != nil {
		return err
	}
	if r.Version != "" && (!versionText.MatchString(r.Version) || len(r.Version) > maxVersion) {
		return fmt.Errorf("%.120q is not a version: give an exact version, a tag such as latest, or for npm the beginning of a version such as 1.2", r.Version)
	}
	if err := r.validateArgs(); err != nil {
		return err
	}
	if r.RuntimeImage != "" {
		if _, err := name.ParseReference(r.RuntimeImage); err != nil {
			return fmt.Errorf("the runtime image %.200q is not an image reference: %w", r.RuntimeImage, err)
		}
	}
	if r.Tag != "" {
		if _, err := name.NewTag(r.Tag); err != nil {
			return fmt.Errorf("%.200q is not an image tag: %w", r.Tag, err)
		}
	}
	return r.validatePackages()
}

func (r Request) validateName() error {
	grammar, limit, example := npmName, maxName, "@modelcontextprotocol/server-filesystem"
	switch r.Scheme {
	case schemeNPX:
	case schemeUVX:
		grammar, example = pypiName, "mcp-server-time"
	case schemeGo:
		grammar, limit, example = goName, maxGoName, "example.com/module/cmd/server"
	default:
		return fmt.Errorf("%.50q is not a package scheme: there are npx, uvx and go", r.Scheme)
	}
	if r.Dir != "" {
		switch {
		case r.Scheme != schemeGo:
			return fmt.Errorf("%s:// cannot build a directory; only go:// can", r.Scheme)
		case r.Name != "" || r.Version != "":
			return errors.New("a directory has neither a package name nor a version")
		case !filepath.IsAbs(r.Dir):
			return fmt.Errorf("the directory %q is not an absolute path", r.Dir)
		}
		return nil
	}
	if !grammar.MatchString(r.Name) || len(r.Name) > limit {
		return fmt.Errorf("%.200q is not a package name of %s:// (an example: %s://%s)", r.Name, r.Scheme, r.Scheme, example)
	}
	return nil
}

func (r Request) validateArgs() error {
	for _, arg := range r.Args {
		if strings.ContainsRune(arg, 0) {
			return errors.New("an argument holds a NUL character, which no program can be given")
		}
		if !utf8.ValidString(arg) {
			return fmt.Errorf("the argument %.100q is not UTF-8, so an image cannot keep it", arg)
		}
	}
	if size := len(words(r.Args).String()); size > maxArgs {
		return fmt.Errorf("the arguments are %d bytes long as an image keeps them; there is room for %d", size, maxArgs)
	}
	return nil
}

func (r Request) validatePackages() error {
	if len(r.AddPackages) > maxPackages {
		return fmt.Errorf("%d packages to add are too many; up to %d are installed", len(r.AddPackages), maxPackages)
	}
	for _, p := range r.AddPackages {
		if !packageName.MatchString(p) || len(p) > 128 {
			return fmt.Errorf("%.120q is not the name of a distribution's package", p)
		}
	}
	return nil
}
