//go:build cluster && linux

package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// insideVar names the cluster's directory to the program that runs in the namespaces.
const insideVar = "THV_TEST_CLUSTER_DIR"

// prefix is that of the directory's name; the number of the process follows.
const prefix = "thv-cluster-"

// nodeAddress is the node's own address, which pods reach.
const nodeAddress = "10.99.0.1"

// initScript is the first process of the namespaces. It stays, because orphans are reaped by
// the first process.
const initScript = `
set -e
dir=$1
shift
mount --make-rshared /
mount -t tmpfs tmpfs /run
# The kubelet and the network plugins write below /var.
mount -t overlay overlay -o "lowerdir=/var,upperdir=$dir/var,workdir=$dir/var.work" /var
resolv=$(readlink -m /etc/resolv.conf)
mkdir -p "$(dirname "$resolv")"
[ -e "$resolv" ] || : >"$resolv"
mount --bind "$dir/resolv.conf" "$resolv"
ip link set lo up
ip link add node0 type bridge
ip address add "$NODE_ADDRESS/24" dev node0
ip link set node0 up
# Addresses of Services are replaced after a route to them was found.
ip route add 10.96.0.0/16 dev node0
echo 1 >/proc/sys/net/ipv4/ip_forward
"$@"`

func TestMain(m *testing.M) {
	dir := os.Getenv(insideVar)
	if dir != "" {
		os.Exit(runInside(m, dir))
	}
	code, err := isolate()
	if err != nil {
		fmt.Fprintln(os.Stderr, "the tests on a cluster cannot run:", err)
		code = 1
	}
	os.Exit(code)
}

// isolate runs this program again in namespaces of its own, and returns its exit code.
func isolate() (int, error) {
	if os.Getuid() != 0 {
		return 0, errors.New("they start a kubelet, which needs root; `make cluster-test` uses sudo")
	}
	removeAbandoned()
	name := prefix + strconv.Itoa(os.Getpid())
	dir := filepath.Join(os.TempDir(), name)
	for _, sub := range []string{"", "var", "var.work"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			return 0, err
		}
	}
	defer removeAll(name)
	resolv := "nameserver 10.96.0.10\nsearch svc.cluster.local cluster.local\noptions ndots:3\n"
	if err := os.WriteFile(filepath.Join(dir, "resolv.conf"), []byte(resolv), 0o644); err != nil {
		return 0, err
	}
	if err := makeCgroups(name); err != nil {
		return 0, err
	}
	args := []string{"--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", initScript, "sh", dir}
	command := exec.Command("unshare", append(args, os.Args...)...)
	command.Env = append(os.Environ(), insideVar+"="+dir, "NODE_ADDRESS="+nodeAddress)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	// The namespaces end with this process, also when it is killed. The signal is sent when
	// the thread ends that started the command.
	runtime.LockOSThread()
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err := command.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}

// removeAbandoned removes what runs left behind that were killed.
func removeAbandoned() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	for _, dir := range dirs {
		name := filepath.Base(dir)
		if pid, err := strconv.Atoi(strings.TrimPrefix(name, prefix)); err == nil && syscall.Kill(pid, 0) != nil {
			removeAll(name)
		}
	}
}

// removeAll removes a run's directory and control groups. Its mounts went with its namespace.
func removeAll(name string) {
	for _, root := range cgroupRoots() {
		var dirs []string
		_ = filepath.WalkDir(filepath.Join(root, name), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		for i := len(dirs) - 1; i >= 0; i-- { // the inner ones first
			if err := os.Remove(dirs[i]); err != nil {
				fmt.Fprintln(os.Stderr, "a control group stays:", err)
			}
		}
	}
	if err := os.RemoveAll(filepath.Join(os.TempDir(), name)); err != nil {
		fmt.Fprintln(os.Stderr, "a directory stays:", err)
	}
}

// makeCgroups makes the control group below which the kubelet makes those of the pods.
func makeCgroups(name string) error {
	for _, root := range cgroupRoots() {
		if root == cgroupV2 {
			controllers, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
			if err != nil {
				return err
			}
			enable := ""
			for _, c := range strings.Fields(string(controllers)) {
				enable += " +" + c
			}
			for _, dir := range []string{root, filepath.Join(root, name)} {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					return err
				}
				if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte(strings.TrimSpace(enable)), 0o644); err != nil {
					return err
				}
			}
			continue
		}
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
			return err
		}
	}
	return nil
}

const cgroupV2 = "/sys/fs/cgroup"

// cgroupRoots are the hierarchies of control groups: one of version 2, or several of version 1.
func cgroupRoots() []string {
	if _, err := os.Stat(cgroupV2 + "/cgroup.controllers"); err == nil {
		return []string{cgroupV2}
	}
	entries, _ := os.ReadDir(cgroupV2)
	var roots []string
	for _, e := range entries {
		if e.IsDir() { // links are second names of the same
			roots = append(roots, filepath.Join(cgroupV2, e.Name()))
		}
	}
	return roots
}
