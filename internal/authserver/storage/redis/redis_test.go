package redis

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/authserver/storage"
	"github.com/toolhaven/toolhaven/internal/externalauth"
)

func TestNew_Faults(t *testing.T) {
	user := &externalauth.ACLUser{PasswordSecretRef: &passwordRef}
	sentinel := &externalauth.Sentinel{MasterName: "m", Addrs: []string{"127.0.0.1:1"}}
	for _, row := range []struct {
		name string
		r    externalauth.Redis
		want string
	}{
		{"no address", externalauth.Redis{ACLUserConfig: user}, "one of addr and sentinelConfig is required"},
		{"two addresses", externalauth.Redis{Addr: "a:1", SentinelConfig: sentinel, ACLUserConfig: user}, "one of addr and sentinelConfig is required"},
		{"a cluster with sentinels", externalauth.Redis{ClusterMode: true, SentinelConfig: sentinel, ACLUserConfig: user}, "clusterMode needs addr"},
		{"no sentinel", externalauth.Redis{SentinelConfig: &externalauth.Sentinel{MasterName: "m"}, ACLUserConfig: user}, "there are no sentinels"},
		{"no user", externalauth.Redis{Addr: "a:1"}, "a password is required"},
		{"no password", externalauth.Redis{Addr: "a:1", ACLUserConfig: &externalauth.ACLUser{}}, "a password is required"},
		{"a bad timeout", externalauth.Redis{Addr: "a:1", ACLUserConfig: user, ReadTimeout: "soon"}, `readTimeout: "soon" is not a positive duration`},
		{"a negative timeout", externalauth.Redis{Addr: "a:1", ACLUserConfig: user, WriteTimeout: "-1s"}, `writeTimeout: "-1s" is not a positive duration`},
	} {
		c := config("")
		c.Redis = row.r
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %v", row.name, err)
		}
	}
	c := config("a:1")
	c.Prefix = "{a}"
	if _, err := New(c); err == nil {
		t.Error("braces in the prefix are accepted")
	}
	c = config("a:1")
	c.Secret = nil
	if _, err := New(c); err == nil {
		t.Error("no source of secrets is accepted")
	}
}

func TestServiceAddr(t *testing.T) {
	port := int32(1234)
	for _, row := range []struct {
		s    externalauth.SentinelService
		want string
	}{
		{externalauth.SentinelService{Name: "sentinel"}, "sentinel:26379"},
		{externalauth.SentinelService{Name: "sentinel", Namespace: "db"}, "sentinel.db.svc:26379"},
		{externalauth.SentinelService{Name: "sentinel", Namespace: "db", Port: &port}, "sentinel.db.svc:1234"},
	} {
		if got := serviceAddr(&row.s); got != row.want {
			t.Errorf("got %q, want %q", got, row.want)
		}
	}
	d, err := newDialer(Config{Secret: config("").Secret, Redis: externalauth.Redis{
		SentinelConfig: &externalauth.Sentinel{MasterName: "m", Service: &externalauth.SentinelService{Name: "s"}},
		ACLUserConfig:  &externalauth.ACLUser{PasswordSecretRef: &passwordRef},
	}})
	if err != nil || d.sentinels[0] != "s:26379" {
		t.Fatalf("got %v, %v", d, err)
	}
	if d.dialTimeout != 5*time.Second || d.readTimeout != 3*time.Second || d.writeTimeout != 3*time.Second {
		t.Errorf("the defaults are %s, %s, %s", d.dialTimeout, d.readTimeout, d.writeTimeout)
	}
}

// The password is in no error, also if the server repeats what it received: Redis 5 answers
// HELLO with its arguments.
func TestErrors_NoSecret(t *testing.T) {
	const stored = "stored-token"
	for _, row := range []struct {
		name, reply, want string
	}{
		{"a repeated password", "-ERR unknown command `HELLO`, with args beginning with: `2` `AUTH` `default` `" + password + "`\r\n", "it answered ERR"},
		{"a refusal", "-WRONGPASS " + password + " is wrong\r\n", "it answered WRONGPASS"},
		{"an error without a code", "-" + password + "\r\n", "it answered with an error"},
		{"another protocol", "HTTP/1.1 400 Bad Request " + password + "\r\n\r\n", "it did not answer as Redis does"},
		{"a length that is none", "$" + password + "\r\n", ""},
		{"an end", "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t, func([]string) string { return row.reply })
			s := open(t, config(f.addr))
			for name, err := range map[string]error{
				"Put":  s.Put(t.Context(), "k", []byte(stored), time.Hour),
				"Ping": s.Ping(t.Context()),
			} {
				if err == nil || !strings.Contains(err.Error(), row.want) {
					t.Errorf("%s: got %v", name, err)
				} else if strings.Contains(err.Error(), password) || strings.Contains(err.Error(), stored) {
					t.Errorf("%s: a secret is in the error: %v", name, err)
				}
			}
		})
	}
}

