package redis

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/externalauth"
)

const (
	password = "s3cret-password"
	patience = 30 * time.Second
)

// fake is a server that speaks RESP. Its answers are those of reply: "" ends the connection.
type fake struct {
	addr  string
	reply func(args []string) string

	mu       sync.Mutex
	received [][]string
}

func startFake(t *testing.T, reply func(args []string) string) *fake {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{addr: l.Addr().String(), reply: reply}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
			wg.Go(func() { f.serve(conn) })
		}
	})
	t.Cleanup(func() { l.Close() })
	return f
}

func (f *fake) serve(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		args, err := readCommand(r)
		if err != nil {
			return
		}
		f.mu.Lock()
		f.received = append(f.received, args)
		f.mu.Unlock()
		answer := f.reply(args)
		if answer == "" {
			return
		}
		io.WriteString(conn, answer)
	}
}

// count is how often a command was received.
func (f *fake) count(command string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, args := range f.received {
		if strings.EqualFold(args[0], command) {
			n++
		}
	}
	return n
}

func readCommand(r *bufio.Reader) ([]string, error) {
	n, err := readLength(r, '*')
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := readLength(r, '$')
		if err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		args[i] = string(b[:size])
	}
	return args, nil
}

func readLength(r *bufio.Reader, kind byte) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("got %q", line)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

// bulk and array are values as RESP writes them.
func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

func array(values ...string) string {
	return fmt.Sprintf("*%d\r\n%s", len(values), strings.Join(values, ""))
}

// secrets are what Config.Secret resolves, by NAME/KEY.
type secrets struct {
	mu sync.Mutex
	m  map[string]string
}

func (s *secrets) set(ref externalauth.SecretRef, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = map[string]string{}
	}
	s.m[ref.Name+"/"+ref.Key] = value
}

func (s *secrets) resolve(ref externalauth.SecretRef) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.m[ref.Name+"/"+ref.Key]
	if !ok {
		return "", fmt.Errorf("there is no secret %s/%s", ref.Name, ref.Key)
	}
	return v, nil
}

var (
	passwordRef   = externalauth.SecretRef{Name: "redis", Key: "password"}
	userRef       = externalauth.SecretRef{Name: "redis", Key: "user"}
	caRef         = externalauth.SecretRef{Name: "redis", Key: "ca"}
	sentinelCARef = externalauth.SecretRef{Name: "redis", Key: "sentinel-ca"}
)

// config is a Config of one server with a password and short timeouts.
func config(addr string) Config {
	s := &secrets{}
	s.set(passwordRef, password)
	return Config{
		Redis: externalauth.Redis{
			Addr:          addr,
			ACLUserConfig: &externalauth.ACLUser{PasswordSecretRef: &passwordRef},
			DialTimeout:   "5s", ReadTimeout: "5s", WriteTimeout: "5s",
		},
		Secret: s.resolve,
		Prefix: "thv:test:",
	}
}

func open(t *testing.T, c Config) *Store {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// eventually waits until f returns nil.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s: %v", what, patience, err)
		}
		<-tick.C
	}
}
