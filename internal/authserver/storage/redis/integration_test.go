//go:build integration && unix

package redis

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/authserver/storage"
	"github.com/toolhaven/toolhaven/internal/authserver/storage/storagetest"
	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/test/local"
)

// runSuite runs the suite for stores of a configuration, each with a prefix of its own.
func runSuite(t *testing.T, c Config) {
	var n atomic.Int64
	t.Run("suite", func(t *testing.T) {
		storagetest.Run(t, func(t *testing.T) storage.Store {
			c := c
			c.Prefix = fmt.Sprintf("suite:%d:", n.Add(1))
			return open(t, c)
		})
	})
}

// roundTrip stores a value and reads it.
func roundTrip(t *testing.T, s *Store, key string) error {
	t.Helper()
	if err := s.Put(t.Context(), key, []byte("v"), time.Hour); err != nil {
		return err
	}
	_, err := s.Get(t.Context(), key)
	return err
}

func works(t *testing.T, s *Store) {
	t.Helper()
	if err := roundTrip(t, s, "k"); err != nil {
		t.Fatal(err)
	}
}

func refused(t *testing.T, s *Store, want string) {
	t.Helper()
	err := s.Ping(t.Context())
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, not %q", err, want)
	} else if strings.Contains(err.Error(), password) {
		t.Errorf("the password is in the error: %v", err)
	}
}

func TestStandalone(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	c := config(server.addr())
	runSuite(t, c)

	// Each value has its prefix and expires, so that Redis removes what is not used again.
	s := open(t, c)
	works(t, s)
	if ttl := server.must(t, "PTTL", "thv:test:v:k").(int64); ttl <= 0 || ttl > time.Hour.Milliseconds() {
		t.Errorf("the value expires in %d ms", ttl)
	}

	// A wrong password, and then the right one: it is read again for each connection.
	other := config(server.addr())
	held := &secrets{}
	held.set(passwordRef, "wrong-"+password)
	other.Secret = held.resolve
	late := open(t, other)
	refused(t, late, "it answered WRONGPASS")
	held.set(passwordRef, password)
	works(t, late)

	// A replaced password: the open connections end, the next ones use the new one.
	server.must(t, "CONFIG", "SET", "requirepass", "next-"+password)
	held.set(passwordRef, "next-"+password)
	if _, err := server.ask(t, "PING"); err == nil {
		t.Fatal("the old password is still accepted")
	}
	conn := open(t, other)
	works(t, conn)
	conn.client.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no") // its own too
	eventually(t, "new connections", func() error { return roundTrip(t, late, "k") })
}

