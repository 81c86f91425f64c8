//go:build integration

package scenario

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/test/idp"
	"github.com/toolhaven/toolhaven/test/otlp"
)

// parallel is how many scripts run at a time, unless -parallel is given. They wait
// for the engine and for package registries most of the time.
const parallel = "3"

// TestMain fails without what `make test` installs: skipping would hide that
// nothing was tested.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", parallel); err != nil { // before it is parsed: the command line wins
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	flag.Parse()
	if err := prerequisites(); err != nil {
		fmt.Fprintf(os.Stderr, "the scenarios cannot run: %v; `make test` prepares everything\n", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func prerequisites() error {
	if _, err := os.Stat(thvPath()); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(clientsDir(), "node")); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(repo(), "test", ".cache", "python-clients", "1")); err != nil {
		return err
	}
	if out, err := exec.Command("docker", "version").CombinedOutput(); err != nil {
		return fmt.Errorf("no container engine: %w\n%s", err, out)
	}
	return nil
}

func repo() string {
	dir, err := filepath.Abs("../..")
	if err != nil {
		panic(err) // the working directory is gone
	}
	return dir
}

// thvPath is the program under test; THV_UNDER_TEST names another build of it.
func thvPath() string {
	if path := os.Getenv("THV_UNDER_TEST"); path != "" {
		return path
	}
	return filepath.Join(repo(), "bin", "thv")
}

func clientsDir() string { return filepath.Join(repo(), "test", ".cache", "clients") }

func TestScripts(t *testing.T) { testscript.Run(t, params("")) }

// onPodman are the scripts about what the engine and the kernel enforce.
// THV_TEST_PODMAN_MORE adds moreOnPodman, which take minutes (make podman-test).
var (
	onPodman     = []string{"doctor", "escapes", "hardening", "isolate", "services"}
	moreOnPodman = []string{"approve", "disk", "flags", "ignore", "image-verification", "mounts", "upgrade"}
)

// TestScriptsOnPodman runs some of the scripts with the other engine.
func TestScriptsOnPodman(t *testing.T) {
	socket := os.Getenv("THV_TEST_PODMAN")
	if socket == "" {
		t.Skip("THV_TEST_PODMAN names no socket; `make test` starts a Podman and sets it (test/setup/podman.sh)")
	}
	p := params(socket)
	p.Dir = ""
	names := onPodman
	if os.Getenv("THV_TEST_PODMAN_MORE") != "" {
		names = slices.Concat(onPodman, moreOnPodman)
	}
	for _, name := range names {
		p.Files = append(p.Files, filepath.Join("testdata", name+".txtar"))
	}
	testscript.Run(t, p)
}

// params runs all scripts with the engine at a socket, or the machine's own.
func params(engine string) testscript.Params {
	locks := nameLocks{locks: map[string]*sync.Mutex{}}
	gateway := sync.OnceValues((&place{engine: engine}).gateway)
	return testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			t, err := testOf(env)
			if err != nil {
				return err
			}
			unlock, err := locks.lockScript(t.Name())
			if err != nil {
				return err
			}
			env.Defer(unlock)
			address, err := gateway()
			if err != nil {
				return err
			}
			env.Vars = append(env.Vars, "GATEWAY="+address)
			return setup(env, t, engine)
		},
		Cmds:                commands(),
		Condition:           condition,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	}
}

// testOf returns the test of a script.
func testOf(env *testscript.Env) (testing.TB, error) {
	t, ok := env.T().(testing.TB)
	if !ok {
		return nil, errors.New("testscript's T is not testing's")
	}
	return t, nil
}

// condition evaluates the conditions of scripts: [root] for steps that only root can do,
// such as mounting a small disk; [ipv6] for those that need an IPv6 address of this machine;
// [rootless] for those that need the Podman of a user without privileges.
func condition(name string) (bool, error) {
	switch name {
	case "root":
		return os.Geteuid() == 0, nil
	case "rootless":
		return os.Getenv("THV_TEST_ROOTLESS") != "", nil
	case "ipv6":
		_, six, err := machineAddresses()
		return six != "", err
	}
	return false, fmt.Errorf("unknown condition %q", name)
}

// place is where one script, or one Go test, has its thv.
type place struct {
	state, runtime, config string
	// engine is the socket of the container engine; "" is the machine's own.
	engine string
	// idp is the identity provider that a script has started; nil for none.
	idp *idp.Provider
	// approve logs a user in at the provider that a script has started last: it fills in the
	// pages of an authorization request, and returns the address at which they end.
	approve func(t testing.TB, authorize, user string) string
	// secrets are those that the script has used, and work is its directory.
	secrets secrets
	work    string
	// collector is the last one that a script has started; nil for none.
	collector *otlp.Collector
	// cloud is the AWS that a script has started; nil for none.
	cloud *cloud
}

