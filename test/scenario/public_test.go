//go:build integration

package scenario

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// publicNetwork is a network namespace with hosts that have public addresses, which this
// machine reaches.
const publicNetwork = "thv-public"

// publicSetup makes the namespace, with 93.184.216.10 and .11 and 2606:2800:220:1::10 and ::11.
const publicSetup = `
ip netns add NAME
ip link add thv-public0 type veth peer name thv-public1 netns NAME
ip addr add 93.184.216.1/28 dev thv-public0
ip link set thv-public0 up
ip -n NAME addr add 93.184.216.10/28 dev thv-public1
ip -n NAME addr add 93.184.216.11/28 dev thv-public1
ip -n NAME link set lo up
ip -n NAME link set thv-public1 up
ip -n NAME route add default via 93.184.216.1`

const publicSetup6 = `
ip addr add 2606:2800:220:1::1/64 dev thv-public0 nodad
ip -n NAME addr add 2606:2800:220:1::10/64 dev thv-public1 nodad
ip -n NAME addr add 2606:2800:220:1::11/64 dev thv-public1 nodad`

// public makes hosts with public addresses until the script ends. Each serves HTTP (1 and 2)
// at port 80 ("hello HOST"), HTTPS at 443, and at the UDP ports 53 and 443 returns each datagram.
func public(ts *testscript.TestScript, _ bool, _ []string) {
	removePublic() // of a run that was killed
	setup := publicSetup
	if six, err := condition("ipv6"); err == nil && six {
		setup += publicSetup6
	}
	ts.Defer(removePublic)
	out, err := exec.Command("sh", "-ec", strings.ReplaceAll(setup, "NAME", publicNetwork)).CombinedOutput()
	if err != nil {
		ts.Fatalf("make a network of public addresses: %v\n%s", err, out)
	}
	ts.Check(inNetwork(publicNetwork, func() error { return servePublic(ts) }))
}

// removePublic removes what public made, if it is there. The kernel removes a namespace some
// time after its last socket; its link goes at once.
func removePublic() {
	_ = exec.Command("ip", "link", "del", "thv-public0").Run()
	_ = exec.Command("ip", "netns", "del", publicNetwork).Run()
}

// inNetwork calls f in a network namespace. What f opens stays there.
func inNetwork(name string, f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		namespace, err := os.Open("/var/run/netns/" + name)
		if err == nil {
			defer namespace.Close()
			err = unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET)
		}
		if err == nil {
			err = f()
		}
		result <- err
	}()
	return <-result
}

func servePublic(ts *testscript.TestScript) error {
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello", r.Host) })
	var lc net.ListenConfig
	plain, err := lc.Listen(context.Background(), "tcp", ":80")
	if err != nil {
		return err
	}
	encrypted, err := lc.Listen(context.Background(), "tcp", ":443")
	if err != nil {
		return errors.Join(err, plain.Close())
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	for _, l := range []net.Listener{plain, encrypted} {
		s := &httptest.Server{Listener: l, Config: &http.Server{Handler: hello, Protocols: &protocols}}
		if l == encrypted {
			s.StartTLS()
		} else {
			s.Start()
		}
		ts.Defer(s.Close)
	}
	for _, port := range []string{":53", ":443"} {
		c, err := lc.ListenPacket(context.Background(), "udp", port)
		if err != nil {
			return err
		}
		ts.Defer(func() { c.Close() })
		go func() {
			buf := make([]byte, 1500)
			for {
				n, from, err := c.ReadFrom(buf)
				if errors.Is(err, net.ErrClosed) {
					return
				}
				if err == nil {
					_, _ = c.WriteTo(buf[:n], from)
				}
			}
		}()
	}
	return nil
}
