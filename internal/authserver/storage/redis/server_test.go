//go:build integration && unix

package redis

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/toolhaven/toolhaven/test/local"
)

// server is a process of redis-server or redis-sentinel.
type server struct {
	port    int
	program string
	args    []string
	dir     string
	log     local.Output
	cmd     *exec.Cmd
}

func (s *server) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

func freePort(t *testing.T) int {
	t.Helper()
	port, err := local.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// startServer starts redis-server with a password, and with options as in its configuration
// file. It answers when startServer returns, unless it serves TLS only.
func startServer(t *testing.T, options ...string) *server {
	t.Helper()
	s := &server{port: freePort(t), program: "redis-server", dir: t.TempDir()}
	s.args = append([]string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "no",
		"--requirepass", password, "--masterauth", password, "--repl-diskless-sync-delay", "0",
	}, options...)
	s.start(t)
	return s
}

func (s *server) start(t *testing.T) {
	t.Helper()
	s.cmd = exec.Command(s.program, s.args...)
	s.cmd.Dir = s.dir
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatalf("%v; test/setup/redis.sh installs it", err)
	}
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			t.Logf("%s %d:\n%s", s.program, s.port, s.log.String())
		}
	})
	eventually(t, "start "+s.program, func() error {
		conn, err := net.Dial("tcp", s.addr())
		if err == nil {
			conn.Close()
		}
		return err
	})
}

// kill ends the process as a crash would. It may be called again.
func (s *server) kill() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

// ask sends one command, over a connection of the test's own.
func (s *server) ask(t *testing.T, args ...any) (any, error) {
	t.Helper()
	o := &goredis.Options{Addr: s.addr(), Protocol: 2, DisableIdentity: true, MaxRetries: -1, MaintNotificationsConfig: noNotifications()}
	if s.program == "redis-server" {
		o.Password = password
	}
	c := goredis.NewClient(o)
	defer c.Close()
	return c.Do(t.Context(), args...).Result()
}

func (s *server) must(t *testing.T, args ...any) any {
	t.Helper()
	answer, err := s.ask(t, args...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return answer
}

// startSentinel starts a sentinel that watches the master. It serves TLS at tlsPort, and the
// other sentinels without TLS.
func startSentinel(t *testing.T, master *server, a *authority) (s *server, tlsPort int) {
	t.Helper()
	s = &server{port: freePort(t), program: "redis-sentinel", dir: t.TempDir()}
	tlsPort = freePort(t)
	lines := []string{
		"port " + strconv.Itoa(s.port), "bind 127.0.0.1", "dir " + s.dir,
		fmt.Sprintf("sentinel monitor main 127.0.0.1 %d 2", master.port),
		"sentinel auth-pass main " + password,
		"sentinel down-after-milliseconds main 500",
		"sentinel failover-timeout main 4000",
	}
	options := a.serverOptions(t, tlsPort)
	for i := 0; i < len(options); i += 2 {
		lines = append(lines, strings.TrimPrefix(options[i], "--")+" "+options[i+1])
	}
	file := filepath.Join(s.dir, "sentinel.conf")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.args = []string{file}
	s.start(t)
	return s, tlsPort
}

// authority is a CA of the test's own.
type authority struct {
	pem  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Test CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pem = encode("CERTIFICATE", der)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// serverOptions are those of a server at 127.0.0.1 with a certificate of the authority.
func (a *authority) serverOptions(t *testing.T, port int) []string {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "redis"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	options := []string{"--tls-port", strconv.Itoa(port), "--tls-auth-clients", "no"}
	for _, f := range [][3]string{
		{"--tls-cert-file", "cert.pem", encode("CERTIFICATE", der)},
		{"--tls-key-file", "key.pem", encode("PRIVATE KEY", keyDER)},
		{"--tls-ca-cert-file", "ca.pem", a.pem},
	} {
		file := filepath.Join(dir, f[1])
		if err := os.WriteFile(file, []byte(f[2]), 0o600); err != nil {
			t.Fatal(err)
		}
		options = append(options, f[0], file)
	}
	return options
}
