//go:build unix

package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/toolhaven/toolhaven/api/v1beta1"
	"github.com/toolhaven/toolhaven/test/local"
)

// startTimeout bounds how long the servers may take to answer.
const startTimeout = 3 * time.Minute

// Cluster is an API server.
type Cluster struct {
	// Config is that of an administrator.
	Config *rest.Config
	// Kubeconfig is the path of the same for kubectl.
	Kubeconfig string

	dir      string
	programs string // directory
	etcd     string // URL
	port     int
	address  string // beside loopback, for pods; "" without them

	mu         sync.Mutex
	commands   map[string]*process
	namespaces int
}

// process is a program that runs.
type process struct {
	command *exec.Cmd
	ended   chan struct{}
}

// shared is the cluster of the tests of this package.
var shared struct {
	sync.Mutex
	cluster *Cluster
	release func()
	err     error
}

// Main runs the tests, ends the servers that they started, and exits.
func Main(m *testing.M) {
	code := m.Run()
	shared.Lock()
	defer shared.Unlock()
	if shared.release != nil {
		shared.release()
	}
	os.Exit(code)
}

// New starts an API server for a program that is no test. end ends it; it ends with the program
// too.
func New() (c *Cluster, end func(), err error) {
	c = &Cluster{commands: map[string]*process{}}
	if err := c.prepare(); err != nil {
		return nil, nil, err
	}
	release, err := guard(c.dir)
	if err != nil {
		return nil, nil, err
	}
	end = func() {
		c.stop()
		release()
	}
	if err := c.start(); err != nil {
		end()
		return nil, nil, err
	}
	return c, end, nil
}

// Start returns the API server of this test program, which the first call starts. The test
// fails when that is not possible. A package that uses it has a TestMain that calls [Main];
// the servers end with the test program also when that is killed.
func Start(t testing.TB) *Cluster {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster == nil && shared.err == nil {
		shared.cluster, shared.release, shared.err = New()
	}
	if shared.err != nil {
		t.Fatalf("start an API server: %v", shared.err)
	}
	return shared.cluster
}

// StartControlPlane starts etcd and the API server of a cluster with nodes. Its caller runs the
// rest of the cluster, in which pods reach the API server at an address of this machine, and
// ends all of it with [Cluster.End]. It applies no definitions.
func StartControlPlane(address string) (*Cluster, error) {
	c := &Cluster{commands: map[string]*process{}, address: address}
	if err := c.prepare(); err != nil {
		return nil, err
	}
	if err := c.startEtcd(); err != nil {
		return c, err
	}
	return c, c.startAPI()
}

// Scheme has the types of the tests: Kubernetes' own, definitions, and ours.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, apiextensionsv1.AddToScheme, v1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return scheme
}

// Client is that of an administrator. It reads from the server, not from a cache.
func (c *Cluster) Client(t testing.TB) client.Client { return c.ClientFor(t, c.Config) }

// ClientFor is one with another configuration, such as that of [Cluster.As].
func (c *Cluster) ClientFor(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	out, err := client.New(config, client.Options{Scheme: Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// As is the configuration of a user, such as system:serviceaccount:NAMESPACE:NAME, with that
// user's rights alone.
func (c *Cluster) As(user string, groups ...string) *rest.Config {
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return config
}

// Namespace makes a new namespace and returns its name. It is not removed: no controller does
// that here.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	c.mu.Lock()
	c.namespaces++
	name := fmt.Sprintf("test-%d", c.namespaces)
	c.mu.Unlock()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := c.Client(t).Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	return name
}

// Kubectl runs kubectl with standard input, and returns what it wrote to both outputs.
func (c *Cluster) Kubectl(t testing.TB, stdin string, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), c.Program("kubectl"), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig, "HOME="+c.dir)
	command.Stdin = strings.NewReader(stdin)
	out, err := command.CombinedOutput()
	return string(out), err
}

// Stop kills the API server, and keeps its data: clients see that it is gone.
func (c *Cluster) Stop(t testing.TB) {
	t.Helper()
	c.Kill("kube-apiserver")
}

// Restart starts the API server again, at the same address.
func (c *Cluster) Restart(t testing.TB) {
	t.Helper()
	if err := c.startAPI(); err != nil {
		t.Fatal(err)
	}
}

// prepare finds the programs, and makes the directory, keys and configuration.
func (c *Cluster) prepare() error {
	var err error
	if c.programs, err = installed(); err != nil {
		return err
	}
	if c.dir, err = os.MkdirTemp("", "thv-kube-"); err != nil {
		return err
	}
	if c.port, err = local.FreePort(); err != nil {
		return err
	}
	return c.writeKeys()
}

// installed is the directory of the programs.
func installed() (string, error) {
	root, err := local.Root()
	if err != nil {
		return "", err
	}
	mod, err := os.ReadFile(filepath.Join(root, "test/kube/module/go.mod"))
	if err != nil {
		return "", err
	}
	version := ""
	for line := range strings.Lines(string(mod)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "require" && f[1] == "k8s.io/kubernetes" {
			version = f[2]
		}
	}
	cache := os.Getenv("THV_KUBERNETES")
	if cache == "" {
		if cache, err = os.UserCacheDir(); err != nil {
			return "", err
		}
		cache = filepath.Join(cache, "toolhaven")
	}
	dir := filepath.Join(cache, "kubernetes-"+version)
	if _, err := os.Stat(filepath.Join(dir, "kube-apiserver")); err != nil {
		return "", fmt.Errorf("%w; test/setup/kubernetes.sh builds it", err)
	}
	if _, err := exec.LookPath("etcd"); err != nil {
		return "", fmt.Errorf("%w; test/setup/kubernetes.sh installs it", err)
	}
	return dir, nil
}