func TestStandalone_Warnings(t *testing.T) {
	t.Parallel()
	server := startServer(t, "--maxmemory", "8mb", "--maxmemory-policy", "volatile-lru")
	s := open(t, config(server.addr()))
	if w := s.Warnings(t.Context()); len(w) != 1 || !strings.Contains(w[0], `"volatile-lru"`) {
		t.Errorf("got %q", w)
	}
	server.must(t, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	if w := s.Warnings(t.Context()); len(w) != 0 {
		t.Errorf("got %q", w)
	}
	// A full Redis refuses, and loses nothing.
	works(t, s)
	large := make([]byte, 1<<20)
	var err error
	for i := 0; err == nil && i < 100; i++ {
		err = s.Put(t.Context(), strconv.Itoa(i), large, time.Hour)
	}
	if err == nil || !strings.Contains(err.Error(), "it answered OOM") {
		t.Errorf("a full server: %v", err)
	}
	if _, err := s.Get(t.Context(), "k"); err != nil {
		t.Errorf("a value of a full server: %v", err)
	}
	server.kill()
	if w := s.Warnings(t.Context()); len(w) != 1 || !strings.Contains(w[0], "is not known") {
		t.Errorf("got %q", w)
	}
}

// The user may execute nothing but what the package's documentation lists.
func TestACLUser(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	server.must(t, "ACL", "SETUSER", "toolhaven", "on", ">user-"+password, "~suite:*", "~thv:test:*",
		"+get", "+set", "+getdel", "+del", "+eval", "+ping")
	c := config(server.addr())
	held := &secrets{}
	held.set(passwordRef, "user-"+password)
	held.set(userRef, "toolhaven")
	c.Secret = held.resolve
	c.Redis.ACLUserConfig.UsernameSecretRef = &userRef
	runSuite(t, c)
	if w := open(t, c).Warnings(t.Context()); len(w) != 1 || !strings.Contains(w[0], "is not known") {
		t.Errorf("without INFO: %q", w)
	}
	c.Prefix = "another:"
	if err := roundTrip(t, open(t, c), "k"); err == nil || !strings.Contains(err.Error(), "it answered NOPERM") {
		t.Errorf("another prefix: %v", err)
	}
	held.set(userRef, "nobody")
	refused(t, open(t, c), "it answered WRONGPASS")
	held.set(userRef, "")
	refused(t, open(t, c), "its user name, is empty")
}

func TestTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	port := freePort(t)
	startServer(t, a.serverOptions(t, port)...)
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	with := func(ca string, o externalauth.RedisTLS) *Store {
		c := config(addr)
		held := &secrets{}
		held.set(passwordRef, password)
		if ca != "" {
			held.set(caRef, ca)
			o.CACertSecretRef = &caRef
		}
		c.Redis.TLS, c.Secret = &o, held.resolve
		return open(t, c)
	}
	works(t, with(a.pem, externalauth.RedisTLS{}))
	works(t, with("", externalauth.RedisTLS{InsecureSkipVerify: true}))
	for name, ca := range map[string]string{"the system's authorities": "", "another authority": newAuthority(t).pem} {
		var unknown x509.UnknownAuthorityError
		if err := with(ca, externalauth.RedisTLS{}).Ping(t.Context()); !errors.As(err, &unknown) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	refused(t, with("not a certificate", externalauth.RedisTLS{}), "the secret redis/ca has no CA certificate in PEM")
	if err := open(t, config(addr)).Ping(t.Context()); err == nil {
		t.Error("without TLS the server is reached")
	}
}

// A server is killed and started again while operations run: they fail, then succeed.
func TestRestart(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	s := open(t, config(server.addr()))
	works(t, s)
	release, err := s.Lease(t.Context(), "l", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		server.kill()
		for name, err := range map[string]error{"Ping": s.Ping(t.Context()), "Put": roundTrip(t, s, "k")} {
			if err == nil || !strings.HasPrefix(err.Error(), "reach Redis: ") {
				t.Errorf("%s without a server: %v", name, err)
			}
		}
		if _, err := s.Get(t.Context(), "k"); err == nil || errors.Is(err, storage.ErrNotFound) {
			t.Errorf("Get without a server: %v", err)
		}
		server.start(t)
		eventually(t, "recover", func() error { return roundTrip(t, s, "k") })
	}
	release() // of a lease that was lost with the first process
}

// A server stops to answer: operations fail by their timeout, and by that of the caller; then
// the same store works again.
func TestFrozen(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	c := config(server.addr())
	c.Redis.ReadTimeout = "100ms"
	s := open(t, c)
	// On a busy machine an answer may take longer than the timeout.
	eventually(t, "a first answer", func() error { return roundTrip(t, s, "k") })
	local.Freeze(t, server.cmd.Process.Pid)
	began := time.Now()
	for range 30 { // more than the pool has connections
		if err := s.Put(t.Context(), "k", []byte("w"), time.Hour); err == nil {
			t.Fatal("Put succeeds without an answer")
		}
	}
	if took := time.Since(began); took > patience {
		t.Errorf("30 operations took %s", took)
	}
	if err := server.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, "recover", func() error { return roundTrip(t, s, "k") })
}

