package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// What the registry server is measured with.
const (
	catalogServers = 20_000
	largeServers   = 66_667 // 200,001 versions
	pageRate       = 500
	searchRate     = 100
	loadSeconds    = 1.0
)

// resource is what tokens are for.
const resource = "https://registry.example.com"

// registries is a place to measure registry servers in: catalogs in files, and
// an identity provider.
type registries struct {
	*bench
	dir    string
	issuer *httptest.Server
	ask    *caller
}

// catalogs are the sources, each shown by a registry of its name.
func (b *bench) catalogs() map[string]int {
	return map[string]int{"catalog": catalogServers / b.scale, "half": catalogServers / 2 / b.scale, "large": largeServers / b.scale}
}

// newRegistries makes the place; end removes what is not below b.dir.
func (b *bench) newRegistries() (r *registries, end func(), err error) {
	r = &registries{bench: b, dir: filepath.Join(b.dir, "registry")}
	var token string
	r.issuer, token, err = newIssuer(map[string]http.Handler{"/upstream/v0.1/servers": upstream(b.catalogs()["large"])})
	if err != nil {
		return nil, nil, err
	}
	r.ask = newCaller(token)
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return nil, r.issuer.Close, err
	}
	for _, name := range []string{"catalog", "half"} {
		if err := writeCatalog(filepath.Join(r.dir, name+".json"), b.catalogs()[name]); err != nil {
			return nil, r.issuer.Close, err
		}
	}
	return r, r.issuer.Close, nil
}

// registrySQLite measures the registry server on the database it has by default.
func (b *bench) registrySQLite(ctx context.Context) ([]result, error) {
	r, end, err := b.newRegistries()
	if end != nil {
		defer end()
	}
	if err != nil {
		return nil, err
	}
	return r.measure(ctx, "SQLite", "sqlite: {path: bench.db}", nil)
}

// registryPostgres measures it on a PostgreSQL server that is started for it,
// beside the official registry program where that can be had.
func (b *bench) registryPostgres(ctx context.Context) (_ []result, err error) {
	r, end, err := b.newRegistries()
	if end != nil {
		defer end()
	}
	if err != nil {
		return nil, err
	}
	db, err := startPostgres()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	url, err := db.create()
	if err != nil {
		return nil, err
	}
	rival, err := r.startOfficial(ctx, db)
	if err != nil {
		fmt.Fprintf(os.Stderr, "the official registry is not measured: %v\n", err)
		rival = nil
	} else {
		defer rival.stop()
	}
	return r.measure(ctx, "PostgreSQL", fmt.Sprintf("postgres: {url: %q}", url), rival)
}

// configure writes a configuration, with a registry for each source.
func (r *registries) configure(name, database string, sources ...string) (path string, err error) {
	var text strings.Builder
	fmt.Fprintf(&text, "auth:\n  oauth:\n    resourceUrl: %s\n    providers:\n      - {name: bench, issuerUrl: %q, audience: %s}\ndatabase:\n  %s\nsources:\n",
		resource, r.issuer.URL, resource, database)
	for _, s := range sources {
		from := fmt.Sprintf("file: {path: %s.json}", s)
		if s == "large" {
			from = fmt.Sprintf("api: {endpoint: %q}", r.issuer.URL+"/upstream")
		}
		fmt.Fprintf(&text, "  - {name: %s, %s, interval: 24h}\n", s, from)
	}
	fmt.Fprint(&text, "registries:\n")
	for _, s := range sources {
		fmt.Fprintf(&text, "  - {name: %s, sources: [%s]}\n", s, s)
	}
	path = filepath.Join(r.dir, name+".yaml")
	return path, os.WriteFile(path, []byte(text.String()), 0o600)
}

