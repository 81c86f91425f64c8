//go:build integration

package scenario

import (
	"crypto/rand"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/toolhaven/toolhaven/test/idp"
	"github.com/toolhaven/toolhaven/test/local"
)

// redisServer is the command redis NAME FILE: it starts Debian's Redis with TLS only, which
// ends with the script, and sets NAME to its address. Its user is thv, NAME_PASSWORD the
// password. FILE gets the certificate of the authority.
func redisServer(ts *testscript.TestScript, _ bool, args []string) {
	t := ts.Value(testKey{}).(testing.TB)
	authority := idp.NewAuthority(t)
	cert, key := authority.Certificate(t, "127.0.0.1")
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		ts.Check(os.WriteFile(path, content, 0o600))
		return path
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), authority.PEM, 0o600))
	port, err := local.FreePort()
	ts.Check(err)
	password := rand.Text()
	here(ts).secrets.add(password)
	acl := file("users.acl", []byte("user default off\nuser thv on >"+password+" ~thv:* +@all\n"))
	cmd := exec.Command("redis-server", "--port", "0", "--tls-port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir,
		"--tls-cert-file", file("cert.pem", cert), "--tls-key-file", file("key.pem", key), "--tls-auth-clients", "no",
		"--aclfile", acl, "--save", "", "--appendonly", "no")
	var log local.Output
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		ts.Fatalf("%v; test/setup/redis.sh installs it", err)
	}
	ts.Defer(func() { cmd.Process.Kill(); cmd.Wait() })
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			break
		}
		if time.Now().After(deadline) {
			ts.Fatalf("redis-server does not answer: %v\n%s", err, log.String())
		}
	}
	ts.Setenv(args[0], address)
	ts.Setenv(args[0]+"_PASSWORD", password)
}
