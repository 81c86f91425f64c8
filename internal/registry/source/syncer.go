package source

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry/config"
	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// Outcomes of an attempt to synchronize a source.
const (
	Changed   = "changed"   // the store was changed
	Unchanged = "unchanged" // the store had the same content
	Failed    = "failed"    // the store was not changed
)

// Options of a [Syncer]. The zero value works.
type Options struct {
	Access
	Log *slog.Logger
	// Now is the clock of the recorded times.
	Now func() time.Time
	// Owner identifies this process among those on the database; "" is a random name.
	Owner string
	// Lease is how long a source stays with a process that died; 0 is a minute.
	Lease time.Duration
	// Retry is the time until the first retry after a failure; 0 is 5 s. It doubles
	// with each failure, up to the source's interval.
	Retry time.Duration
	// Observe is called for every attempt that was not interrupted, for metrics.
	// It must not block.
	Observe func(source, outcome string, took time.Duration)

	wrap func(Source) Source // for tests
}

const (
	defaultLease = time.Minute
	defaultRetry = 5 * time.Second
)

// Syncer synchronizes the store with the sources. Of the processes that share a
// database, one at a time holds the lease of a source and synchronizes it; the others
// stand by.
type Syncer struct {
	store   store.Store
	opt     Options
	workers []*worker
}

// New returns a Syncer of the sources. Managed registries are skipped.
func New(st store.Store, sources []config.Source, opt Options) (*Syncer, error) {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Lease <= 0 {
		opt.Lease = defaultLease
	}
	if opt.Retry <= 0 {
		opt.Retry = defaultRetry
	}
	if opt.Observe == nil {
		opt.Observe = func(string, string, time.Duration) {}
	}
	if opt.Owner == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		opt.Owner = fmt.Sprintf("%s-%d-%s", host, os.Getpid(), rand.Text()[:8])
	}
	s := &Syncer{store: st, opt: opt}
	for _, cfg := range sources {
		if cfg.Kind() == "managed" {
			continue
		}
		src, err := Open(cfg, opt.Access)
		if err != nil {
			return nil, fmt.Errorf("source %s: %w", cfg.Name, err)
		}
		if opt.wrap != nil {
			src = opt.wrap(src)
		}
		w := &worker{
			Options: opt, store: st, name: cfg.Name, cfg: cfg, source: src,
			fingerprint: fingerprint(cfg), interval: time.Duration(cfg.Interval),
			due: make(chan struct{}, 1),
		}
		if w.interval <= 0 {
			w.interval = defaultInterval
		}
		s.workers = append(s.workers, w)
	}
	return s, nil
}

const defaultInterval = 10 * time.Minute

// Run synchronizes until ctx ends. When it returns, all leases are released and all
// goroutines have ended.
func (s *Syncer) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for _, w := range s.workers {
		all.Go(func() { w.run(ctx) })
	}
	<-ctx.Done()
	all.Wait()
	return nil
}

// Refresh makes every source due now. A source that is being synchronized is
// synchronized once more. Sources whose lease another process holds are refreshed
// when this process takes the lease over.
func (s *Syncer) Refresh() {
	for _, w := range s.workers {
		w.hurry()
	}
}

// fingerprint identifies the parts of a configuration that determine the result for
// the same content: its location and the filter. The first member is the version of
// the parser: changing it makes all sources be read again.
func fingerprint(cfg config.Source) string {
	type place struct {
		Reading                         int
		Kind, Location, Ref, Path       string
		Names, NoNames, Tags, NotTagged []string
	}
	p := place{
		Reading: 2, Kind: cfg.Kind(),
		Names: sorted(cfg.Filter.Names.Include), NoNames: sorted(cfg.Filter.Names.Exclude),
		Tags: sorted(cfg.Filter.Tags.Include), NotTagged: sorted(cfg.Filter.Tags.Exclude),
	}
	switch {
	case cfg.File != nil:
		p.Location = cfg.File.Path
	case cfg.Git != nil:
		p.Location, p.Path = cfg.Git.Repository, cfg.Git.Path
		p.Ref = fmt.Sprintf("%q %q %q", cfg.Git.Branch, cfg.Git.Tag, cfg.Git.Commit)
	case cfg.API != nil:
		p.Location = cfg.API.Endpoint
	}
	text, _ := json.Marshal(p) // strings cannot fail to encode
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
