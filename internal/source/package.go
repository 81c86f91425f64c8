package source

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/toolhaven/toolhaven/internal/workload"
)

// ParsePackage reads npx://NAME[@VERSION], uvx://NAME[@VERSION] (NAME==VERSION
// too) or go://PATH[@VERSION]. A directory of Go code (./x, ../x, an absolute
// path) is kept as it was written. The names themselves are checked by the
// build.
func ParsePackage(arg string) (*workload.Package, error) {
	scheme, rest, _ := strings.Cut(arg, "://")
	p := &workload.Package{Scheme: strings.ToLower(scheme), Name: rest}
	switch p.Scheme {
	case "npx", "uvx", "go":
	default:
		return nil, fmt.Errorf("%.200q is not a package: it starts with npx://, uvx:// or go://", arg)
	}
	if p.Scheme == "go" && isLocal(rest) {
		return p, nil
	}
	if name, version, ok := strings.Cut(rest, "=="); ok && p.Scheme == "uvx" {
		p.Name, p.Version = name, version
	} else if at := strings.LastIndex(rest, "@"); at > 0 { // the @ of an npm scope comes first
		p.Name, p.Version = rest[:at], rest[at+1:]
	}
	if p.Name == "" || p.Name == "@" {
		return nil, fmt.Errorf("%.200q names no package", arg)
	}
	if p.Version == "" && p.Name != rest {
		return nil, fmt.Errorf("%.200q ends without a version", arg)
	}
	return p, nil
}

// isLocal distinguishes a directory from a module's path, as the go command does.
func isLocal(p string) bool {
	return p == "." || p == ".." || strings.HasPrefix(p, "./") || strings.HasPrefix(p, "../") || filepath.IsAbs(p)
}

func fromPackage(req Request) (*Resolution, error) {
	p, err := ParsePackage(req.Arg)
	if err != nil {
		return nil, err
	}
	return &Resolution{
		Spec: workload.Spec{
			Source:  workload.Source{Kind: KindPackage, Ref: req.Arg},
			Package: p, Args: req.Args, Transport: orStdio(req.Transport),
		},
		Name: packageName(p),
	}, nil
}

// orStdio: packages are programs with the stdio transport, unless another is given.
func orStdio(t workload.Transport) workload.Transport {
	if t == "" {
		return workload.Stdio
	}
	return t
}
