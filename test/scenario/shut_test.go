//go:build integration

package scenario

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/test/local"
)

// A server that listens on all addresses of its container is reached through the gateway
// and at published ports only. Connections that it opens are not affected.
func TestAServerIsReachedThroughItsGatewayAlone(t *testing.T) {
	p := goTestPlace(t)
	published := freePort(t)
	p.start(t, "go://../servers/probe", "--name", "shut", "--transport", "streamable-http", "-p", fmt.Sprintf("%d:9090", published), "--", "-http", "0.0.0.0:8080")
	call := func(tool, argument string) string {
		t.Helper()
		return strings.TrimSpace(p.thv(t, "mcp", "call", "shut", tool, "--arg", argument))
	}
	name, ip, bridge := p.container(t, "shut")

	if got := call("echo", "text=through the gateway"); got != "through the gateway" {
		t.Errorf("the gateway answers %q", got)
	}
	if st := p.status(t, "shut"); st.Exposed != "" {
		t.Errorf("it is reported as exposed at %s", st.Exposed)
	}
	call("listen", "address=:9090")
	call("listen", "address=:9091")
	call("listen", "address=127.0.0.1:9092")
	for address, want := range map[string]string{
		fmt.Sprintf("127.0.0.1:%d", published): "hello",
		ip + ":9090":                           "hello", // published ports are open
		ip + ":8080":                           refused,
		ip + ":9091":                           refused,
		ip + ":9092":                           refused,
	} {
		if got := heard(address); got != want {
			t.Errorf("from this machine, %s answers %q, want %q", address, got, want)
		}
	}

	// From inside: itself, at each of its addresses and by a name of the engine's DNS;
	// and this machine.
	l, err := net.Listen("tcp", net.JoinHostPort(bridge, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, address := range []string{"127.0.0.1:9091", ip + ":8080", name + ":8080", l.Addr().String()} {
		if got := call("dial", "address="+address); got != "connected" {
			t.Errorf("from inside, %s: %q", address, got)
		}
	}
	noPrivileges(t, call)

	// It is closed again after a restart.
	p.thv(t, "restart", "shut")
	if _, ip, _ = p.container(t, "shut"); heard(ip+":8080") != refused {
		t.Errorf("after a restart, %s:8080 answers %q", ip, heard(ip+":8080"))
	}
}

// A stdio server has no port.
func TestAStdioServersContainerIsShut(t *testing.T) {
	p := goTestPlace(t)
	p.start(t, "go://../servers/probe", "--name", "shut")
	p.thv(t, "mcp", "call", "shut", "listen", "--arg", "address=:9091")
	_, ip, _ := p.container(t, "shut")
	if got := heard(ip + ":9091"); got != refused {
		t.Errorf("it answers %q", got)
	}
}

// noPrivileges checks that the server is not root, as the process is that closes the
// network.
func noPrivileges(t *testing.T, call func(tool, argument string) string) {
	t.Helper()
	for field, want := range map[string]string{
		"CapInh": "0000000000000000", "CapPrm": "0000000000000000", "CapEff": "0000000000000000", "CapBnd": "0000000000000000", "CapAmb": "0000000000000000",
		"NoNewPrivs": "1", "Uid": "65532\t65532\t65532\t65532", "Gid": "65532\t65532\t65532\t65532", "Groups": "65532",
	} {
		if got := call("self", "field="+field); got != want {
			t.Errorf("the server has %s %q, want %q", field, got, want)
		}
	}
	if got := call("env", "name=HOME"); got != "/tmp" {
		t.Errorf("the server has its home at %q; its image sets /tmp", got)
	}
}

// refused is the result of heard for an address where nothing listens.
const refused = "refused"

// heard returns what an address sends to a new connection.
func heard(address string) string {
	c, err := net.DialTimeout("tcp", address, 5*time.Second)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return refused
	}
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	said, err := io.ReadAll(c)
	if err != nil {
		return err.Error()
	}
	return string(said)
}

// container is the name and the address of a workload's container, and this
// machine's address on the same network.
func (p *place) container(t *testing.T, name string) (container, ip, bridge string) {
	t.Helper()
	ids, err := p.containers("label=dev.toolhaven.workload=" + name)
	if err != nil || len(ids) != 1 {
		t.Fatalf("containers %v, %v; want one", ids, err)
	}
	out, err := exec.Command("docker", "inspect", "--format", "{{.Name}} {{range .NetworkSettings.Networks}}{{.IPAddress}} {{.Gateway}}{{end}}", ids[0]).Output()
	fields := strings.Fields(string(out))
	if err != nil || len(fields) != 3 {
		t.Fatalf("docker inspect: %q, %v", out, err)
	}
	return strings.TrimPrefix(fields[0], "/"), fields[1], fields[2]
}

func freePort(t *testing.T) int {
	t.Helper()
	port, err := local.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}
