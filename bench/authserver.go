package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// authServer measures the embedded authorization server: tokens issued beside bare signatures,
// and registrations, alone; and three gateways that share a Redis, at the expiry of an upstream
// token and while Redis is away.
func (b *bench) authServer(ctx context.Context) ([]result, error) {
	results, err := b.issued(ctx)
	if err != nil {
		return nil, err
	}
	c, err := b.startCluster(ctx)
	if err != nil {
		return nil, err
	}
	defer c.close()
	for _, measure := range []func(context.Context) ([]result, error){c.expiry, c.outage} {
		some, err := measure(ctx)
		if err != nil {
			return nil, err
		}
		results = append(results, some...)
	}
	return results, nil
}

// issued runs the benchmarks of internal/authserver.
func (b *bench) issued(ctx context.Context) ([]result, error) {
	registrations := b.times(1_000_000)
	measured := map[string][]float64{}
	for _, args := range [][]string{
		{"-bench", "^BenchmarkIssue$", "-count", fmt.Sprint(b.times(5)), "-benchtime", fmt.Sprintf("%dms", b.times(400))},
		{"-bench", "^BenchmarkRegister$", "-benchtime", fmt.Sprintf("%dx", registrations)},
	} {
		cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-run", "^$", "./internal/authserver"}, args...)...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go test -bench: %w\n%s", err, out)
		}
		for name, values := range parseBenchmarks(string(out)) {
			measured[name] = append(measured[name], values...)
		}
	}
	var results []result
	for _, alg := range []string{"RS256", "ES256", "EdDSA"} {
		issue, bare := measured["Issue/"+alg+" issue-ns"], measured["Issue/"+alg+" bare-ns"]
		if len(issue) == 0 || len(issue) != len(bare) {
			return nil, fmt.Errorf("go test -bench has no Issue/%s", alg)
		}
		rates := make([]float64, len(issue)) // each by turns with the bare signature
		for i := range issue {
			rates[i] = bare[i] / issue[i]
		}
		rate := ratio(alg+": access tokens issued per second beside bare signatures", "/s", 1e9/median(issue), 1e9/median(bare))
		rate.Value = median(rates)
		results = append(results, atLeast(rate, 0.9, "at least 0.9x"))
	}
	grown, stored := measured["Register grown-MiB"], measured["Register stored"]
	if len(grown) == 0 || len(stored) == 0 {
		return nil, fmt.Errorf("go test -bench has no Register")
	}
	return append(results,
		atMost(itself(fmt.Sprintf("entries stored for %d registrations", registrations), "", stored[len(stored)-1]), 0, "none"),
		atMost(itself(fmt.Sprintf("memory after %d registrations, beside before", registrations), "MiB", grown[len(grown)-1]), 1, "at most 1 MiB")), nil
}

// cluster is three gateways of one workload, each with a state directory of its own, that
// share a Redis, and the upstream provider that they sign persons in at.
type cluster struct {
	gateways []*bench
	ports    []int
	redis    *redisServer
	upstream *httptest.Server
	ends     []func()
	scale    int

	refreshes atomic.Int64
	lifetime  atomic.Int64 // of the provider's tokens, in seconds
	issued    atomic.Int64
}

func (c *cluster) close() {
	for _, g := range c.gateways {
		g.close()
	}
	for _, end := range c.ends {
		end()
	}
}

// ServeHTTP is the provider's token endpoint.
func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.FormValue("grant_type") == "refresh_token" {
		c.refreshes.Add(1)
	}
	n := c.issued.Add(1)
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"access_token":"a%d","refresh_token":"r%d","token_type":"Bearer","expires_in":%d,"id":"jo"}`, n, n, c.lifetime.Load())
}

func (b *bench) startCluster(ctx context.Context) (c *cluster, err error) {
	c = &cluster{scale: b.scale}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	c.upstream = httptest.NewServer(c)
	c.ends = append(c.ends, c.upstream.Close)
	address, end, err := daemon(ctx, b.probe, "-json", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c.ends = append(c.ends, end)
	if c.redis, err = startRedis(b.dir); err != nil {
		return nil, err
	}
	c.ends = append(c.ends, c.redis.kill)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	secrets := map[string]string{
		"login/signing": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		"login/hmac":    rand.Text() + rand.Text(), "redis/password": c.redis.password,
	}
	file := filepath.Join(b.dir, "login.yaml")
	if err := os.WriteFile(file, []byte(fmt.Sprintf(loginFile, c.redis.port, c.upstream.URL)), 0o600); err != nil {
		return nil, err
	}
	for i := range 3 {
		g := &bench{thvPath: b.thvPath, dir: filepath.Join(b.dir, strconv.Itoa(i)), probe: b.probe, scale: b.scale}
		if err := os.Mkdir(g.dir, 0o700); err != nil {
			return nil, err
		}
		c.gateways = append(c.gateways, g)
		for name, value := range secrets {
			cmd := g.command(ctx, "secret", "set", name)
			cmd.Stdin = strings.NewReader(value)
			if out, err := cmd.CombinedOutput(); err != nil {
				return nil, fmt.Errorf("thv secret set: %w\n%s", err, out)
			}
		}
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		c.ports = append(c.ports, port)
		if _, err := g.thv(ctx, "run", "http://"+address+"/mcp", "--name", "login", "--transport", "streamable-http", "--proxy-port", strconv.Itoa(port), "--resource-url", loginResource, "--auth", file); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// loginFile has the port of Redis and the URL of the provider to be filled in.
const loginFile = `apiVersion: toolhaven.dev/v1beta1
kind: MCPExternalAuthConfig
metadata: {name: login}
spec:
  type: embeddedAuthServer
  embeddedAuthServer:
    issuer: https://` + loginHost + `
    signingKeySecretRefs: [{name: login, key: signing}]
    hmacSecretRefs: [{name: login, key: hmac}]
    storage:
      type: redis
      redis: {addr: "127.0.0.1:%d", aclUserConfig: {passwordSecretRef: {name: redis, key: password}}}
    upstreamProviders:
      - name: main
        type: oauth2
        oauth2Config:
          authorizationEndpoint: %[2]s/authorize
          tokenEndpoint: %[2]s/token
          clientId: bench
          identityFromToken: {subjectPath: id}
