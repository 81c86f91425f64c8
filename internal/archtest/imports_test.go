package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/toolhaven/toolhaven"

// pkg is what `go list -json` says of a package, as far as the rules need it.
type pkg struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

// name is the package's path inside the module: "internal/mcp".
func (p pkg) name() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

// ours lists what the package imports of this module, by inner path.
func (p pkg) ours() []string {
	var names []string
	for _, path := range p.Imports {
		if name, ok := strings.CutPrefix(path, module+"/"); ok {
			names = append(names, name)
		}
	}
	return names
}

// packages lists the module's packages for an operating system, once for all
// tests. The rules hold on each system, also where a file is built for only one.
func packages(t *testing.T, goos string) []pkg {
	t.Helper()
	noteSources(t)
	listed.Lock()
	defer listed.Unlock()
	if listed.by[goos] == nil {
		listed.by[goos] = list(t, goos)
	}
	return listed.by[goos]
}

var listed = struct {
	sync.Mutex
	by map[string][]pkg
}{by: map[string][]pkg{}}

func list(t *testing.T, goos string) []pkg {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,TestImports,XTestImports,Deps", "./...")
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0", "GOFLAGS=-tags=integration")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var all []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		// A logger, which sigstore-go brings; it is Kubernetes by name only.
		p.Deps = slices.DeleteFunc(p.Deps, func(dep string) bool { return under(dep, "k8s.io/klog/v2") })
		all = append(all, p)
	}
	if len(all) < 10 {
		t.Fatalf("go list names only %d packages; the rules would hold of nothing", len(all))
	}
	return all
}

