//go:build integration

package authserver

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/authserver/storage"
	"github.com/toolhaven/toolhaven/internal/authserver/storage/redis"
	"github.com/toolhaven/toolhaven/internal/authserver/vault"
	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/test/local"
)

const hereRedirect = "http://127.0.0.1:7/cb"

const redisPassword = "password-of-the-tests"

// patience bounds a wait for something that must happen.
const patience = time.Minute

// node is a process of redis-server.
type node struct {
	port int
	dir  string
	cmd  *exec.Cmd
}

func startNode(t *testing.T) *node {
	t.Helper()
	port, err := local.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	n := &node{port: port, dir: t.TempDir()}
	n.start(t, "yes")
	t.Cleanup(n.kill)
	return n
}

func (n *node) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(n.port)) }

// start starts it, with the data of its folder if it appends.
func (n *node) start(t *testing.T, appends string) {
	t.Helper()
	n.cmd = exec.Command("redis-server", "--port", strconv.Itoa(n.port), "--bind", "127.0.0.1", "--dir", n.dir, "--save", "",
		"--requirepass", redisPassword, "--masterauth", redisPassword, "--appendonly", appends, "--appendfsync", "always", "--repl-diskless-sync-delay", "0")
	if err := n.cmd.Start(); err != nil {
		t.Fatalf("%v; test/setup/redis.sh installs it", err)
	}
	soon(t, "redis-server starts", func() error {
		_, err := n.ask(t, "PING")
		return err
	})
}

// kill ends the process as a crash does. It may be called again.
func (n *node) kill() {
	n.cmd.Process.Kill()
	n.cmd.Wait()
}

// ask sends a command.
func (n *node) ask(t *testing.T, args ...string) (answer string, err error) {
	cmd := exec.CommandContext(t.Context(), "redis-cli", append([]string{"-e", "-p", strconv.Itoa(n.port)}, args...)...)
	cmd.Env = append(os.Environ(), "REDISCLI_AUTH="+redisPassword)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%v: %w: %s", args, err, out)
	}
	return string(out), err
}

func soon(t *testing.T, what string, done func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err = done(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

// forward is the one address of a service whose server changes.
func forward(t *testing.T, to *atomic.Pointer[node]) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer in.Close()
				out, err := net.Dial("tcp", to.Load().addr())
				if err != nil {
					return
				}
				defer out.Close()
				go func() {
					_, _ = io.Copy(out, in)
					out.Close()
				}()
				_, _ = io.Copy(in, out)
			}()
		}
	}()
	return l.Addr().String()
}

// journey is a login step by step, and what the steps before have given.
type journey struct {
	*fixture
	state, handle, code, access, refresh string
	session                              vault.Binding
}

// journeyStep sends a request. Its outcome is "", "503", "again" where the login, code or token
// is unknown, or what else happened.
type journeyStep struct {
	name string
	do   func(j *journey) (outcome string)
}

func outcome(status int, location *url.URL, body string) string {
	switch {
	case status == http.StatusServiceUnavailable:
		return "503"
	case location != nil && location.Query().Get("error") == "temporarily_unavailable":
		return "503"
	case status == http.StatusBadRequest && (strings.Contains(body, "invalid_grant") || strings.Contains(body, "expired or was already used")):
		return "again"
	}
	return strconv.Itoa(status) + " " + body
}

func (j *journey) page(a *answer) string {
	location, err := a.Location()
	if err != nil {
		location = nil
	}
	return outcome(a.StatusCode, location, a.body)
}

var steps = []journeyStep{
	{"authorize", func(j *journey) string {
		a := j.get(j.browser, j.request("redirect_uri", hereRedirect))
		if a.StatusCode != http.StatusSeeOther {
			return j.page(a)
		}
		j.state = j.location(a).Query().Get("state")
		return ""
	}},
	{"callback", func(j *journey) string {
		a := j.get(j.browser, j.url+pathCallback+"?code=c&state="+j.state)
		if a.StatusCode != http.StatusOK {
			return j.page(a)
		}
		j.handle = j.fixture.handle(a)
		return ""
	}},
	{"consent", func(j *journey) string {
		a := j.post(j.browser, pathConsent, url.Values{"login": {j.handle}, "decision": {"allow"}})
		if location, err := a.Location(); err != nil || location.Query().Get("code") == "" {
			return j.page(a)
		}
		j.code = j.location(a).Query().Get("code")
		return ""
	}},
	{"code", func(j *journey) string { return j.tokens(j.redeem(j.code, "redirect_uri", hereRedirect)) }},
	{"refresh", func(j *journey) string { return j.tokens(j.refreshing(j.refresh)) }},
	{"upstream", func(j *journey) string {
		access, _, err := j.cfg.Vault.Token(j.t.Context(), j.session)
		switch {
		case errors.Is(err, vault.ErrLogin):
			return "again"
		case err != nil || access != "of main for "+j.main.person.Subject:
			return access + " " + err.Error()
		}
		return ""
	}},
}