`

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (c *cluster) address(i int) string { return fmt.Sprintf("http://127.0.0.1:%d", c.ports[i]) }

// caller is a client at a gateway.
func (c *cluster) caller(i int, token string) *session {
	client := way{token: token}.client()
	client.Transport = host{loginHost, client.Transport}
	return &session{client: client, url: c.address(i) + "/mcp", modern: true}
}

// host sets the Host of requests.
type host struct {
	name string
	next http.RoundTripper
}

func (h host) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Host = h.name
	return h.next.RoundTrip(r)
}

// expiry sends 200 calls at once to the three gateways, when the person's upstream token has
// just expired.
func (c *cluster) expiry(ctx context.Context) ([]result, error) {
	const calls, lifetime = 200, 3 * time.Second
	c.lifetime.Store(int64(lifetime / time.Second))
	token, err := logIn(ctx, c.address(0))
	if err != nil {
		return nil, err
	}
	expired := time.After(lifetime)
	c.lifetime.Store(3600)
	select {
	case <-expired:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var failed atomic.Int64
	var first error
	var once sync.Once
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			if err := c.caller(i%len(c.ports), token).call(ctx); err != nil {
				failed.Add(1)
				once.Do(func() { first = err })
			}
		})
	}
	wg.Wait()
	if first != nil {
		fmt.Fprintln(os.Stderr, "bench: a call at the expiry failed:", first)
	}
	return []result{
		atMost(itself(fmt.Sprintf("refreshes for %d calls in 3 processes, at the expiry of an upstream token", calls), "", float64(c.refreshes.Load())), 1, "one"),
		atMost(itself("of these calls, failed ones", "", float64(failed.Load())), 0, "none"),
	}, nil
}

// outage stops Redis while calls go on: half of the time it does not answer, then it is gone.
// Then it starts with its data, and a login succeeds.
func (c *cluster) outage(ctx context.Context) ([]result, error) {
	away := time.Minute / time.Duration(c.scale)
	token, err := logIn(ctx, c.address(0))
	if err != nil {
		return nil, err
	}
	for i := range c.ports { // each gateway has seen the session
		if err := c.caller(i, token).call(ctx); err != nil {
			return nil, err
		}
	}
	load, stop := context.WithCancel(ctx)
	defer stop()
	var done, failed, slowest atomic.Int64
	var first error
	var once sync.Once
	var wg sync.WaitGroup
	for i := range 2 * len(c.ports) {
		wg.Go(func() {
			s := c.caller(i%len(c.ports), token)
			for load.Err() == nil {
				began := time.Now()
				err := s.call(ctx)
				done.Add(1)
				if took := time.Since(began).Milliseconds(); took > slowest.Load() {
					slowest.Store(took)
				}
				if err != nil {
					failed.Add(1)
					once.Do(func() { first = err })
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	err = c.redis.away(ctx, away)
	stop()
	wg.Wait()
	if err != nil {
		return nil, err
	}
	if first != nil {
		fmt.Fprintln(os.Stderr, "bench: a call without Redis failed:", first)
	}
	recovered := 1.0
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if _, err = logIn(ctx, c.address(1)); err == nil {
			break
		}
		if time.Now().After(deadline) {
			fmt.Fprintln(os.Stderr, "bench: no login after Redis is back:", err)
			recovered = 0
			break
		}
	}
	return []result{
		atMost(itself(fmt.Sprintf("failed calls of %d while Redis is stopped for %s", done.Load(), away), "", float64(failed.Load())), 0, "none"),
		itself("the slowest of these calls", "ms", float64(slowest.Load())),
		atLeast(itself("logins succeed afterwards, without a restart", "", recovered), 1, "yes"),
	}, nil
}

// redisServer is Debian's Redis, which keeps its data.
type redisServer struct {
	port          int
	dir, password string
	cmd           *exec.Cmd
}

func startRedis(dir string) (*redisServer, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	r := &redisServer{port: port, dir: dir, password: rand.Text()}
	return r, r.start()
}

func (r *redisServer) start() error {
	r.cmd = exec.Command("redis-server", "--port", strconv.Itoa(r.port), "--bind", "127.0.0.1", "--dir", r.dir, "--requirepass", r.password, "--save", "", "--appendonly", "yes")
	if err := r.cmd.Start(); err != nil {
		return fmt.Errorf("%w; test/setup/redis.sh installs it", err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.port))
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("redis-server does not start: %w", err)
		}
	}
}

func (r *redisServer) kill() {
	r.cmd.Process.Kill()
	r.cmd.Wait()
}

func (r *redisServer) away(ctx context.Context, d time.Duration) error {
	if err := r.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for _, end := range []func(){r.kill, func() {}} {
		select {
		case <-time.After(d / 2):
		case <-ctx.Done():
			return ctx.Err()
		}
		end()
	}
	return r.start()
}