func TestCluster(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t)
	c := config(nodes[0].addr())
	c.Redis.ClusterMode = true
	s := open(t, c)
	runSuite(t, c)
	if w := s.Warnings(t.Context()); len(w) != 0 {
		t.Errorf("got %q", w)
	}

	// A user that may execute what the package's documentation lists.
	for _, n := range nodes {
		n.must(t, "ACL", "SETUSER", "toolhaven", "on", ">"+password, "~thv:test:*",
			"+get", "+set", "+getdel", "+del", "+eval", "+ping", "+cluster|slots")
	}
	limited := c
	held := &secrets{}
	held.set(passwordRef, password)
	held.set(userRef, "toolhaven")
	limited.Secret = held.resolve
	limited.Redis.ACLUserConfig = &externalauth.ACLUser{UsernameSecretRef: &userRef, PasswordSecretRef: &passwordRef}
	for i := range 10 {
		if err := roundTrip(t, open(t, limited), strconv.Itoa(i)); err != nil {
			t.Errorf("a limited user: %v", err)
		}
	}

	// The keys are spread over the nodes.
	for i := range 100 {
		if err := roundTrip(t, s, strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	for i, n := range nodes {
		if size := n.must(t, "DBSIZE").(int64); size < 10 {
			t.Errorf("node %d has %d of the keys", i, size)
		}
	}

	// A slot moves to another node (MOVED, Redis cluster specification).
	key := s.value("moves")
	slot := nodes[0].must(t, "CLUSTER", "KEYSLOT", key)
	owner := slotOwner(slot.(int64))
	target := (owner + 1) % len(nodes)
	id := nodes[target].must(t, "CLUSTER", "MYID")
	for _, n := range []*server{nodes[target], nodes[owner], nodes[3-owner-target]} {
		n.must(t, "CLUSTER", "SETSLOT", slot, "NODE", id)
	}
	if err := roundTrip(t, s, "moves"); err != nil {
		t.Errorf("a moved slot: %v", err)
	}
	if n := nodes[target].must(t, "EXISTS", key); n != int64(1) {
		t.Errorf("the value is not at the slot's new node")
	}

	// A node is killed: its keys cannot be reached, until it returns.
	nodes[2].kill()
	if err := s.Ping(t.Context()); err == nil {
		t.Error("Ping succeeds without one of the masters")
	}
	failed := 0
	for i := range 100 {
		if err := roundTrip(t, s, strconv.Itoa(i)); err != nil {
			failed++
		}
	}
	if failed == 0 {
		t.Error("no operation failed without one of the masters")
	}
	nodes[2].start(t)
	eventually(t, "recover", func() error {
		for i := range 100 {
			if err := roundTrip(t, s, strconv.Itoa(i)); err != nil {
				return err
			}
		}
		return s.Ping(t.Context())
	})
}

const slots = 16384 // Redis cluster specification, Key distribution model

// slotOwner is the node that startCluster assigns a slot to.
func slotOwner(slot int64) int { return min(int(slot)/(slots/3), 2) }

// startCluster starts three masters.
func startCluster(t *testing.T) []*server {
	t.Helper()
	var nodes []*server
	for i := range 3 {
		// The port of the cluster's own bus is by default 10000 above, and so not reserved.
		n := startServer(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-port", strconv.Itoa(freePort(t)))
		last := (i + 1) * (slots / 3)
		if i == 2 {
			last = slots
		}
		n.must(t, "CLUSTER", "ADDSLOTSRANGE", i*(slots/3), last-1)
		n.must(t, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		nodes = append(nodes, n)
	}
	for _, n := range nodes[1:] {
		busPort := n.args[len(n.args)-1]
		nodes[0].must(t, "CLUSTER", "MEET", "127.0.0.1", n.port, busPort)
	}
	for _, n := range nodes {
		eventually(t, "form the cluster", func() error {
			info := n.must(t, "CLUSTER", "INFO").(string)
			if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_known_nodes:3") {
				return errors.New(info)
			}
			return nil
		})
	}
	return nodes
}

// Three sentinels, with TLS and an authority of their own, watch a master and its replica.
func TestSentinel(t *testing.T) {
	t.Parallel()
	master := startServer(t)
	replica := startServer(t, "--replicaof", "127.0.0.1 "+strconv.Itoa(master.port))
	a := newAuthority(t)
	var sentinels []*server
	var addrs []string
	for range 3 {
		s, port := startSentinel(t, master, a)
		sentinels = append(sentinels, s)
		addrs = append(addrs, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	}
	c := sentinelConfig(addrs...)
	c.Redis.SentinelTLS = &externalauth.RedisTLS{CACertSecretRef: &sentinelCARef}
	c.Redis.SentinelConfig.DB = 3
	held := &secrets{}
	held.set(passwordRef, password)
	held.set(sentinelCARef, a.pem)
	c.Secret = held.resolve
	s := open(t, c)
	works(t, s)
	if info := master.must(t, "INFO", "keyspace").(string); !strings.Contains(info, "db3:keys=1,") {
		t.Errorf("the database is not 3: %s", info)
	}
	runSuite(t, c)

	unknown := c
	other := *c.Redis.SentinelConfig
	other.MasterName = "another"
	unknown.Redis.SentinelConfig = &other
	refused(t, open(t, unknown), `knows no master "another"`)
	plain := c
	plain.Redis.SentinelTLS = nil
	refused(t, open(t, plain), "no sentinel names the master")
	// One of three sentinels is not there.
	few := sentinelConfig(append([]string{net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t)))}, addrs[0])...)
	few.Redis.SentinelTLS, few.Secret = c.Redis.SentinelTLS, c.Secret
	works(t, open(t, few))

	for _, n := range sentinels {
		eventually(t, "the sentinels know each other and the replica", func() error {
			if _, err := n.ask(t, "SENTINEL", "CKQUORUM", "main"); err != nil {
				return err
			}
			if replicas := n.must(t, "SENTINEL", "REPLICAS", "main").([]any); len(replicas) != 1 {
				return fmt.Errorf("%d replicas", len(replicas))
			}
			return nil
		})
	}
	eventually(t, "the replica has the value", func() error {
		if info := replica.must(t, "INFO", "keyspace").(string); !strings.Contains(info, "db3:") {
			return errors.New("no key is replicated")
		}
		return nil
	})
	master.kill()
	eventually(t, "fail over", func() error { return roundTrip(t, s, "after") })
	if info := replica.must(t, "INFO", "keyspace").(string); !strings.Contains(info, "db3:") {
		t.Errorf("the value is not at the new master: %s", info)
	}
	if _, err := s.Get(t.Context(), "k"); err != nil {
		t.Errorf("a value of before the failover: %v", err)
	}
}