func (j *journey) tokens(a *answer) string {
	if a.StatusCode != http.StatusOK {
		return j.page(a)
	}
	got := a.json(j.t)
	j.access, j.refresh = got["access_token"].(string), got["refresh_token"].(string)
	id, claims := j.fixture.tokens.sessionOf(j.access)
	j.session = vault.Binding{Session: id, Client: j.client, Provider: "main", Subject: claims["sub"].(string)}
	return ""
}

// Redis fails before each step of a login. Steps without it are 503 for the client and the
// person. What was stored is used afterwards, what was lost needs a new login, and the same
// server goes on without a restart.
func TestRedis_FailsAtEachStep(t *testing.T) {
	t.Parallel()
	// While Redis is away, known upstream tokens are used: known.
	const known = "upstream"
	for _, fault := range []struct {
		name string
		// begin is called before a step, and end after it. Either may be nil.
		begin, end func(t *testing.T, now *atomic.Pointer[node])
		// during and after are the step's outcomes then, and again those of a login that is
		// lost, because its handle was taken and what follows could not be stored.
		during, after string
		lost          []string
	}{
		{
			name:  "killed",
			begin: func(_ *testing.T, now *atomic.Pointer[node]) { now.Load().kill() },
			end:   func(t *testing.T, now *atomic.Pointer[node]) { now.Load().start(t, "yes") }, during: "503",
		},
		{
			name:  "filled",
			begin: func(t *testing.T, now *atomic.Pointer[node]) { limitMemory(t, now.Load(), "1") },
			end:   func(t *testing.T, now *atomic.Pointer[node]) { limitMemory(t, now.Load(), "0") }, during: "503",
			lost: []string{"callback", "consent"},
		},
		{
			name: "restarted empty",
			begin: func(t *testing.T, now *atomic.Pointer[node]) {
				now.Load().kill()
				now.Load().start(t, "no")
			},
			during: "again", after: "again",
		},
		{
			name: "failed over",
			begin: func(t *testing.T, now *atomic.Pointer[node]) {
				former, next := now.Load(), startNode(t)
				if _, err := next.ask(t, "REPLICAOF", "127.0.0.1", strconv.Itoa(former.port)); err != nil {
					t.Fatal(err)
				}
				soon(t, "the replica has everything", func() error {
					info, err := next.ask(t, "INFO", "replication")
					if err == nil && (!strings.Contains(info, "master_link_status:up") || strings.Contains(info, "master_sync_in_progress:1")) {
						err = errors.New(info)
					}
					return err
				})
				former.kill()
				if _, err := next.ask(t, "REPLICAOF", "NO", "ONE"); err != nil {
					t.Fatal(err)
				}
				now.Store(next)
			},
		},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			for i, at := range steps {
				t.Run(at.name, func(t *testing.T) {
					t.Parallel()
					var now atomic.Pointer[node]
					now.Store(startNode(t))
					store := openRedis(t, forward(t, &now))
					f := newFixture(t, func(c *Config) {
						c.Store = store
						c.Key = []byte(strings.Repeat("k", 32))
					})
					f.client = f.register("http://127.0.0.1/cb") // its consent is not remembered
					j := &journey{fixture: f}
					run := func(from, to int) {
						t.Helper()
						for _, s := range steps[from:to] {
							if got := s.do(j); got != "" {
								t.Fatalf("%s: %s", s.name, got)
							}
						}
					}
					soon(t, "Redis answers", func() error { return store.Ping(t.Context()) })
					run(0, i)
					fault.begin(t, &now)
					want := fault.during
					if at.name == "authorize" && want == "again" || at.name == known && want == "503" {
						want = "" // nothing was stored yet; the token is known
					}
					got := at.do(j)
					// A connection of before a failover may end with an error.
					if got != want && !(fault.name == "failed over" && got == "503") {
						t.Errorf("meanwhile: %q, want %q", got, want)
					}
					if fault.end != nil {
						fault.end(t, &now)
					}
					soon(t, "Redis is reached again", func() error { return store.Ping(t.Context()) })
					if got != "" && at.name != "authorize" {
						want = fault.after
						if slices.Contains(fault.lost, at.name) {
							want = "again"
						}
						got = at.do(j)
						if got != want {
							t.Errorf("afterwards: %q, want %q", got, want)
						}
					}
					if got == "" {
						run(i+1, len(steps))
					}
					// Another login needs nothing of the former.
					j.browser = newBrowser(t)
					run(0, len(steps))
				})
			}
		})
	}
}

func limitMemory(t *testing.T, n *node, bytes string) {
	t.Helper()
	if _, err := n.ask(t, "CONFIG", "SET", "maxmemory", bytes); err != nil {
		t.Fatal(err)
	}
}

func openRedis(t *testing.T, address string) storage.Store {
	t.Helper()
	ref := externalauth.SecretRef{Name: "redis", Key: "password"}
	s, err := redis.New(redis.Config{
		Redis:  externalauth.Redis{Addr: address, ACLUserConfig: &externalauth.ACLUser{PasswordSecretRef: &ref}},
		Secret: func(externalauth.SecretRef) (string, error) { return redisPassword, nil },
		Prefix: "thv:",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
