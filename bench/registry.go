package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

// The catalog that the registry server is measured with.
const (
	catalogServers  = 20_000
	catalogVersions = 3 // of each
	pageRate        = 500
	searchRate      = 100
)

const resource = "https://registry.example.com"

// registry measures the registry server on a large catalog, on SQLite and, where
// THV_BENCH_POSTGRES is the URL of an empty database, on PostgreSQL.
func (b *bench) registry(ctx context.Context) ([]result, error) {
	issuer, token, err := newIssuer()
	if err != nil {
		return nil, err
	}
	defer issuer.Close()
	dir := filepath.Join(b.dir, "registry")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := writeCatalog(filepath.Join(dir, "catalog.json"), catalogServers/b.scale); err != nil {
		return nil, err
	}
	databases := []struct{ name, config string }{{"SQLite", "sqlite: {path: bench.db}"}}
	if u := os.Getenv("THV_BENCH_POSTGRES"); u != "" {
		databases = append(databases, struct{ name, config string }{"PostgreSQL", fmt.Sprintf("postgres: {url: %q}", u)})
	} else {
		fmt.Fprintln(os.Stderr, "THV_BENCH_POSTGRES is not set: PostgreSQL is not measured")
	}
	var results []result
	for _, db := range databases {
		config := filepath.Join(dir, db.name+".yaml")
		text := fmt.Sprintf("auth:\n  oauth:\n    resourceUrl: %s\n    providers:\n      - {name: bench, issuerUrl: %q, audience: %s}\n"+
			"database:\n  %s\nsources:\n  - {name: catalog, file: {path: catalog.json}, interval: 24h}\nregistries:\n  - {name: default, sources: [catalog]}\n", resource, issuer.URL, resource, db.config)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			return nil, err
		}
		some, err := b.catalog(ctx, db.name, config, token)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", db.name, err)
		}
		results = append(results, some...)
	}
	return results, nil
}

// newIssuer is an identity provider in this process: a key set, and a token.
func newIssuer() (*httptest.Server, string, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, "", err
	}
	public := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "bench", Algorithm: "RS256", Use: "sig"}}}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": server.URL, "jwks_uri": server.URL + "/keys"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(public) })
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", "bench").WithType("at+jwt"))
	if err != nil {
		return nil, "", err
	}
	claims, err := json.Marshal(map[string]any{"iss": server.URL, "aud": resource, "sub": "bench", "exp": time.Now().Add(time.Hour).Unix(), "scope": "mcp-registry:read"})
	if err != nil {
		return nil, "", err
	}
	jws, err := signer.Sign(claims)
	if err != nil {
		return nil, "", err
	}
	token, err := jws.CompactSerialize()
	return server, token, err
}

// writeCatalog makes a registry file of n servers.
func writeCatalog(path string, n int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	fmt.Fprint(w, `{"version":"1.0.0","meta":{"last_updated":"2026-01-01T00:00:00Z"},"data":{"servers":[`)
	for i := range n {
		for v := range catalogVersions {
			if i+v > 0 {
				fmt.Fprint(w, ",")
			}
			fmt.Fprintf(w, `{"$schema":"https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json","name":"io.github.owner-%d/%s-server-%d","title":"Server number %d","description":"Gives agents access to the %s of number %d","version":"%d.0.0","packages":[{"registryType":"npm","identifier":"@owner/server-%d","version":"%d.0.0","transport":{"type":"stdio"},"environmentVariables":[{"name":"API_TOKEN","description":"What signs in","isRequired":true,"isSecret":true}]}]}`,
				i%971, subjects[i%len(subjects)], i, i, subjects[i%len(subjects)], i, v+1, i, v+1)
		}
	}
	fmt.Fprint(w, "]}}\n")
	return errors.Join(w.Flush(), f.Sync())
}

var subjects = []string{"weather", "calendar", "files", "database", "mail", "tickets", "git", "maps", "music", "browser", "search", "payments", "wiki"}

// served is a running registry server.
type served struct {
	cmd            *exec.Cmd
	base, internal string
	ready          time.Duration // from start to ready
}