func (c *Cluster) start() error {
	if err := c.startEtcd(); err != nil {
		return err
	}
	if err := c.startAPI(); err != nil {
		return err
	}
	return c.applyDefinitions()
}

func (c *Cluster) startEtcd() error {
	ports := [2]int{}
	for i := range ports {
		var err error
		if ports[i], err = local.FreePort(); err != nil {
			return err
		}
	}
	c.etcd = fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	peer := fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	err := c.Run("etcd", "etcd",
		"--data-dir="+filepath.Join(c.dir, "data"), "--listen-client-urls="+c.etcd, "--advertise-client-urls="+c.etcd,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer)
	if err != nil {
		return err
	}
	return c.wait("etcd", http.DefaultClient, c.etcd+"/health", "")
}

func (c *Cluster) startAPI() error {
	file := c.File
	args := []string{
		"--etcd-servers=" + c.etcd, "--secure-port=" + strconv.Itoa(c.port), "--cert-dir=" + c.dir,
		"--tls-cert-file=" + file("server.crt"), "--tls-private-key-file=" + file("server.key"),
		"--token-auth-file=" + file("tokens"), "--anonymous-auth=true",
		"--service-cluster-ip-range=10.96.0.0/16", "--allow-privileged=true",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + file("account.key"), "--service-account-signing-key-file=" + file("account.key"),
	}
	if c.address == "" {
		args = append(args, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--authorization-mode=RBAC",
			// Pods have no default service account: its controller does not run.
			"--disable-admission-plugins=ServiceAccount")
	} else {
		args = append(args, "--bind-address=0.0.0.0", "--advertise-address="+c.address, "--authorization-mode=Node,RBAC",
			"--enable-admission-plugins=NodeRestriction", "--kubelet-preferred-address-types=InternalIP")
	}
	if err := c.Run("kube-apiserver", c.Program("kube-apiserver"), args...); err != nil {
		return err
	}
	transport, err := rest.TransportFor(c.Config)
	if err != nil {
		return err
	}
	return c.wait("kube-apiserver", &http.Client{Transport: transport}, c.Config.Host+"/readyz", "ok")
}

// File is the path of a file in the cluster's directory, such as server.crt, the authority of
// the API server, or account.key, which signs the tokens of service accounts.
func (c *Cluster) File(name string) string { return filepath.Join(c.dir, name) }

// Program is the path of a program of Kubernetes.
func (c *Cluster) Program(name string) string { return filepath.Join(c.programs, name) }

// Run starts a program that ends with the cluster. Its log is the file NAME.log.
func (c *Cluster) Run(name, program string, args ...string) error {
	log, err := os.OpenFile(filepath.Join(c.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	command := exec.Command(program, args...)
	command.Dir, command.Stdout, command.Stderr = c.dir, log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		return err
	}
	// guard reads it.
	if err := os.WriteFile(filepath.Join(c.dir, name+".pid"), []byte(strconv.Itoa(command.Process.Pid)), 0o600); err != nil {
		return err
	}
	p := &process{command: command, ended: make(chan struct{})}
	go func() {
		_ = command.Wait()
		close(p.ended)
	}()
	c.mu.Lock()
	c.commands[name] = p
	c.mu.Unlock()
	return nil
}

// wait waits until a URL answers with 200 and, if it is not "", with content.
func (c *Cluster) wait(name string, httpClient *http.Client, url, content string) error {
	c.mu.Lock()
	p := c.commands[name]
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		body, err := get(ctx, httpClient, url)
		if err == nil && (content == "" || body == content) {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s exited:\n%s", name, c.Log(name))
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer within %s (%w):\n%s", name, startTimeout, err, c.Log(name))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func get(ctx context.Context, httpClient *http.Client, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := httpClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return string(body), err
}

// Kill ends a program at once, as [Cluster.Run] named it.
func (c *Cluster) Kill(name string) {
	c.mu.Lock()
	p := c.commands[name]
	delete(c.commands, name)
	c.mu.Unlock()
	if p != nil {
		_ = p.command.Process.Kill()
		<-p.ended
	}
}

// End kills the programs and removes their directory.
func (c *Cluster) End() {
	c.stop()
	os.RemoveAll(c.dir)
}

// stop kills the programs: their data is not needed any more.
func (c *Cluster) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.commands {
		_ = p.command.Process.Kill()
	}
	for _, p := range c.commands {
		<-p.ended
	}
}

// Log is the end of a program's log, such as kube-apiserver or etcd.
func (c *Cluster) Log(name string) string {
	content, err := os.ReadFile(filepath.Join(c.dir, name+".log"))
	if err != nil {
		return err.Error()
	}
	const most = 4 << 10
	if len(content) > most {
		content = content[len(content)-most:]
	}
	return string(content)
}

// guard starts a process that waits for this one to end, however it does, and then ends the
// servers and removes their directory. The function returned does so earlier.
func guard(dir string) (func(), error) {
	const script = `
cat >/dev/null
for file in "$1"/*.pid; do
	pid=$(cat "$file") || continue
	# Its directory in the arguments shows that the process is ours.
	if ps -o args= -p "$pid" | grep -qF -- "$1/"; then
		kill -KILL "$pid"
		# Where nobody reaps orphans, it stays as a zombie.
		while ps -o stat= -p "$pid" | grep -q '^[^Z]'; do sleep 0.1; done
	fi
done
rm -rf "$1"`
	command := exec.Command("sh", "-c", script, "sh", dir)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	return func() {
		stdin.Close()
		_ = command.Wait()
	}, nil
}