// noteSources looks at every Go file, so that go test knows what this test
// depends on and does not answer from its cache when one has changed.
func noteSources(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != ".." {
			return fs.SkipDir
		}
		if filepath.Ext(path) == ".go" {
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func eachPackage(t *testing.T, rule func(t *testing.T, p pkg)) {
	t.Helper()
	for _, goos := range []string{"linux", "darwin", "windows"} {
		t.Run(goos, func(t *testing.T) {
			for _, p := range packages(t, goos) {
				rule(t, p)
			}
		})
	}
}

// under tells whether path is prefix or below it.
func under(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// A heavy dependency is imported in one place, so that replacing it, or leaving
// it out of a program, is a change of one package.
func TestHeavyDependenciesAreImportedInOnePlace(t *testing.T) {
	rules := []struct {
		dependency string
		home       []string // inner paths, with what is below them
		testsToo   bool     // the tests of other packages may use it
	}{
		{"github.com/moby/moby", []string{"internal/container/docker"}, false},
		{"github.com/docker/docker", nil, false}, // superseded by moby/moby
		// The engine's suite is a test that lies in a package of its own.
		{"github.com/google/go-containerregistry", []string{"internal/build", "internal/container/enginetest", "internal/entrypoint", "internal/verify", "tools/images"}, true},
		{"github.com/sigstore", []string{"internal/verify"}, false},
		{"github.com/theupdateframework/go-tuf", []string{"internal/verify"}, false},
		{"github.com/modelcontextprotocol/go-sdk", []string{"internal/cli/mcpcmd", "internal/cli/clitest", "test", "bench"}, true},
		{"github.com/spf13/cobra", []string{"internal/cli", "internal/registry/command", "internal/operator/command", "cmd"}, false},
		{"modernc.org/sqlite", []string{"internal/registry/store/sqlite", "test"}, false},
		{"github.com/jackc/pgx", []string{"internal/registry/store/postgres", "test", "bench"}, false},
		{"github.com/pressly/goose", []string{"internal/registry/store"}, false},
		{"github.com/go-git/go-git", []string{"internal/registry/source"}, false},
		{"github.com/prometheus/client_golang", []string{"internal/registry/server", "internal/telemetry"}, false},
		{"go.opentelemetry.io", []string{"internal/telemetry", "test"}, false},
		{"google.golang.org/grpc", []string{"test"}, false}, // OTLP over gRPC is internal/telemetry/grpc.go
		{"github.com/evanphx/json-patch", []string{"internal/webhook"}, false},
		{"github.com/cedar-policy/cedar-go", []string{"internal/policy"}, false},
		{"github.com/redis/go-redis", []string{"internal/authserver/storage/redis"}, false},
		{"github.com/aws", []string{"internal/credential/aws"}, false},
		{"cel.dev/cel-go", []string{"internal/credential/aws"}, false},
		{"golang.org/x/oauth2", []string{"internal/oauth"}, false},
		{"github.com/tailscale/hujson", []string{"internal/clientconfig/entries"}, false},
		{"github.com/pelletier/go-toml", []string{"internal/clientconfig/entries"}, false},
		{"github.com/go-jose/go-jose", []string{"internal/auth", "internal/authserver", "test", "bench"}, true},
		{"github.com/getkin/kin-openapi", nil, true},
		{"github.com/chromedp/chromedp", []string{"test"}, true},
		{"github.com/hashicorp/yamux", []string{"internal/guest"}, false},
		{"github.com/google/nftables", []string{"internal/guest/shut"}, false},
		{"github.com/mdlayher/netlink", []string{"internal/guest/shut"}, false},
		{"github.com/rogpeppe/go-internal", []string{"test"}, true},
		{"github.com/zalando/go-keyring", []string{"internal/secret/keyring"}, false},
		{"github.com/godbus/dbus", nil, false},
		{"golang.org/x/crypto/argon2", []string{"internal/secret/local"}, true},
	}
	eachPackage(t, func(t *testing.T, p pkg) {
		for _, rule := range rules {
			if slices.ContainsFunc(rule.home, func(home string) bool { return under(p.name(), home) }) {
				continue
			}
			imports := p.Imports
			if !rule.testsToo {
				imports = slices.Concat(imports, p.TestImports, p.XTestImports)
			}
			for _, path := range imports {
				if under(path, rule.dependency) {
					t.Errorf("%s imports %s, which belongs in %s alone", p.name(), path, strings.Join(rule.home, ", "))
				}
			}
		}
	})
}

// The packages at the bottom know nothing of what is built on them.
func TestThePackagesAtTheBottomImportNothingOfOurs(t *testing.T) {
	bottom := []string{"internal/strictjson", "internal/mcp", "internal/guest", "internal/container", "internal/netguard", "internal/plaintext", "internal/process", "internal/seal", "internal/settings", "internal/endpoint", "internal/framing", "internal/headername", "internal/overlay"}
	seen := map[string]bool{}
	eachPackage(t, func(t *testing.T, p pkg) {
		for _, base := range bottom {
			if !under(p.name(), base) {
				continue
			}
			seen[base] = true
			for _, name := range p.ours() {
				// A package below may use the one it belongs to. MCP is written in
				// JSON, and an engine's messages are cleaned.
				allowed := map[string]string{"internal/mcp": "internal/strictjson", "internal/container": "internal/plaintext"}
				if !under(name, base) && allowed[base] != name {
					t.Errorf("%s imports %s; docs/architecture.md says it imports nothing of ours", p.name(), name)
				}
			}
		}
	})
	for _, base := range bottom {
		if !seen[base] {
			t.Errorf("there is no package %s: this rule holds of nothing", base)
		}
	}
}

// Imports point downward: cmd, cli, owner, domain, bottom.
func TestImportsPointDownward(t *testing.T) {
	onlyFrom := map[string][]string{
		"internal/cli": {"cmd"},
		// Below the root of the command line: commands, then what they share.
		"internal/cli/authcmd":     {"internal/cli"},
		"internal/cli/clientcmd":   {"internal/cli"},
		"internal/cli/doctorcmd":   {"internal/cli"},
		"internal/cli/imagecmd":    {"internal/cli"},
		"internal/cli/mcpcmd":      {"internal/cli"},
		"internal/cli/registrycmd": {"internal/cli"},
		"internal/cli/runcmd":      {"internal/cli"},
		"internal/cli/secretcmd":   {"internal/cli"},
		// The registry server's command line, and the server that it starts.
		"internal/registry/command": {"cmd"},
		"internal/registry/server":  {"internal/registry/command"},
		"internal/owner":            {"internal/cli"},
		"internal/operator":         {"cmd", "test/cluster"},
		"internal/serve":            {"internal/owner", "internal/pod"},
		"internal/pod":              {"internal/cli"},
		"test":                      {"test", "bench", "internal/gateway/backend/backendtest"},
		"bench":                     {"bench"},
	}
	never := map[string][]string{
		"internal/cli/clientcmd":   {"internal/cli/mcpcmd", "internal/cli/runcmd", "internal/cli/registrycmd"},
		"internal/cli/authcmd":     {"internal/cli/mcpcmd", "internal/cli/runcmd", "internal/cli/registrycmd"},
		"internal/cli/doctorcmd":   {"internal/cli/mcpcmd", "internal/cli/runcmd", "internal/cli/registrycmd"},
		"internal/cli/imagecmd":    {"internal/cli/mcpcmd", "internal/cli/runcmd", "internal/cli/registrycmd"},
		"internal/cli/mcpcmd":      {"internal/cli/runcmd", "internal/cli/registrycmd"},
		"internal/cli/registrycmd": {"internal/cli/mcpcmd", "internal/cli/runcmd"},
		"internal/cli/runcmd":      {"internal/cli/mcpcmd", "internal/cli/registrycmd"},
		"internal/cli/secretcmd":   {"internal/cli/mcpcmd", "internal/cli/registrycmd", "internal/cli/runcmd"},
		"internal/cli/base":        {"internal/cli/secretcmd", "internal/cli/mcpcmd", "internal/cli/registrycmd", "internal/cli/runcmd"},
		"internal/cli/render":      {"internal/cli/base", "internal/cli/mcpcmd", "internal/cli/registrycmd", "internal/cli/runcmd"},
		// What fronts, stages and backends share knows none of them.
		"internal/exchange": {"internal/gateway", "internal/workload", "internal/guest", "internal/auth"},
		// Signatures of images: no workload, no engine, no command line.
		"internal/verify": {"internal/workload", "internal/container", "internal/manager", "internal/registry", "internal/source", "internal/build", "internal/cli", "internal/owner"},
		// A stage of the gateway: no transport, no era.
		"internal/webhook":   {"internal/gateway", "internal/workload", "internal/runflag", "internal/owner"},
		"internal/audit":     {"internal/gateway", "internal/workload", "internal/runflag", "internal/owner"},
		"internal/auditlog":  {"internal/gateway", "internal/workload", "internal/registry", "internal/audit"},
		"internal/policy":    {"internal/gateway", "internal/workload", "internal/runflag", "internal/owner"},
		"internal/telemetry": {"internal/gateway", "internal/workload", "internal/runflag", "internal/owner"},
		"internal/toolset":   {"internal/gateway", "internal/workload", "internal/runflag", "internal/owner"},
		// Rules of connections: no container, no workload.
		"internal/egress":       {"internal/gateway", "internal/workload", "internal/owner", "internal/guest", "internal/manager", "internal/container", "internal/audit"},
		"internal/gateway":      {"internal/manager", "internal/workload", "internal/container", "internal/registry", "internal/source", "internal/build", "internal/secret"},
		"internal/registry":     {"internal/workload", "internal/container", "internal/gateway", "internal/source", "internal/build"},
		"internal/build":        {"internal/workload", "internal/manager", "internal/gateway", "internal/source", "internal/registry"},
		"internal/workload":     {"internal/manager", "internal/container", "internal/gateway", "internal/source", "internal/build", "internal/registry", "internal/guest"},
		"internal/runflag":      {"internal/manager", "internal/gateway", "internal/source", "internal/build", "internal/registry", "internal/container", "internal/owner"},
		"internal/externalauth": {"internal/gateway", "internal/workload", "internal/manager", "internal/cli", "internal/secret"},
		"internal/secret":       {"internal/workload", "internal/gateway", "internal/container"},
		// Types for other modules: what they need, and no more.
		"api": {"internal/operator", "internal/workload", "internal/gateway", "internal/policy", "internal/webhook"},
		// Identity providers: no server, no configuration beside its spec.
		// The authorization server: it knows no workload and no MCP.
		"internal/authserver":          {"internal/gateway", "internal/workload", "internal/owner", "internal/mcp", "internal/credential", "internal/exchange"},
		"internal/authserver/upstream": {"internal/gateway", "internal/workload", "internal/owner", "internal/secret", "internal/oauthclient", "internal/credential"},
		// Files of MCP clients: they hold URLs and command lines only.
		"internal/clientconfig": {"internal/workload", "internal/manager", "internal/gateway", "internal/secret", "internal/registry"},
		// One validator for whoever needs one: it knows none of them.
		"internal/auth":        {"internal/registry", "internal/gateway", "internal/mcp", "internal/workload"},
		"internal/oauthclient": {"internal/registry", "internal/gateway", "internal/mcp", "internal/workload"},
		// Credentials for servers: no transport, no stage, no configuration.
		"internal/credential": {"internal/gateway", "internal/workload", "internal/owner", "internal/secret", "internal/auth"},
		"internal/oauth":      {"internal/auth", "internal/oauthclient", "internal/registry", "internal/gateway", "internal/mcp", "internal/workload"},
		// Technology at the edge: what a store or a source is, is said above it.
		"internal/registry/store":   {"internal/registry/api", "internal/registry/catalog", "internal/registry/config", "internal/registry/source"},
		"internal/registry/catalog": {"internal/registry/api", "internal/registry/config", "internal/registry/source"},
	}
	eachPackage(t, func(t *testing.T, p pkg) {
		for _, name := range p.ours() {
			for target, from := range onlyFrom {
				mayImport := func(home string) bool { return under(p.name(), home) }
				if under(name, target) && !under(p.name(), target) && !slices.ContainsFunc(from, mayImport) {
					t.Errorf("%s imports %s, which only %s may", p.name(), name, strings.Join(from, ", "))
				}
			}
			for source, targets := range never {
				if !under(p.name(), source) {
					continue
				}
				for _, target := range targets {
					if under(name, target) {
						t.Errorf("%s imports %s: imports point downward (docs/architecture.md)", p.name(), name)
					}
				}
			}
		}
	})
}

// The packages of the backend import each other in one direction, and nothing of the
// front: each transport and the translation can be read without the others.
func TestBackendPackagesImportInOneDirection(t *testing.T) {
	const backend = "internal/gateway/backend"
	allowed := map[string][]string{
		"":             {"/wire", "/paramheader", "/httpconn", "/stdio", "/translate"},
		"/wire":        nil,
		"/correlate":   {"/wire"},
		"/paramheader": {"/wire"},
		"/httpconn":    {"/wire", "/correlate"},
		"/stdio":       {"/wire", "/correlate", "/subscribe"},
		"/subscribe":   {"/wire"},
		"/translate":   {"/wire", "/paramheader", "/subscribe"},
		"/backendtest": nil,
	}
	eachPackage(t, func(t *testing.T, p pkg) {
		if !under(p.name(), backend) {
			return
		}
		targets, known := allowed[strings.TrimPrefix(p.name(), backend)]
		if !known {
			t.Errorf("%s has no rule here", p.name())
		}
		for _, name := range p.ours() {
			if under(name, "internal/gateway") && !slices.Contains(targets, strings.TrimPrefix(name, backend)) {
				t.Errorf("%s imports %s", p.name(), name)
			}
		}
	})
}

// The fronts share httpd and do not import each other. They reach the server by
// internal/exchange only.
func TestFrontPackagesImportInOneDirection(t *testing.T) {
	allowed := map[string][]string{
		"internal/gateway":           {"internal/endpoint", "internal/exchange", "internal/gateway/httpd", "internal/gateway/sessions", "internal/gateway/stateless", "internal/mcp", "internal/seal"},
		"internal/gateway/authn":     {"internal/auth", "internal/endpoint", "internal/exchange", "internal/gateway/httpd"},
		"internal/gateway/httpd":     {"internal/endpoint", "internal/exchange", "internal/mcp", "internal/plaintext", "internal/seal", "internal/taskgroup"},
		"internal/gateway/sessions":  {"internal/endpoint", "internal/exchange", "internal/gateway/httpd", "internal/mcp", "internal/taskgroup"},
		"internal/gateway/stateless": {"internal/exchange", "internal/gateway/httpd", "internal/mcp"},
	}
	eachPackage(t, func(t *testing.T, p pkg) {
		targets, front := allowed[p.name()]
		for _, name := range p.ours() {
			if front && !slices.Contains(targets, name) {
				t.Errorf("%s imports %s", p.name(), name)
			}
		}
	})
}

// What a program carries, directly or not, is what it may do and what it weighs.
func TestProgramsCarryOnlyWhatTheyNeed(t *testing.T) {
	rules := map[string][]string{ // program: what must not be in it
		"cmd/thv": {
			"k8s.io", "sigs.k8s.io", "github.com/google/go-cmp", "github.com/rogpeppe/go-internal",
			"modernc.org/sqlite", "github.com/jackc/pgx", "github.com/go-git/go-git",
			"github.com/google/nftables",
		},
		"cmd/thv-registry": {
			"k8s.io", "sigs.k8s.io", "testing", "github.com/moby/moby", "github.com/modelcontextprotocol/go-sdk", "github.com/hashicorp/yamux",
			"github.com/google/go-containerregistry", "github.com/getkin/kin-openapi", "github.com/chromedp/chromedp",
			module + "/internal/workload", module + "/internal/gateway", module + "/internal/cli",
		},
		"cmd/thv-operator": {
			"testing", "github.com/moby/moby", "github.com/modelcontextprotocol/go-sdk", "github.com/hashicorp/yamux",
			module + "/internal/gateway", module + "/internal/owner", module + "/internal/cli", module + "/internal/secret/keyring",
		},
		"cmd/thv-guest": {
			"net/http", "k8s.io", "sigs.k8s.io", "github.com/moby/moby", "github.com/spf13/cobra",
			"github.com/modelcontextprotocol/go-sdk", module + "/internal/workload", module + "/internal/gateway",
		},
	}
	seen := map[string]bool{}
	eachPackage(t, func(t *testing.T, p pkg) {
		banned, ok := rules[p.name()]
		if !ok {
			return
		}
		seen[p.name()] = true
		for _, dep := range p.Deps {
			for _, b := range banned {
				if under(dep, b) {
					t.Errorf("%s carries %s, which does not belong in it", p.name(), dep)
				}
			}
		}
	})
	for name := range rules {
		if !seen[name] {
			t.Errorf("there is no program %s: this rule holds of nothing", name)
		}
	}
}

// Nothing of ours in thv is made for tests. A dependency of sigstore-go imports the package
// testing, which does nothing there.
func TestThvCarriesNoTests(t *testing.T) {
	imports := map[string][]string{}
	var carried []string
	for _, p := range packages(t, "linux") {
		imports[p.ImportPath] = p.Imports
		if p.name() == "cmd/thv" {
			carried = p.Deps
		}
	}
	if len(carried) == 0 {
		t.Fatal("cmd/thv carries nothing: this rule holds of nothing")
	}
	for _, dep := range carried {
		if slices.Contains(imports[dep], "testing") {
			t.Errorf("cmd/thv carries %s, which imports testing", dep)
		}
	}
}

// Kubernetes belongs to the operator: the command line, the gateway and the registry do not
// carry its libraries.
func TestKubernetesIsInTheOperatorAlone(t *testing.T) {
	homes := []string{"api", "internal/operator", "cmd/thv-operator", "test/kube", "test/cluster", "bench"}
	// Its tests run what the operator makes.
	const testHome = "internal/pod"
	seen := false
	eachPackage(t, func(t *testing.T, p pkg) {
		home := slices.ContainsFunc(homes, func(home string) bool { return under(p.name(), home) })
		deps := p.Deps
		if p.name() != testHome {
			deps = slices.Concat(deps, p.TestImports, p.XTestImports)
		}
		for _, dep := range deps {
			if !under(dep, "k8s.io") && !under(dep, "sigs.k8s.io") {
				continue
			}
			seen = true
			if !home {
				t.Errorf("%s depends on %s", p.name(), dep)
			}
		}
	})
	if !seen {
		t.Error("no package depends on Kubernetes: this rule holds of nothing")
	}
}