func (b *bench) serveRegistry(ctx context.Context, config string) (*served, error) {
	program := filepath.Join(filepath.Dir(b.thvPath), "thv-registry")
	cmd := exec.CommandContext(ctx, program, "serve", "--config", config, "--address", "127.0.0.1:0", "--internal-address", "127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &served{cmd: cmd}
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for s.base == "" && lines.Scan() {
		var said struct{ Msg, Address, InternalAddress string }
		if json.Unmarshal(lines.Bytes(), &said) == nil && said.Msg == "the registry serves" {
			s.base, s.internal = "http://"+said.Address, "http://"+said.InternalAddress
		}
	}
	go func() { _, _ = io.Copy(io.Discard, stderr) }()
	if s.base == "" {
		return nil, errors.New("thv-registry does not start")
	}
	for {
		resp, err := http.Get(s.internal + "/readiness")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				s.ready = time.Since(start)
				return s, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (s *served) stop() {
	_ = s.cmd.Process.Signal(os.Interrupt)
	_ = s.cmd.Wait()
}

// caller asks with a token, over connections that are kept.
type caller struct {
	client *http.Client
	token  string
}

func (c *caller) get(ctx context.Context, target string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return body, err
}

type pageAnswer struct {
	Servers  []json.RawMessage
	Metadata struct{ NextCursor string }
}

// catalog measures one database.
func (b *bench) catalog(ctx context.Context, db, config, token string) ([]result, error) {
	s, err := b.serveRegistry(ctx, config)
	if err != nil {
		return nil, err
	}
	defer func() { s.stop() }()
	c := &caller{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}}, token: token}
	want := catalogServers / b.scale * catalogVersions
	began := time.Now()
	// The source is synchronized in the background.
	for {
		body, err := c.get(ctx, s.internal+"/metrics")
		if err == nil && strings.Contains(string(body), fmt.Sprintf("thv_registry_source_versions{source=\"catalog\"} %g\n", float64(want))) {
			break
		}
		if time.Since(began) > 5*time.Minute {
			return nil, errors.New("the catalog is not there after 5 minutes")
		}
		time.Sleep(100 * time.Millisecond)
	}
	filled := time.Since(began)
	s.stop()
	var starts []float64
	for range 3 {
		if s, err = b.serveRegistry(ctx, config); err != nil {
			return nil, err
		}
		starts = append(starts, milliseconds(s.ready))
		if len(starts) < 3 {
			s.stop()
		}
	}

	cursors, firstTenth, lastTenth, err := walk(ctx, c, s.base)
	if err != nil {
		return nil, err
	}
	seconds := 20 / b.scale
	pages := func(i int) string {
		return s.base + "/registry/default/v0.1/servers?cursor=" + url.QueryEscape(cursors[i%len(cursors)])
	}
	searches := func(i int) string {
		words := []string{subjects[i%len(subjects)], fmt.Sprintf("number %d", i), "absent-word", "owner-" + fmt.Sprint(i%971)}
		return s.base + "/registry/default/v0.1/servers?version=latest&search=" + url.QueryEscape(words[i%len(words)])
	}
	baseline, err := newPageServer(ctx, c, pages(1))
	if err != nil {
		return nil, err
	}
	defer baseline.end()
	var p99, base, search []float64
	for range 3 {
		for _, m := range []struct {
			into *[]float64
			rate int
			at   func(int) string
		}{{&base, pageRate, func(int) string { return baseline.url }}, {&p99, pageRate, pages}, {&search, searchRate, searches}} {
			v, err := load(ctx, c, m.rate, seconds, m.at)
			if err != nil {
				return nil, err
			}
			*m.into = append(*m.into, v)
		}
	}
	memory, err := settled(ctx, s.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	name := func(text string) string { return "registry, " + db + ": " + text }
	pageTime := ratio(name("page of 30, p99 at 500/s"), "ms", median(p99), median(base))
	met := median(p99) < 10
	pageTime.Target, pageTime.Met = "under 10 ms", &met
	return []result{
		itself(name(fmt.Sprintf("filling with %d versions", want)), "ms", milliseconds(filled)),
		atMost(itself(name("start"), "ms", median(starts)), 1000, "under 1 s"),
		pageTime,
		atMost(itself(name("search, p99 at 100/s"), "ms", median(search)), 25, "under 25 ms"),
		atMost(ratio(name("walk, last tenth of the pages beside the first"), "ms", lastTenth, firstTenth), 1.5, "linear"),
		atMost(itself(name("memory after all that"), "MiB", memory), 150, "under 150 MiB"),
	}, nil
}

// walk follows all pages, and returns their cursors and the mean time of the
// first and the last tenth, in milliseconds.
func walk(ctx context.Context, c *caller, base string) (cursors []string, first, last float64, err error) {
	var times []float64
	for cursor := ""; ; {
		cursors = append(cursors, cursor)
		began := time.Now()
		body, err := c.get(ctx, base+"/registry/default/v0.1/servers?limit=30&cursor="+url.QueryEscape(cursor))
		if err != nil {
			return nil, 0, 0, err
		}
		times = append(times, milliseconds(time.Since(began)))
		var p pageAnswer
		if err := json.Unmarshal(body, &p); err != nil {
			return nil, 0, 0, err
		}
		if cursor = p.Metadata.NextCursor; cursor == "" {
			break
		}
	}
	tenth := max(1, len(times)/10)
	return cursors, median(times[:tenth]), median(times[len(times)-tenth:]), nil
}

// load asks at a fixed rate, and returns the 99th percentile of the time from
// when a question was due to its answer, in milliseconds: one that has to wait
// because others are slow counts its waiting.
func load(ctx context.Context, c *caller, rate, seconds int, at func(int) string) (float64, error) {
	n := rate * max(1, seconds)
	times := make([]float64, n)
	errs := make(chan error, 1)
	due := make(chan int, n)
	begin := time.Now().Add(50 * time.Millisecond)
	moment := func(i int) time.Time { return begin.Add(time.Duration(i) * time.Second / time.Duration(rate)) }
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for i := range due {
				if _, err := c.get(ctx, at(mathrand.IntN(1<<20))); err != nil {
					select {
					case errs <- err:
					default:
					}
				}
				times[i] = milliseconds(time.Since(moment(i)))
			}
		})
	}
	for i := range n {
		time.Sleep(time.Until(moment(i)))
		due <- i
	}
	close(due)
	wg.Wait()
	select {
	case err := <-errs:
		return 0, err
	default:
	}
	slices.Sort(times)
	return times[n*99/100], nil
}

// pageServer answers every request with the same page: what net/http alone costs.
type pageServer struct {
	url string
	end func()
}

func newPageServer(ctx context.Context, c *caller, page string) (*pageServer, error) {
	body, err := c.get(ctx, page)
	if err != nil {
		return nil, err
	}
	file, err := os.CreateTemp("", "page")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if _, err := file.Write(body); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	addr, end, err := daemon(ctx, self, "page", file.Name())
	if err != nil {
		return nil, err
	}
	return &pageServer{url: "http://" + addr, end: func() { end(); os.Remove(file.Name()) }}, nil
}

func servePage(path string) error {
	body, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	})}
	return server.Serve(l)
}