func sentinelConfig(addrs ...string) Config {
	c := config("")
	c.Redis.SentinelConfig = &externalauth.Sentinel{MasterName: "main", Addrs: addrs}
	return c
}

// A connection to a server that became a replica ends with its READONLY answer, and the next
// goes to the new master. A sentinel that names a replica is not believed.
func TestSentinel_Demoted(t *testing.T) {
	t.Parallel()
	first, second := startServer(t), startServer(t)
	var named atomic.Pointer[server]
	named.Store(first)
	sentinel := startFake(t, func(args []string) string {
		if strings.EqualFold(args[0], "SENTINEL") {
			return array(bulk("127.0.0.1"), bulk(strconv.Itoa(named.Load().port)))
		}
		return "-ERR unknown command\r\n"
	})
	s := open(t, sentinelConfig(sentinel.addr))
	works(t, s)

	first.must(t, "REPLICAOF", "127.0.0.1", second.port)
	named.Store(second)
	if err := s.Put(t.Context(), "k", []byte("v"), time.Hour); err == nil || !strings.Contains(err.Error(), "it answered READONLY") {
		t.Errorf("Put at a replica: %v", err)
	}
	works(t, s)
	if n := second.must(t, "EXISTS", "thv:test:v:k"); n != int64(1) {
		t.Error("the value is not at the new master")
	}

	named.Store(first)
	refused(t, open(t, sentinelConfig(sentinel.addr)), "is not the master")
}
