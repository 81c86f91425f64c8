// Package source decides what the argument of run means and makes the beginning
// of a Spec from it.
//
// The order is: an http(s) URL is a remote server; uvx://, npx:// and go:// are
// packages; what can be a registry's name is looked up there; the rest is an
// image reference. A registry that does not answer is an error for a name: what
// the person meant would otherwise depend on the network. (An exported
// configuration is read by the command itself.)
//
// The content of a registry is not trusted. It chooses the program, its
// settings and which network it may use less of; it never mounts a folder, makes
// a container privileged or joins another network by itself. Those are refused, with
// the flag by which the person grants them, unless the person approves them.
package source

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"
	"unicode"

	"github.com/distribution/reference"

	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// The kinds of workload.Source.
const (
	KindRegistry = "registry"
	KindImage    = "image"
	KindPackage  = "package"
	KindRemote   = "remote"
)

// Request is what run was given, as far as it bears on the source.
type Request struct {
	// Arg is the server: a URL, a package, a registry name or an image.
	Arg string
	// Args are the arguments for the server. They take the place of all that a
	// registry entry gives.
	Args []string
	// Transport is the value of --transport, "" without it. Of an entry with several
	// packages, the first that has it is run.
	Transport workload.Transport
	// Permissions, Mounts and Network: the person gave a permission
	// profile, mounts or a network of their own, so the entry's do not matter.
	Permissions, Mounts, Network bool
	// Approve returns whether the person approves what an entry requests beyond that. Nil
	// approves nothing.
	Approve func(Grant) (bool, error)
	// Catalog opens the registry. It is called only when a name is looked up.
	Catalog func() (registry.Catalog, error)
}

// Resolution is what the argument turned out to be.
type Resolution struct {
	// Spec has Source, one of Image, Package and Remote, Args, and what the
	// registry has of Env, Transport, TargetPort, TargetPath, Proxy.Port (0 when
	// it has none), Proxy.Stateless and Container.Permissions; of Container.Mounts and
	// Container.Network what the person approved. An empty Transport is still to be found
	// out.
	Spec workload.Spec
	// Name is a valid workload name made from the argument.
	Name string
	// Inputs are the variables and headers the entry declares and does not fix,
	// in its order. Defaults that are no secrets are in the Spec already.
	Inputs []Input
	// Notices are sentences the person should see.
	Notices []string
	// Entry is the registry's entry, nil for every other source.
	Entry *registry.Entry
}

// Input is a value that the server takes from the person.
type Input struct {
	Name        string // of the environment variable or header
	Header      bool   // a header of a remote server, not an environment variable
	Description string
	Required    bool
	Secret      bool
	Default     string
	Choices     []string
}

// Resolve determines what the argument means. Its errors have what the person can
// write instead; errors.Is finds registry.ErrNotFound and the registry's other
// errors.
func Resolve(ctx context.Context, req Request) (*Resolution, error) {
	arg := req.Arg
	if arg == "" {
		return nil, errors.New("name a server: a registry name, an image, a package or a URL")
	}
	if strings.ContainsFunc(arg, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return nil, fmt.Errorf("%.200q is no registry name, image, package or URL: there is white space in it", arg)
	}
	if scheme, _, ok := strings.Cut(arg, "://"); ok {
		switch strings.ToLower(scheme) {
		case "http", "https":
			return remote(req)
		case "uvx", "npx", "go":
			return fromPackage(req)
		}
		return nil, fmt.Errorf("%.200q: there is no scheme %.50q; there are http://, https://, npx://, uvx:// and go://", arg, scheme+"://")
	}
	if isPath(arg) {
		return nil, fmt.Errorf("%.200q is a path: an exported configuration is run with --from-config FILE, Go code with go://./DIRECTORY", arg)
	}
	found, missed, err := lookUp(ctx, req)
	if err != nil || found != nil {
		return found, err
	}
	r, err := image(req)
	if err == nil && missed != nil {
		r.notice("%v; it is taken for an image", missed)
	}
	return r, err
}

// isPath reports whether the argument is a file's path, which cannot be run.
func isPath(arg string) bool {
	for _, prefix := range []string{"./", "../", "/", "~", `.\`, `..\`} {
		if strings.HasPrefix(arg, prefix) {
			return true
		}
	}
	switch strings.ToLower(path.Ext(arg)) {
	case ".json", ".yaml", ".yml":
		return true
	}
	return arg == "." || arg == ".."
}

// lookUp looks the argument up in the registry, if it can be a name there. missed is the
// registry's error that it has no such server, when an image may be meant.
func lookUp(ctx context.Context, req Request) (found *Resolution, missed, err error) {
	name, version := registry.SplitVersion(req.Arg)
	if req.Catalog == nil || !registry.ValidName(name) || strings.Contains(version, ":") {
		return nil, nil, nil
	}
	if version == "" && name != req.Arg {
		return nil, nil, fmt.Errorf("%.200q ends in @ without a version", req.Arg)
	}
	catalog, err := req.Catalog()
	if err != nil {
		return nil, nil, err
	}
	entry, err := catalog.Get(ctx, req.Arg)
	switch {
	case err == nil:
		found, err = fromEntry(req, catalog.Location(), entry)
		return found, nil, err
	case !errors.Is(err, registry.ErrNotFound):
		if errors.Is(err, registry.ErrUnreachable) && version == "" {
			err = fmt.Errorf("%w; if you mean an image, write its tag too: %s:latest", err, name)
		}
		return nil, nil, err
	case version != "":
		return nil, nil, err
	case !strings.Contains(name, "/"):
		// A mistyped name must not fetch whatever has that name on a public
		// registry of images.
		return nil, nil, fmt.Errorf("%w; if you mean an image, write its tag too: %s:latest", err, name)
	}
	return nil, err, nil
}

func image(req Request) (*Resolution, error) {
	if _, err := reference.ParseNormalizedNamed(req.Arg); err != nil {
		return nil, fmt.Errorf("%.200q is no registry name, image, package or URL: %w", req.Arg, err)
	}
	return &Resolution{
		Spec: workload.Spec{
			Source: workload.Source{Kind: KindImage, Ref: req.Arg},
			Image:  req.Arg, Args: req.Args, Transport: req.Transport,
		},
		Name: imageName(req.Arg),
	}, nil
}

func remote(req Request) (*Resolution, error) {
	u, err := remoteURL(req.Arg)
	if err != nil {
		return nil, err
	}
	if len(req.Args) > 0 {
		return nil, fmt.Errorf("arguments after -- are for servers that run here, not for %s", u)
	}
	return &Resolution{
		Spec: workload.Spec{
			Source:    workload.Source{Kind: KindRemote, Ref: u.String()},
			Remote:    &workload.Remote{URL: u.String()},
			Transport: req.Transport,
		},
		Name: hostName(u.Hostname()),
	}, nil
}

// remoteURL reads the URL of a remote server.
func remoteURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%.200q is not a URL", text)
	}
	u.Scheme = strings.ToLower(u.Scheme)
	switch {
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, fmt.Errorf("%.200q is not an http(s) URL with a host", text)
	case u.User != nil:
		// Not repeated: it holds a secret.
		return nil, fmt.Errorf("the URL of %s holds a name or password; URLs are shown and stored, so it must not", u.Host)
	case u.Fragment != "":
		return nil, fmt.Errorf("%.200q: a server's URL has no fragment (#%s)", text, u.Fragment)
	}
	return u, nil
}