// newPlace makes directories with short paths: sockets live in them.
func newPlace() (*place, error) {
	dir, err := os.MkdirTemp("", "thv")
	if err != nil {
		return nil, err
	}
	p := &place{state: filepath.Join(dir, "state"), runtime: filepath.Join(dir, "run"), config: filepath.Join(dir, "config")}
	for _, d := range []string{p.state, p.runtime, p.config} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *place) vars() []string {
	vars := []string{
		"XDG_STATE_HOME=" + p.state, "XDG_RUNTIME_DIR=" + p.runtime, "XDG_CONFIG_HOME=" + p.config,
		"PATH=" + filepath.Dir(thvPath()) + string(filepath.ListSeparator) + os.Getenv("PATH"),
	}
	if p.engine != "" {
		vars = append(vars, "THV_ENGINE=unix://"+p.engine, "DOCKER_HOST=unix://"+p.engine)
	}
	return vars
}

// storeID is the label by which containers of this place are known.
func (p *place) storeID() string {
	return manager.OpenStore(filepath.Join(p.state, "thv"), p.runtime).ID()
}

// machineVariable matches the variables that configure this machine's access to engines
// and packages.
var machineVariable = regexp.MustCompile(`(?i)^(GO[A-Z]+|THV_TEST_ROOTLESS|(NPM_CONFIG|PIP|UV|SSL|NODE_EXTRA|REQUESTS|CURL)_.*|(HTTPS?|NO|ALL)_PROXY|DOCKER_HOST|THV_ENGINE)$`)

// setup prepares one script's environment and has its traces checked at the end.
func setup(env *testscript.Env, t testing.TB, engine string) error {
	p, err := newPlace()
	if err != nil {
		return err
	}
	p.engine = engine
	rel, err := filepath.Rel(env.WorkDir, filepath.Join(repo(), "test", "servers"))
	if err != nil {
		return err
	}
	// Only the variables for access to packages are kept: a script that fails prints
	// its environment.
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if machineVariable.MatchString(name) {
			env.Vars = append(env.Vars, v)
		}
	}
	env.Vars = append(env.Vars, p.vars()...)
	env.Vars = append(env.Vars,
		"HOME="+os.Getenv("HOME"), "TMPDIR="+os.TempDir(), "NO_COLOR=1",
		"SERVERS="+rel, // go://$SERVERS/probe: relative, as a local path must be
		"CLIENTS_DIR="+clientsDir(), "CLIENTS="+filepath.Join(repo(), "test", "clients"),
		"CONFORMANCE_DIR="+filepath.Join(repo(), "test", ".cache", "conformance"),
		"STORE="+p.storeID())
	p.work = env.WorkDir
	env.Values[placeKey{}], env.Values[testKey{}] = p, t
	env.Defer(func() {
		for _, trace := range p.leave() {
			t.Errorf("left behind: %s", trace)
		}
	})
	return nil
}

type placeKey struct{}

// testKey is the key of the script's testing.TB.
type testKey struct{}

// leave removes every workload of the place with thv itself. It returns the secrets that were
// written, and what is left after that, and removes it too.
func (p *place) leave() (traces []string) {
	traces = p.leaks()
	rm := exec.Command(thvPath(), "rm", "--all")
	rm.Env = append(os.Environ(), p.vars()...)
	if out, err := rm.CombinedOutput(); err != nil {
		traces = append(traces, fmt.Sprintf("thv rm --all: %v: %s", err, out))
	}
	// A gateway releases its workload an instant before it exits.
	for deadline := time.Now().Add(patience); len(p.processes()) > 0 && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	for _, pid := range p.processes() {
		traces = append(traces, "process "+describe(pid))
		if proc, err := os.FindProcess(pid); err == nil {
			proc.Kill()
		}
	}
	ids, err := p.containers()
	if err != nil {
		traces = append(traces, err.Error())
	}
	for _, id := range ids {
		traces = append(traces, "container "+id)
		p.docker("rm", "-fv", id).Run()
	}
	if err := os.RemoveAll(filepath.Dir(p.state)); err != nil {
		traces = append(traces, err.Error())
	}
	return traces
}

// containers lists the engine's containers of this place, running or not.
func (p *place) containers(filters ...string) ([]string, error) {
	args := []string{"ps", "-aq", "--no-trunc", "--filter", "label=" + manager.LabelStore + "=" + p.storeID()}
	for _, f := range filters {
		args = append(args, "--filter", f)
	}
	out, err := p.docker(args...).Output()
	if err != nil {
		return nil, fmt.Errorf("docker ps: %w", err)
	}
	return strings.Fields(string(out)), nil
}

// docker is a command of Docker's client at the place's engine.
func (p *place) docker(args ...string) *exec.Cmd {
	cmd := exec.Command("docker", args...)
	cmd.Env = append(os.Environ(), p.vars()...)
	return cmd
}

// gateway is the address of the engine's default bridge.
func (p *place) gateway() (string, error) {
	network, usual := "bridge", "172.17.0.1"
	if p.engine != "" {
		network, usual = "podman", "10.88.0.1"
	}
	out, err := p.docker("network", "inspect", "-f", "{{range .IPAM.Config}}{{.Gateway}} {{end}}", network).Output()
	if err != nil {
		return "", fmt.Errorf("docker network inspect: %w", err)
	}
	for _, address := range strings.Fields(string(out)) {
		if !strings.Contains(address, ":") {
			return address, nil
		}
	}
	return usual, nil
}
