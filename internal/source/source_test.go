package source

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// catalog is a registry file with the given server.json objects.
func catalog(t *testing.T, servers ...string) func() (registry.Catalog, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "registry.json")
	content := `{"version": "1.0.0", "data": {"servers": [` + strings.Join(servers, ",") + `]}}`
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return func() (registry.Catalog, error) { return registry.Open(path, nil, nil) }
}

// untouched fails when the registry is called.
func untouched(t *testing.T) func() (registry.Catalog, error) {
	return func() (registry.Catalog, error) {
		t.Error("the registry was asked")
		return nil, errors.New("asked")
	}
}

func TestWhatNeedsNoRegistryIsDecidedWithoutIt(t *testing.T) {
	for arg, want := range map[string]Resolution{
		"https://mcp.example.com/mcp?x=1": {Name: "example", Spec: workload.Spec{
			Source: workload.Source{Kind: "remote", Ref: "https://mcp.example.com/mcp?x=1"}, Remote: &workload.Remote{URL: "https://mcp.example.com/mcp?x=1"}}},
		"HTTP://127.0.0.1:8080": {Name: "ip-127-0-0-1", Spec: workload.Spec{
			Source: workload.Source{Kind: "remote", Ref: "http://127.0.0.1:8080"}, Remote: &workload.Remote{URL: "http://127.0.0.1:8080"}}},
		"npx://@scope/pkg@1.2.3": {Name: "scope-pkg", Spec: workload.Spec{
			Source: workload.Source{Kind: "package", Ref: "npx://@scope/pkg@1.2.3"}, Transport: "stdio", Package: &workload.Package{Scheme: "npx", Name: "@scope/pkg", Version: "1.2.3"}}},
		"npx://@scope/pkg": {Name: "scope-pkg", Spec: workload.Spec{
			Source: workload.Source{Kind: "package", Ref: "npx://@scope/pkg"}, Transport: "stdio", Package: &workload.Package{Scheme: "npx", Name: "@scope/pkg"}}},
		"uvx://mcp-server-time==2026.1.26": {Name: "mcp-server-time", Spec: workload.Spec{
			Source: workload.Source{Kind: "package", Ref: "uvx://mcp-server-time==2026.1.26"}, Transport: "stdio", Package: &workload.Package{Scheme: "uvx", Name: "mcp-server-time", Version: "2026.1.26"}}},
		"go://example.com/m/cmd/x@v1.2.3": {Name: "example-com-m-cmd-x", Spec: workload.Spec{
			Source: workload.Source{Kind: "package", Ref: "go://example.com/m/cmd/x@v1.2.3"}, Transport: "stdio", Package: &workload.Package{Scheme: "go", Name: "example.com/m/cmd/x", Version: "v1.2.3"}}},
		"go://./cmd/my@server": {Name: "cmd-my-server", Spec: workload.Spec{
			Source: workload.Source{Kind: "package", Ref: "go://./cmd/my@server"}, Transport: "stdio", Package: &workload.Package{Scheme: "go", Name: "./cmd/my@server"}}},
		"ghcr.io/org/server:1.2": {Name: "org-server", Spec: workload.Spec{
			Source: workload.Source{Kind: "image", Ref: "ghcr.io/org/server:1.2"}, Image: "ghcr.io/org/server:1.2"}},
		"localhost:5000/x": {Name: "localhost-x", Spec: workload.Spec{
			Source: workload.Source{Kind: "image", Ref: "localhost:5000/x"}, Image: "localhost:5000/x"}},
		"local:dev": {Name: "local", Spec: workload.Spec{
			Source: workload.Source{Kind: "image", Ref: "local:dev"}, Image: "local:dev"}},
		"ghcr.io/a/b/c": {Name: "b-c", Spec: workload.Spec{
			Source: workload.Source{Kind: "image", Ref: "ghcr.io/a/b/c"}, Image: "ghcr.io/a/b/c"}},
		"x@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef": {Name: "x", Spec: workload.Spec{
			Source: workload.Source{Kind: "image", Ref: "x@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
			Image:  "x@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}},
	} {
		t.Run(arg, func(t *testing.T) {
			got, err := Resolve(t.Context(), Request{Arg: arg, Catalog: untouched(t)})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(&want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestArgumentsAndTransportAreThePersons(t *testing.T) {
	for _, arg := range []string{"npx://x", "go://./x", "image:1"} {
		got, err := Resolve(t.Context(), Request{Arg: arg, Args: []string{"--a", "b"}, Transport: workload.SSE})
		if err != nil || cmp.Diff([]string{"--a", "b"}, got.Spec.Args) != "" || got.Spec.Transport != workload.SSE {
			t.Errorf("%s: %+v, %v", arg, got, err)
		}
	}
}

func TestWhatIsNothingIsRefusedWithTheWayToWriteIt(t *testing.T) {
	for arg, says := range map[string][]string{
		"":                         {"name a server"},
		"Not An Image!!":           {"Not An Image", "white space"},
		"a\x1bb":                   {"white space"},
		"ftp://x":                  {"ftp://", "npx://", "https://"},
		"pip://x":                  {"pip://", "uvx://"},
		"docker://x":               {"docker://"},
		"https://":                 {"host"},
		"https://me:secret@x.test": {"name or password", "x.test"},
		"https://x.test/#frag":     {"fragment"},
		"https://%zz":              {"not a URL"},
		"npx://":                   {"no package"},
		"npx://@":                  {"no package"},
		"npx://x@":                 {"without a version"},
		"uvx://x==":                {"without a version"},
		"./server.json":            {"path", "--from-config"},
		"config.yaml":              {"--from-config"},
		"../x":                     {"go://"},
		"/etc/passwd":              {"path"},
		"name@":                    {"without a version"},
		"UPPER:case":               {"UPPER:case", "lowercase"},
		"a:b:c":                    {"a:b:c"},
		"$(touch pwned)":           {"white space"},
		"--privileged:x":           {"--privileged:x"},
	} {
		_, err := Resolve(t.Context(), Request{Arg: arg, Catalog: untouched(t)})
		if err == nil {
			t.Errorf("%q was accepted", arg)
			continue
		}
		for _, s := range says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%q: %q does not say %q", arg, err, s)
			}
		}
		if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%q: %q repeats what it should not", arg, err)
		}
	}
	if _, err := Resolve(t.Context(), Request{Arg: "https://x.test", Args: []string{"a"}}); err == nil {
		t.Error("arguments for a remote server were accepted")
	}
}

func TestANameIsLookedUpBeforeItIsAnImage(t *testing.T) {
	open := catalog(t, `{"name": "org/server", "version": "2.0.0", "packages": [{"registryType": "npm", "identifier": "the-server", "version": "1.2.3", "transport": {"type": "stdio"}}]}`)
	c, _ := open()
	for arg, name := range map[string]string{"org/server": "org-server", "server": "server", "server@2.0.0": "server", "org/server@latest": "org-server"} {
		got, err := Resolve(t.Context(), Request{Arg: arg, Catalog: open})
		if err != nil {
			t.Fatal(err)
		}
		want := workload.Spec{
			Source:  workload.Source{Kind: "registry", Ref: arg, Registry: c.Location(), Version: "2.0.0"},
			Package: &workload.Package{Scheme: "npx", Name: "the-server", Version: "1.2.3"}, Transport: "stdio", Env: map[string]string{},
		}
		if d := cmp.Diff(want, got.Spec); d != "" || got.Name != name || got.Entry == nil {
			t.Errorf("%s: %s %s", arg, got.Name, d)
		}
	}
	// org/other is not there and may be an image; a notice has it.
	got, err := Resolve(t.Context(), Request{Arg: "org/other", Catalog: open})
	if err != nil || got.Spec.Image != "org/other" || len(got.Notices) != 1 || !strings.Contains(got.Notices[0], "org/other") {
		t.Errorf("%+v, %v", got, err)
	}
	// A word alone is not: a typo must not fetch a stranger's image.
	_, err = Resolve(t.Context(), Request{Arg: "servre", Catalog: open})
	if !errors.Is(err, registry.ErrNotFound) || !strings.Contains(err.Error(), "did you mean server?") || !strings.Contains(err.Error(), "servre:latest") {
		t.Errorf("got %v", err)
	}
	if _, err := Resolve(t.Context(), Request{Arg: "org/other@1.0.0", Catalog: open}); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestARegistryThatDoesNotAnswerIsAnError(t *testing.T) {
	broken := func(location string) func() (registry.Catalog, error) {
		return func() (registry.Catalog, error) { return registry.Open(location, http.DefaultClient, nil) }
	}
	missing := filepath.Join(t.TempDir(), "none.json")
	for arg, hint := range map[string]string{"server": "server:latest", "org/server": "org/server:latest"} {
		for _, location := range []string{missing, "http://127.0.0.1:1"} {
			_, err := Resolve(t.Context(), Request{Arg: arg, Catalog: broken(location)})
			if !errors.Is(err, registry.ErrUnreachable) || !strings.Contains(err.Error(), location) || !strings.Contains(err.Error(), hint) {
				t.Errorf("%s: %v", arg, err)
			}
		}
	}
	opened := errors.New("no configuration")
	if _, err := Resolve(t.Context(), Request{Arg: "x", Catalog: func() (registry.Catalog, error) { return nil, opened }}); !errors.Is(err, opened) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Resolve(ctx, Request{Arg: "x", Catalog: broken("http://127.0.0.1:1")}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestGeneratedNames(t *testing.T) {
	long := "go://" + strings.Repeat("segment/", 20) + "server"
	for arg, want := range map[string]string{
		"https://api.github.com":         "github",
		"https://example.co.uk/mcp":      "example",
		"https://mcp.example.com.au":     "example",
		"https://localhost:3000/mcp":     "localhost",
		"http://[::1]:80/":               "ip-1",
		"http://[fe80::1%25eth0]/":       "ip-fe80-1",
		"http://10.0.0.1":                "ip-10-0-0-1",
		"https://EXAMPLE.com.":           "example",
		"npx://@modelcontextprotocol/xy": "modelcontextprotocol-xy",
		"npx://pkg@1.2.3":                "pkg",
		"go://../x":                      "x",
		"go://.":                         "source", // this directory's
		"go:///srv/my.server":            "my-server",
		"go://github.com/modelcontextprotocol/go-sdk/examples/server/everything@v1.8.0": "modelcontextprotocol-go-sdk-examples-server-everything",
		long:                               "segment-segment-segment-segment-segment-segment-segment-server",
		"uvx://" + strings.Repeat("x", 90): strings.Repeat("x", 63),
		"ghcr.io/github/server:v1":         "github-server",
		"a.b-c_d:1":                        "a-b-c_d",
		"x---y:1":                          "x-y",
	} {
		got, err := Resolve(t.Context(), Request{Arg: arg})
		if err != nil {
			t.Errorf("%s: %v", arg, err)
			continue
		}
		if got.Name != want {
			t.Errorf("%s: %q, want %q", arg, got.Name, want)
		}
		if err := workload.ValidName(got.Name); err != nil {
			t.Error(err)
		}
	}
}

func FuzzResolve(f *testing.F) {
	for _, arg := range []string{"https://x.test/mcp", "npx://@a/b@1", "go://./x", "ghcr.io/a/b:1", "name", "name@1", "uvx://x==1", "http://[::1%25x]"} {
		f.Add(arg)
	}
	f.Fuzz(func(t *testing.T, arg string) {
		got, err := Resolve(context.Background(), Request{Arg: arg, Catalog: func() (registry.Catalog, error) { return registry.Open("", nil, nil) }})
		if err != nil {
			return
		}
		if err := workload.ValidName(got.Name); err != nil {
			t.Error(err)
		}
		ways := 0
		for _, is := range []bool{got.Spec.Image != "", got.Spec.Package != nil, got.Spec.Remote != nil} {
			if is {
				ways++
			}
		}
		if ways != 1 {
			t.Errorf("%q is %d things: %s", arg, ways, fmt.Sprintf("%+v", got.Spec))
		}
	})
}
