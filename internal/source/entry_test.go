package source

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// entry is a server.json with the given members, resolved by name.
func entry(t *testing.T, members string, req Request) (*Resolution, error) {
	t.Helper()
	req.Arg, req.Catalog = "io.example/a", catalog(t, `{"name": "io.example/a", "version": "1.0.0", `+members+`}`)
	return Resolve(t.Context(), req)
}

func mustEntry(t *testing.T, members string, req Request) *Resolution {
	t.Helper()
	r, err := entry(t, members, req)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const stdio = `"transport": {"type": "stdio"}`

func TestEachKindOfPackageBecomesWhatRuns(t *testing.T) {
	for name, c := range map[string]struct {
		pkg  string
		want workload.Spec
	}{
		"npm":              {`"registryType": "npm", "registryBaseUrl": "https://registry.npmjs.org/", "identifier": "@a/b", "version": "1.0.1", "runtimeHint": "npx", "runtimeArguments": [{"type": "positional", "value": "-y"}], ` + stdio, workload.Spec{Package: &workload.Package{Scheme: "npx", Name: "@a/b", Version: "1.0.1"}, Transport: "stdio"}},
		"pypi":             {`"registryType": "pypi", "identifier": "b", "version": "1.0.1", ` + stdio, workload.Spec{Package: &workload.Package{Scheme: "uvx", Name: "b", Version: "1.0.1"}, Transport: "stdio"}},
		"no transport":     {`"registryType": "npm", "identifier": "b"`, workload.Spec{Package: &workload.Package{Scheme: "npx", Name: "b"}, Transport: "stdio"}},
		"image":            {`"registryType": "oci", "identifier": "ghcr.io/a/b:1", ` + stdio, workload.Spec{Image: "ghcr.io/a/b:1", Transport: "stdio"}},
		"image, unknown":   {`"registryType": "oci", "identifier": "ghcr.io/a/b:1"`, workload.Spec{Image: "ghcr.io/a/b:1"}},
		"image in parts":   {`"registryType": "oci", "registryBaseUrl": "https://ghcr.io", "identifier": "a/b", "version": "1.2", ` + stdio, workload.Spec{Image: "ghcr.io/a/b:1.2", Transport: "stdio"}},
		"image of the hub": {`"registryType": "oci", "registryBaseUrl": "https://docker.io", "identifier": "a/b", "version": "1.2", ` + stdio, workload.Spec{Image: "a/b:1.2", Transport: "stdio"}},
		"image with tag":   {`"registryType": "oci", "identifier": "a/b:1", "version": "2", ` + stdio, workload.Spec{Image: "a/b:1", Transport: "stdio"}},
		"http":             {`"registryType": "oci", "identifier": "a/b:1", "transport": {"type": "streamable-http", "url": "http://localhost:8080/mcp"}`, workload.Spec{Image: "a/b:1", Transport: "streamable-http", TargetPort: 8080, TargetPath: "/mcp"}},
		"http, no path":    {`"registryType": "oci", "identifier": "a/b:1", "transport": {"type": "sse", "url": "http://localhost:8080"}`, workload.Spec{Image: "a/b:1", Transport: "sse", TargetPort: 8080}},
		"http, port by argument": {`"registryType": "oci", "identifier": "a/b:1", "transport": {"type": "sse", "url": "http://localhost:{port}/sse"}, "packageArguments": [{"type": "named", "name": "--port", "default": "9000"}]`,
			workload.Spec{Image: "a/b:1", Transport: "sse", TargetPort: 9000, TargetPath: "/sse", Args: []string{"--port", "9000"}}},
		"http, port by variable": {`"registryType": "oci", "identifier": "a/b:1", "transport": {"type": "sse", "url": "http://localhost:{PORT}/sse"}, "environmentVariables": [{"name": "PORT", "value": "9001"}]`,
			workload.Spec{Image: "a/b:1", Transport: "sse", TargetPort: 9001, TargetPath: "/sse", Env: map[string]string{"PORT": "9001"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := mustEntry(t, `"packages": [{`+c.pkg+`}]`, Request{}).Spec
			got.Source = workload.Source{}
			if c.want.Env == nil {
				c.want.Env = map[string]string{}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestArgumentsOfAPackage(t *testing.T) {
	for name, c := range map[string]struct{ args, want string }{
		"none":                    {``, ""},
		"positional":              {`{"type": "positional", "value": "serve"}, {"type": "positional", "valueHint": "dir", "default": "/data"}`, "serve /data"},
		"named":                   {`{"type": "named", "name": "--port", "value": "80"}, {"type": "named", "name": "--dir=", "value": "/d"}`, "--port 80 --dir=/d"},
		"optional without values": {`{"type": "positional", "valueHint": "x"}, {"type": "named", "name": "--x", "valueHint": "y"}`, ""},
		"a bare flag":             {`{"type": "named", "name": "--on", "isRequired": true}`, "--on"},
		"switches":                {`{"type": "named", "name": "--on", "format": "boolean", "default": "true"}, {"type": "named", "name": "--off", "format": "boolean", "default": "false"}`, "--on"},
		"variables with values":   {`{"type": "positional", "value": "{a}/{b}/{c}", "variables": {"a": {"default": "x"}, "b": {"value": "y"}}}`, "x/y/{c}"},
		"optional variables":      {`{"type": "named", "name": "--u", "value": "{a}", "variables": {"a": {}}}`, ""},
		"no shell reads them":     {`{"type": "positional", "value": "$(touch pwned); \"x\""}`, `$(touch pwned); "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			got := mustEntry(t, `"packages": [{"registryType": "npm", "identifier": "b", `+stdio+`, "packageArguments": [`+c.args+`]}]`, Request{})
			if joined := strings.Join(got.Spec.Args, " "); joined != c.want {
				t.Errorf("%q, want %q", joined, c.want)
			}
		})
	}
}

func TestArgumentsThatAreMissingArePrompted(t *testing.T) {
	members := `"packages": [{"registryType": "npm", "identifier": "b", ` + stdio + `, "packageArguments": [
		{"type": "positional", "value": "serve"}, {"type": "named", "name": "--key", "isRequired": true, "valueHint": "key"},
		{"type": "named", "name": "--url", "value": "https://{host}/x", "variables": {"host": {"isRequired": true}}}, {"type": "positional", "valueHint": "dir", "isRequired": true}]}]`
	_, err := entry(t, members, Request{})
	if err == nil || !strings.Contains(err.Error(), "thv run io.example/a -- serve --key <key> --url https://{host}/x <dir>") {
		t.Errorf("got %v", err)
	}
	got := mustEntry(t, members, Request{Args: []string{"mine"}})
	if d := cmp.Diff([]string{"mine"}, got.Spec.Args); d != "" {
		t.Error(d)
	}
}

const block = `"_meta": {"io.modelcontextprotocol.registry/publisher-provided": {"io.github.stacklok": {"a/b:1": `

func TestHintsBesideServerJSONAreUsed(t *testing.T) {
	got := mustEntry(t, `"packages": [{"registryType": "oci", "identifier": "a/b:1", "transport": {"type": "streamable-http", "url": "http://localhost:80"}}], `+block+
		`{"args": ["--x"], "proxy_port": 9000, "stateless": true, "status": "Deprecated", "permissions": {"network": {"outbound": {"allow_host": ["a.test", ".b.test"], "allow_port": [443, 80]}}}}}}}`, Request{})
	want := workload.Spec{
		Source: got.Spec.Source, Image: "a/b:1", Args: []string{"--x"}, Env: map[string]string{}, Transport: "streamable-http", TargetPort: 80,
		Proxy:     workload.Proxy{Port: 9000, Stateless: true},
		Container: workload.Container{Permissions: workload.Permissions{Network: &workload.Network{Outbound: &workload.Outbound{AllowHost: []string{"a.test", ".b.test"}, AllowPort: []int{443, 80}}}}},
	}
	if d := cmp.Diff(want, got.Spec); d != "" {
		t.Error(d)
	}
	if notices := strings.Join(got.Notices, "\n"); !strings.Contains(notices, "deprecated") {
		t.Errorf("%q does not say that it is deprecated", notices)
	}
}

func TestASystemPackageIsForWhatIsBuiltHere(t *testing.T) {
	for what, c := range map[string]struct {
		pkg, meta string
		want      []string
	}{
		"a package":                {`"registryType": "pypi", "identifier": "b", ` + stdio, `"dev.toolhaven": {"system_packages": ["git", "curl"]}`, []string{"git", "curl"}},
		"an image has its own":     {`"registryType": "oci", "identifier": "b", ` + stdio, `"dev.toolhaven": {"system_packages": ["git"]}`, nil},
		"in another's block, none": {`"registryType": "pypi", "identifier": "b", ` + stdio, `"io.other": {"b": {"system_packages": ["git"]}}`, nil},
	} {
		got := mustEntry(t, `"packages": [{`+c.pkg+`}], "_meta": {"io.modelcontextprotocol.registry/publisher-provided": {`+c.meta+`}}`, Request{}).Spec.Package
		if got == nil {
			got = &workload.Package{}
		}
		if d := cmp.Diff(c.want, got.AddPackages); d != "" {
			t.Errorf("%s: %s", what, d)
		}
	}
}

func TestVariablesBecomeInputs(t *testing.T) {
	got := mustEntry(t, `"packages": [{"registryType": "oci", "identifier": "a/b:1", `+stdio+`,
		"runtimeArguments": [
			{"type": "positional", "value": "run"}, {"type": "named", "name": "--rm"}, {"type": "named", "name": "-i"},
			{"type": "named", "name": "-e", "value": "API_KEY={key}", "isRequired": true, "variables": {"key": {"description": "from your account", "isRequired": true, "isSecret": true, "choices": ["x"]}}},
			{"type": "positional", "value": "--env=FIXED=1"}, {"type": "positional", "value": "-e"}, {"type": "positional", "value": "LATE=2"}],
		"environmentVariables": [
			{"name": "LEVEL", "description": "d", "default": "info", "choices": ["info", "debug"]},
			{"name": "TOKEN", "isRequired": true, "isSecret": true, "default": "placeholder"},
			{"name": "SET", "value": "yes"},
			{"name": "URL", "value": "https://{host}:{port}", "variables": {"host": {"isRequired": true}, "port": {"default": "443"}}},
			{"name": "READY", "value": "{a}-{b}", "variables": {"a": {"default": "1"}, "b": {"value": "2"}}},
			{"name": "JSON", "value": "{\"not\": \"a variable\"}"}]}]`, Request{})
	wantEnv := map[string]string{"LEVEL": "info", "SET": "yes", "READY": "1-2", "JSON": `{"not": "a variable"}`, "FIXED": "1", "LATE": "2"}
	if d := cmp.Diff(wantEnv, got.Spec.Env); d != "" {
		t.Error(d)
	}
	want := []Input{
		{Name: "LEVEL", Description: "d", Default: "info", Choices: []string{"info", "debug"}},
		{Name: "TOKEN", Required: true, Secret: true, Default: "placeholder"},
		{Name: "URL", Required: true, Description: "(in the form https://{host}:443)"},
		{Name: "READY", Default: "1-2"},
		{Name: "API_KEY", Required: true, Secret: true, Description: "from your account", Choices: []string{"x"}},
	}
	if d := cmp.Diff(want, got.Inputs); d != "" {
		t.Error(d)
	}
}

func TestARemoteEntry(t *testing.T) {
	got := mustEntry(t, `"remotes": [{"type": "sse", "url": "https://{region}.example.com/sse", "variables": {"region": {"default": "eu"}}, "headers": [
		{"name": "Authorization", "description": "d", "value": "Bearer {token}", "variables": {"token": {"isRequired": true, "isSecret": true}}},
		{"name": "X-Plain", "default": "1"}, {"name": "X-Fixed", "value": "2"}]}]`, Request{})
	want := workload.Spec{
		Source: got.Spec.Source, Transport: "sse",
		Remote: &workload.Remote{URL: "https://eu.example.com/sse", Headers: map[string]string{"X-Plain": "1", "X-Fixed": "2"}},
	}
	if d := cmp.Diff(want, got.Spec); d != "" {
		t.Error(d)
	}
	inputs := []Input{
		{Name: "Authorization", Header: true, Required: true, Secret: true, Description: "d (in the form Bearer {token})"},
		{Name: "X-Plain", Header: true, Default: "1"},
	}
	if d := cmp.Diff(inputs, got.Inputs); d != "" {
		t.Error(d)
	}
	if !strings.Contains(strings.Join(got.Notices, "\n"), "https://eu.example.com/sse") {
		t.Errorf("nobody is told where requests go: %q", got.Notices)
	}
}

func TestWhichPackageRuns(t *testing.T) {
	members := `"packages": [{"registryType": "mcpb", "identifier": "x"}, {"registryType": "npm", "identifier": "n", ` + stdio + `},
		{"registryType": "oci", "identifier": "o:1", "transport": {"type": "streamable-http", "url": "http://localhost:80"}}], "remotes": [{"type": "sse", "url": "https://x.example"}]`
	if got := mustEntry(t, members, Request{}).Spec; got.Package == nil || got.Package.Name != "n" {
		t.Errorf("without a transport: %+v", got)
	}
	if got := mustEntry(t, members, Request{Transport: "streamable-http"}).Spec; got.Image != "o:1" || got.TargetPort != 80 {
		t.Errorf("streamable-http: %+v", got)
	}
	if got := mustEntry(t, members, Request{Transport: "sse"}).Spec; got.Package == nil || got.Transport != "sse" || got.TargetPort != 0 {
		t.Errorf("a transport that no package declares: %+v", got)
	}
	onlyRemote := `"packages": [{"registryType": "mcpb", "identifier": "x"}], "remotes": [{"type": "sse", "url": "https://x.example"}, {"type": "streamable-http", "url": "https://y.example"}]`
	if got := mustEntry(t, onlyRemote, Request{}).Spec; got.Remote == nil || got.Remote.URL != "https://x.example" {
		t.Errorf("a remote: %+v", got)
	}
	if got := mustEntry(t, onlyRemote, Request{Transport: "streamable-http"}).Spec; got.Remote.URL != "https://y.example" {
		t.Errorf("a remote by transport: %+v", got)
	}
}

// A registry's word chooses a program. It never opens the host.
func TestWhatARegistryMayNotGrantIsRefusedUntilThePersonDoes(t *testing.T) {
	image := func(more string) string {
		return `"packages": [{"registryType": "oci", "identifier": "a/b:1", ` + stdio + more + `}]`
	}
	hints := func(permissions string) string {
		return image("") + ", " + block + `{"permissions": ` + permissions + `}}}}`
	}
	for name, c := range map[string]struct {
		members string
		flag    string  // that the error must name
		grant   Request // with which it runs; nil Arg: nothing grants it
		granted bool
	}{
		"read mounts":            {hints(`{"read": ["/etc"]}`), "-v", Request{Mounts: true}, true},
		"write mounts":           {hints(`{"write": ["/home:/home"]}`), "-v", Request{Mounts: true}, true},
		"mounts, own profile":    {hints(`{"write": ["/home:/home"]}`), "-v", Request{Permissions: true}, true},
		"privileged":             {hints(`{"privileged": true}`), "--permission-profile", Request{Permissions: true}, true},
		"privileged, own mounts": {hints(`{"privileged": true}`), "--permission-profile", Request{Mounts: true, Network: true}, false},
		"host network":           {hints(`{"network": {"mode": "host"}}`), "--network host", Request{Network: true}, true},
		"another's network":      {hints(`{"network": {"mode": "container:db"}}`), "--network container:db", Request{Network: true}, true},
		"an unknown permission":  {hints(`{"netwrok": {}}`), `did you mean "network"?`, Request{Mounts: true, Network: true}, false},
		"docker -v":              {image(`, "runtimeArguments": [{"type": "named", "name": "-v", "value": "/:/host"}]`), "-v", Request{Mounts: true}, true},
		"docker --mount":         {image(`, "runtimeArguments": [{"type": "named", "name": "--mount", "value": "type=bind,src=/,dst=/h"}]`), "-v", Request{Mounts: true}, true},
		"docker -v, positional":  {image(`, "runtimeArguments": [{"type": "positional", "value": "--volume=/:/host"}]`), "-v", Request{}, false},
		"docker -v, two words":   {image(`, "runtimeArguments": [{"type": "positional", "value": "-v"}, {"type": "positional", "value": "/:/host"}]`), "-v", Request{Mounts: true}, true},
		"docker --network":       {image(`, "runtimeArguments": [{"type": "named", "name": "--network", "value": "host"}]`), "--network host", Request{Network: true}, true},
		"docker --privileged":    {image(`, "runtimeArguments": [{"type": "named", "name": "--privileged"}]`), "--permission-profile", Request{Permissions: true}, true},
		"docker --cap-add":       {image(`, "runtimeArguments": [{"type": "named", "name": "--cap-add", "value": "ALL"}]`), "thv run a/b:1", Request{Permissions: true, Mounts: true, Network: true}, false},
		"docker --entrypoint":    {image(`, "runtimeArguments": [{"type": "named", "name": "--entrypoint", "value": "sh"}]`), "--entrypoint", Request{Permissions: true}, false},
		"npx --package":          {`"packages": [{"registryType": "npm", "identifier": "b", ` + stdio + `, "runtimeArguments": [{"type": "named", "name": "--package", "value": "evil"}]}]`, "--package", Request{Permissions: true}, false},
		"uvx --from":             {`"packages": [{"registryType": "pypi", "identifier": "b", ` + stdio + `, "runtimeArguments": [{"type": "named", "name": "--from", "value": "git+https://evil"}]}]`, "--from", Request{Permissions: true}, false},
		"another npm":            {`"packages": [{"registryType": "npm", "registryBaseUrl": "https://npm.corp.example", "identifier": "b", ` + stdio + `}]`, "https://npm.corp.example", Request{}, false},
		"a URL as npm package":   {`"packages": [{"registryType": "npm", "identifier": "git+https://evil", ` + stdio + `}]`, "not the name of a package", Request{}, false},
		"a file as npm package":  {`"packages": [{"registryType": "npm", "identifier": "file:../x", ` + stdio + `}]`, "not the name of a package", Request{}, false},
		"a local Go directory":   {`"_meta": {"io.modelcontextprotocol.registry/publisher-provided": {"dev.toolhaven": {"package": "go://../x"}}}`, "not the name of a package", Request{}, false},
		"an image that is none":  {`"packages": [{"registryType": "oci", "identifier": "--privileged", ` + stdio + `}]`, "not an image reference", Request{}, false},
		"a file as remote":       {`"remotes": [{"type": "sse", "url": "file:///etc/passwd"}]`, "http(s)", Request{}, false},
		"an unknown transport":   {`"packages": [{"registryType": "npm", "identifier": "b", "transport": {"type": "pigeon"}}]`, "pigeon", Request{}, false},
		"a remote over stdio":    {`"remotes": [{"type": "stdio", "url": "https://x.example"}]`, "stdio", Request{}, false},
		"HTTPS in the container": {`"packages": [{"registryType": "npm", "identifier": "b", "transport": {"type": "sse", "url": "https://localhost:1"}}]`, "not an http URL", Request{}, false},
		"only other packages":    {`"packages": [{"registryType": "nuget", "identifier": "b"}, {"registryType": "mcpb", "identifier": "c"}]`, "nuget and mcpb", Request{}, false},
		"nothing to run":         {`"description": "d"`, "neither a package to run", Request{}, false},
		"deleted":                {`"status": "deleted", "packages": [{"registryType": "npm", "identifier": "b"}]`, "deleted", Request{}, false},
		"an unknown URL part":    {`"remotes": [{"type": "sse", "url": "https://{tenant}.x.example", "variables": {"tenant": {"isRequired": true}}}]`, "thv run 'https://{tenant}.x.example'", Request{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := entry(t, c.members, Request{})
			if err == nil || !strings.Contains(err.Error(), c.flag) || !strings.Contains(err.Error(), "io.example/a") {
				t.Fatalf("%v does not name %s and the server", err, c.flag)
			}
			got, err := entry(t, c.members, c.grant)
			if (err == nil) != c.granted {
				t.Fatalf("with a grant: %v", err)
			}
			if err != nil {
				return
			}
			// Even then nothing of it is taken from the registry.
			container := got.Spec.Container
			if p := container.Permissions; p.Privileged || len(p.Read)+len(p.Write)+len(container.Mounts) > 0 || container.Network != "" || p.Network != nil && p.Network.Mode != "" {
				t.Errorf("it was taken from the registry: %+v", container)
			}
		})
	}
}

func TestWhatThePersonApprovesIsTakenFromARegistry(t *testing.T) {
	dir := t.TempDir()
	image := func(arguments, permissions string) string {
		return `"packages": [{"registryType": "oci", "identifier": "a/b:1", ` + stdio + `, "runtimeArguments": [` + arguments + `]}], ` + block + `{"permissions": ` + permissions + `}}}}`
	}
	named := func(flag, value string) string {
		return `{"type": "named", "name": "` + flag + `", "value": "` + value + `"}`
	}
	outbound := &workload.Network{Outbound: &workload.Outbound{InsecureAllowAll: true}}
	for name, c := range map[string]struct {
		members string
		grants  []string
		want    workload.Container
	}{
		"privileged": {image("", `{"privileged": true}`), []string{"a privileged container"}, workload.Container{Permissions: workload.Permissions{Privileged: true}}},
		"docker --privileged": {image(`{"type": "named", "name": "--privileged"}`, `null`), []string{"a privileged container"},
			workload.Container{Permissions: workload.Permissions{Name: "network", Privileged: true, Network: outbound}}},
		"both": {image(`{"type": "named", "name": "--privileged"}`, `{"network": {"mode": "host"}}`), []string{"a privileged container", `the network "host"`},
			workload.Container{Network: "host", Permissions: workload.Permissions{Privileged: true, Network: &workload.Network{}}}},
		"docker --network": {image(named("--network", "db"), `{"name": "x"}`), []string{`the network "db"`}, workload.Container{Network: "db", Permissions: workload.Permissions{Name: "x"}}},
		"mounts": {image("", `{"read": ["`+dir+`:/data"]}`), []string{"the mounts " + dir + ":/data"},
			workload.Container{Mounts: []workload.Mount{{Host: dir, Container: "/data", ReadOnly: true}}}},
		"docker -v": {image(named("-v", dir+":/data"), `{"name": "x"}`), []string{"a mount (-v " + dir + ":/data)"},
			workload.Container{Mounts: []workload.Mount{{Host: dir, Container: "/data"}}, Permissions: workload.Permissions{Name: "x"}}},
		"docker --mount": {image(named("--mount", "type=bind,src="+dir+",dst=/data,readonly"), `{"name": "x"}`), []string{"a mount (--mount type=bind,src=" + dir + ",dst=/data,readonly)"},
			workload.Container{Mounts: []workload.Mount{{Host: dir, Container: "/data", ReadOnly: true}}, Permissions: workload.Permissions{Name: "x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			var grants []string
			approve := func(g Grant) (bool, error) { grants = append(grants, g.What); return true, nil }
			got := mustEntry(t, c.members, Request{Approve: approve})
			if d := cmp.Diff(c.want, got.Spec.Container); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(c.grants, grants); d != "" {
				t.Errorf("requested: %s", d)
			}
			deny := func(Grant) (bool, error) { return false, nil }
			if _, err := entry(t, c.members, Request{Approve: deny}); err == nil || !strings.Contains(err.Error(), c.grants[0]) {
				t.Errorf("without approval: %v", err)
			}
		})
	}
	for name, members := range map[string]string{
		"a relative path":    image("", `{"read": ["data:/data"]}`),
		"nothing to mount":   image("", `{"read": ["/no/such/directory"]}`),
		"a volume":           image(named("--mount", "type=volume,src=db,dst=/data"), `null`),
		"an unknown option":  image(named("--mount", "type=bind,src=/,dst=/h,bind-propagation=shared"), `null`),
		"a template":         image(named("-v", "{folder}:/data"), `null`),
		"over the container": image(named("-v", dir+":/"), `null`),
	} {
		approve := func(g Grant) (bool, error) { t.Errorf("%s: requested %s", name, g.What); return true, nil }
		if _, err := entry(t, members, Request{Approve: approve}); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestLessThanTheDefaultIsTakenFromARegistry(t *testing.T) {
	got := mustEntry(t, `"packages": [{"registryType": "oci", "identifier": "a/b:1", `+stdio+`}], `+block+`{"permissions": {"name": "x", "network": {"mode": "none", "outbound": {}}}}}}}`, Request{})
	want := workload.Permissions{Name: "x", Network: &workload.Network{Mode: "none", Outbound: &workload.Outbound{}}}
	if d := cmp.Diff(want, got.Spec.Container.Permissions); d != "" {
		t.Error(d)
	}
}

// runnableSpec completes what the command line and the image would, so that the
// one check of Specs can be called.
func runnableSpec(s workload.Spec, name string) *workload.Spec {
	s.Schema, s.Name = workload.Schema, name
	s.Proxy.Host, s.Proxy.Mode = "127.0.0.1", "streamable-http"
	if s.Proxy.Port == 0 {
		s.Proxy.Port = 20000
	}
	if s.Package != nil {
		s.Image = "thv.local/built:1"
	}
	if s.Remote == nil && s.Transport != workload.Stdio {
		s.TargetHost = "127.0.0.1"
	}
	return &s
}

func resolveAll(t *testing.T, location string, args []string) {
	t.Helper()
	c, err := registry.Open(location, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.List(t.Context())
	if err != nil || len(all.Entries) == 0 {
		t.Fatalf("%s: %d entries, %v", location, len(all.Entries), err)
	}
	for _, e := range all.Entries {
		req := Request{Arg: e.Name, Catalog: func() (registry.Catalog, error) { return c, nil }}
		if len(e.Packages) > 0 {
			req.Args = args
		}
		r, err := Resolve(t.Context(), req)
		if err != nil {
			t.Errorf("%s: %v", location, err)
			continue
		}
		if err := workload.Validate(runnableSpec(r.Spec, r.Name)); err != nil {
			t.Errorf("%s: %s: %v", location, e.Name, err)
		}
	}
}

func TestEveryBuiltInServerCanBeRun(t *testing.T) {
	resolveAll(t, "", []string{"argument"})
	open := func() (registry.Catalog, error) { return registry.Open("", nil, nil) }
	if _, err := Resolve(t.Context(), Request{Arg: "filesystem", Catalog: open}); err == nil || !strings.Contains(err.Error(), "thv run filesystem -- <directory>") {
		t.Errorf("filesystem without a folder: %v", err)
	}
	r, err := Resolve(t.Context(), Request{Arg: "everything-go", Catalog: open})
	if git, err := Resolve(t.Context(), Request{Arg: "git", Catalog: open}); err != nil || cmp.Diff([]string{"git"}, git.Spec.Package.AddPackages) != "" {
		t.Errorf("the server of Git repositories without Git: %+v, %v", git, err)
	}
	want := &workload.Package{Scheme: "go", Name: "github.com/modelcontextprotocol/go-sdk/examples/server/everything", Version: "v1.8.0"}
	if err != nil || cmp.Diff(want, r.Spec.Package) != "" {
		t.Errorf("everything-go: %+v, %v", r, err)
	}
}

// Registry files as users have them. They are not part of the project: set
// THV_TEST_REGISTRY_DATA to a directory that holds them.
func TestEveryServerOfRealFilesCanBeRun(t *testing.T) {
	dir := os.Getenv("THV_TEST_REGISTRY_DATA")
	if dir == "" {
		t.Skip("SKIPPED: THV_TEST_REGISTRY_DATA does not name a directory of real registry files")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no registry files in %s: %v", dir, err)
	}
	for _, file := range files {
		resolveAll(t, file, nil)
	}
}