// filled waits until the sources, which are synchronized in the background, are
// there.
func (r *registries) filled(ctx context.Context, s *served, sources ...string) error {
	deadline := time.Now().Add(3 * time.Minute)
	for {
		body, err := r.ask.get(ctx, s.internal+"/metrics")
		missing := err != nil
		for _, source := range sources {
			missing = missing || !strings.Contains(string(body),
				fmt.Sprintf("thv_registry_source_versions{source=%q} %g\n", source, float64(r.catalogs()[source]*catalogVersions)))
		}
		switch {
		case !missing:
			return nil
		case time.Now().After(deadline):
			return errors.New("the catalog is not there after 3 minutes")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (r *registries) walk(s *served, registry string) *walk {
	return &walk{list: s.base + "/registry/" + registry + "/v0.1/servers", want: r.catalogs()[registry] * catalogVersions}
}

// searches finds nothing, little or much.
func (w *walk) searches(rate int) stream {
	return stream{rate: rate, holds: `"count":`, at: func(i int) string {
		words := []string{subjects[i%len(subjects)], fmt.Sprintf("number %d", i*7919%catalogServers), "absent-word", "owner-" + fmt.Sprint(i%971)}
		return w.list + "?version=latest&search=" + url.QueryEscape(words[i%len(words)])
	}}
}

// measure measures one database; rival, if any, runs on the same kind.
func (r *registries) measure(ctx context.Context, db, database string, rival *official) ([]result, error) {
	name := func(text string) string { return "registry, " + db + ": " + text }
	config, err := r.configure(db, database, "catalog")
	if err != nil {
		return nil, err
	}
	s, err := r.serveRegistry(ctx, config)
	if err != nil {
		return nil, err
	}
	defer func() { s.stop() }()
	began := time.Now()
	if err := r.filled(ctx, s, "catalog"); err != nil {
		return nil, err
	}
	results := []result{itself(name(fmt.Sprintf("filling with %d versions", r.catalogs()["catalog"]*catalogVersions)), "ms", milliseconds(time.Since(began)))}
	var starts []float64
	for range 5 {
		s.stop()
		if s, err = r.serveRegistry(ctx, config); err != nil {
			return nil, err
		}
		starts = append(starts, milliseconds(s.ready))
	}
	results = append(results, atMost(itself(name("start"), "ms", median(starts)), 1000, "under 1 s"))
	some, err := r.loads(ctx, s, name, rival)
	if err != nil {
		return nil, err
	}
	results = append(results, some...)
	s.stop()

	sources := []string{"catalog", "half", "large"}
	if config, err = r.configure(db+"-large", database, sources...); err != nil {
		return nil, err
	}
	if s, err = r.serveRegistry(ctx, config); err != nil {
		return nil, err
	}
	if err := r.filled(ctx, s, sources...); err != nil {
		return nil, err
	}
	if some, err = r.sizes(ctx, s, name); err != nil {
		return nil, err
	}
	return append(results, some...), nil
}

// loads measures pages and searches at a fixed rate beside a constant answer, and
// the memory after that.
func (r *registries) loads(ctx context.Context, s *served, name func(string) string, rival *official) ([]result, error) {
	all := r.walk(s, "catalog")
	if err := together(ctx, r.ask, all); err != nil {
		return nil, err
	}
	pages, searches := all.pages(pageRate), all.searches(searchRate)
	constant, err := newConstant(ctx, r.ask, pages.at(1))
	if err != nil {
		return nil, err
	}
	defer constant.end()
	same := stream{rate: pageRate, holds: pages.holds, at: func(int) string { return constant.url }}
	slower := same
	slower.rate = searchRate
	streams := []stream{same, pages, slower, searches}
	if rival != nil {
		streams = append(streams, rival.pages(pageRate))
	}
	q, err := byTurns(ctx, r.ask, loadSeconds/float64(r.scale), streams...)
	if err != nil {
		return nil, err
	}
	memory, err := settled(ctx, s.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	base, page, slow, search := q[0], q[1], q[2], q[3]
	results := []result{
		ratio(name("page of 30 at 500/s, p50"), "ms", page.p50, base.p50),
		ratio(name("page of 30 at 500/s, p99"), "ms", page.p99, base.p99).under(10, "under 10 ms"),
		ratio(name("search at 100/s, p50"), "ms", search.p50, slow.p50),
		ratio(name("search at 100/s, p99"), "ms", search.p99, slow.p99).under(25, "under 25 ms"),
		atMost(itself(name("memory after all that"), "MiB", memory), 150, "under 150 MiB"),
	}
	if rival != nil {
		other, err := rival.results(ctx, page, q[4], memory)
		if err != nil {
			return nil, err
		}
		results = append(results, other...)
	}
	return results, nil
}

// sizes measures how the time of a page and of a walk grows with the catalog.
func (r *registries) sizes(ctx context.Context, s *served, name func(string) string) ([]result, error) {
	all, half, large := r.walk(s, "catalog"), r.walk(s, "half"), r.walk(s, "large")
	if err := together(ctx, r.ask, all, half, large); err != nil {
		return nil, err
	}
	q, err := byTurns(ctx, r.ask, loadSeconds/float64(r.scale), all.pages(pageRate), large.pages(pageRate))
	if err != nil {
		return nil, err
	}
	first, last := all.tenths()
	perPage := func(w *walk) float64 { return w.total() / float64(len(w.times)) }
	return []result{
		atMost(ratio(name("walk of 20,000 servers beside 10,000"), "ms", all.total(), half.total()), 2.4, "linear: 2x"),
		atMost(ratio(name("walk of 20,000, last tenth of its pages beside the first"), "ms", last, first), 1.5, "linear: 1x"),
		atMost(ratio(name("walked page of 200,000 versions beside 60,000"), "ms", perPage(large), perPage(all)), 1.3, "the same"),
		atMost(ratio(name("page at 500/s of 200,000 versions beside 60,000, p50"), "ms", q[1].p50, q[0].p50), 1.3, "the same"),
		ratio(name("page at 500/s of 200,000 versions beside 60,000, p99"), "ms", q[1].p99, q[0].p99).limited(10, "under 10 ms"),
	}, nil
}