// What cannot be resolved is an error that names the secret; nothing is sent without a
// password.
func TestErrors_Secrets(t *testing.T) {
	for _, row := range []struct {
		name, value, want string
	}{
		{"missing", "", "there is no secret redis/password"},
		{"empty", "set", "the secret redis/password, its password, is empty"},
	} {
		f := startFake(t, func([]string) string { return "+OK\r\n" })
		c := config(f.addr)
		held := &secrets{}
		if row.value != "" {
			held.set(passwordRef, "")
		}
		c.Secret = held.resolve
		if err := open(t, c).Ping(t.Context()); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %v", row.name, err)
		}
		if n := f.count("PING"); n != 0 {
			t.Errorf("%s: PING was sent %d times", row.name, n)
		}
	}
}

// A command that changes something is sent once: its answer may be lost after it took effect.
func TestOnce(t *testing.T) {
	for _, cluster := range []bool{false, true} {
		var f *fake
		f = startFake(t, func(args []string) string {
			switch strings.ToUpper(args[0]) {
			case "HELLO": // as Redis 5
				return "-ERR unknown command\r\n"
			case "AUTH":
				return "+OK\r\n"
			case "CLUSTER":
				host, port, _ := net.SplitHostPort(f.addr)
				node := array(bulk(host), ":"+port+"\r\n", bulk(strings.Repeat("a", 40)))
				return array(array(":0\r\n", ":16383\r\n", node))
			case "COMMAND":
				return "*0\r\n"
			}
			return "" // as if it was killed after it executed the command
		})
		c := config(f.addr)
		c.Redis.ClusterMode = cluster
		s := open(t, c)
		ctx := t.Context()
		_, takeErr := s.Take(ctx, "a")
		_, leaseErr := s.Lease(ctx, "a", time.Hour)
		for command, errs := range map[string][]error{
			"GETDEL": {takeErr},
			"SET":    {s.Put(ctx, "a", nil, time.Hour), s.Swap(ctx, "a", nil, []byte("v"), time.Hour), leaseErr},
			"EVAL":   {s.Swap(ctx, "a", []byte("v"), []byte("w"), time.Hour)},
			"DEL":    {s.Delete(ctx, "a")},
		} {
			for i, err := range errs {
				if err == nil || errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrChanged) || errors.Is(err, storage.ErrHeld) {
					t.Errorf("cluster %t: %s %d: got %v", cluster, command, i, err)
				}
			}
			if got := f.count(command); got != len(errs) {
				t.Errorf("cluster %t: %s was sent %d times for %d calls", cluster, command, got, len(errs))
			}
		}
	}
}

// A server that does not answer costs no more than the timeout, or the caller's.
func TestTimeouts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // it accepts nothing: the system does
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := config(l.Addr().String())
	c.Redis.ReadTimeout = "50ms"
	began := time.Now()
	if err := open(t, c).Ping(t.Context()); err == nil {
		t.Error("no error after the read timeout")
	}
	c.Redis.ReadTimeout = "10m"
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := open(t, c).Ping(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after the caller's deadline: %v", err)
	}
	if took := time.Since(began); took > patience {
		t.Errorf("it took %s", took)
	}
}

func TestMilliseconds(t *testing.T) {
	for _, row := range []struct {
		lifetime time.Duration
		want     int64
	}{
		{1, 1}, {time.Millisecond, 1}, {time.Millisecond + 1, 2}, {time.Hour, 3_600_000}, {1<<63 - 1, 9_223_372_036_855},
	} {
		if got, err := milliseconds(row.lifetime); err != nil || got != row.want {
			t.Errorf("%s: got %s, %v", row.lifetime, strconv.FormatInt(got, 10), err)
		}
	}
}

func TestEvictionWarning(t *testing.T) {
	for _, row := range []struct {
		info  string
		warns bool
	}{
		{"# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n", false},
		{"maxmemory:1048576\r\nmaxmemory_policy:noeviction\r\n", false},
		{"maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n", false}, // without a limit nothing is evicted
		{"maxmemory:1048576\r\nmaxmemory_policy:allkeys-lru\r\n", true},
		{"maxmemory:1048576\r\nmaxmemory_policy:volatile-ttl\r\n", true},
		{"maxmemory_policy:volatile-lfu\r\n", true},
		{"", false},
	} {
		if got := evictionWarning(row.info); (got != "") != row.warns {
			t.Errorf("%q: got %q", row.info, got)
		}
	}
	if w := evictionWarning("maxmemory_policy:" + strings.Repeat("x", 1<<20)); len(w) > 200 {
		t.Errorf("a warning of %d bytes", len(w))
	}
}
