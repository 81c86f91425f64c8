package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/registry/config"
	"github.com/toolhaven/toolhaven/internal/registry/store"
	"github.com/toolhaven/toolhaven/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// server is a server.json.
func server(name, version, description string, tags ...string) string {
	quoted := make([]string, len(tags))
	for i, t := range tags {
		quoted[i] = fmt.Sprintf("%q", t)
	}
	return fmt.Sprintf(`{"name":%q,"version":%q,"description":%q,"_meta":{"io.modelcontextprotocol.registry/publisher-provided":{"io.github.stacklok":{"img":{"tags":[%s]}}}}}`,
		name, version, description, strings.Join(quoted, ","))
}

// registryFile is a file in the wrapped format.
func registryFile(servers ...string) string {
	return `{"version":"1.0.0","meta":{"last_updated":"2026-01-01T00:00:00Z"},"data":{"servers":[` + strings.Join(servers, ",") + `]}}`
}

func numbered(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = server(fmt.Sprintf("io.example/s%03d", i), "1.0.0", "one of many")
	}
	return out
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	// As careful writers do: another file, renamed.
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// eventually polls until ok holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it did not come to this: %s", what)
		}
	}
}

// short is a lease for tests that have a clock of their own.
const short = 300 * time.Millisecond

// running runs a Syncer until the test ends or stop is called.
func running(t *testing.T, st store.Store, opt Options, sources ...config.Source) (*Syncer, func()) {
	t.Helper()
	if opt.Log == nil {
		opt.Log = slog.New(slog.NewTextHandler(testLog{t}, nil))
	}
	if opt.Lease == 0 {
		opt.Lease = 30 * time.Second // a machine that stands still for a while loses none
	}
	if opt.Retry == 0 {
		opt.Retry = 20 * time.Millisecond
	}
	s, err := New(st, sources, opt)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return s, stop
}

type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

func listed(m *memory, source string) []string {
	return slices.Sorted(maps.Keys(m.list(source)))
}

func fileAt(path string, interval time.Duration) config.Source {
	return config.Source{Name: "files", File: &config.File{Path: path}, Interval: config.Duration(interval)}
}

func TestSyncer_FileChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registry.json")
	writeFile(t, path, registryFile(server("io.example/a", "1.0.0", "first")))
	m := newMemory()
	var outcomes sync.Map
	running(t, m, Options{Observe: func(s, o string, _ time.Duration) { outcomes.Store(o, s) }}, fileAt(path, time.Hour))
	eventually(t, "the file is read", func() bool { return len(m.list("files")) == 1 })

	t.Run("a change is seen", func(t *testing.T) {
		writeFile(t, path, registryFile(server("io.example/a", "1.0.0", "changed"), server("io.example/b", "2.0.0", "new")))
		var state store.Sync
		eventually(t, "both are there", func() bool { // it may be looked at once more
			state = m.sync("files")
			return len(m.list("files")) == 2 && state.Phase == "complete" && state.Servers == 2
		})
		if state.Servers != 2 || state.Versions != 2 || state.Error != "" || state.LastSuccess.IsZero() {
			t.Errorf("got %+v", state)
		}
	})
	t.Run("half-written content changes nothing", func(t *testing.T) {
		if err := os.WriteFile(path, []byte(registryFile(server("io.example/c", "1", "x"))[:80]), 0o600); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the failure is recorded", func() bool { return m.sync("files").Phase == "failed" })
		if diff := cmp.Diff([]string{"io.example/a@1.0.0", "io.example/b@2.0.0"}, listed(m, "files")); diff != "" {
			t.Error(diff)
		}
		if state := m.sync("files"); !strings.Contains(state.Error, path) || state.Failures == 0 || state.Servers != 2 {
			t.Errorf("got %+v", state)
		}
	})
	t.Run("so does its disappearance, and its return is seen", func(t *testing.T) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the failure says so", func() bool { return strings.Contains(m.sync("files").Error, "it does not exist") })
		if len(m.list("files")) != 2 {
			t.Error("what was there is gone")
		}
		writeFile(t, path, registryFile(server("io.example/d", "1.0.0", "back")))
		eventually(t, "it is read again", func() bool { return slices.Equal(listed(m, "files"), []string{"io.example/d@1.0.0"}) })
		if state := m.sync("files"); state.Failures != 0 || state.Error != "" {
			t.Errorf("got %+v", state)
		}
	})
	for _, o := range []string{Changed, Failed} {
		if _, ok := outcomes.Load(o); !ok {
			t.Errorf("no attempt was observed as %s", o)
		}
	}
}

// Kubernetes puts a volume's files behind ..data, a link to a directory that is
// named anew for each version; the link is replaced by renaming.
func TestSyncer_SwappedLink(t *testing.T) {
	dir := t.TempDir()
	version := func(n int, content string) {
		t.Helper()
		name := fmt.Sprintf("..2026_%d", n)
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "registry.json"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(name, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	version(1, registryFile(server("io.example/one", "1.0.0", "x")))
	path := filepath.Join(dir, "registry.json")
	if err := os.Symlink("..data/registry.json", path); err != nil {
		t.Fatal(err)
	}
	m := newMemory()
	running(t, m, Options{}, fileAt(path, time.Hour))
	eventually(t, "the first version", func() bool { return slices.Equal(listed(m, "files"), []string{"io.example/one@1.0.0"}) })
	for n := 2; n <= 4; n++ {
		version(n, registryFile(server(fmt.Sprintf("io.example/v%d", n), "1.0.0", "x")))
		want := []string{fmt.Sprintf("io.example/v%d@1.0.0", n)}
		eventually(t, want[0], func() bool { return slices.Equal(listed(m, "files"), want) })
		if err := os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..2026_%d", n-1))); err != nil {
			t.Fatal(err)
		}
	}
}

// scripted is a source whose results the test sets.
type scripted struct {
	mu      sync.Mutex
	fetches []string // previous of each
	answer  func(ctx context.Context, previous string) (Fetched, error)
}

func (s *scripted) Fetch(ctx context.Context, previous string) (Fetched, error) {
	s.mu.Lock()
	s.fetches = append(s.fetches, previous)
	answer := s.answer
	s.mu.Unlock()
	return answer(ctx, previous)
}

func (s *scripted) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.fetches)
}

func (s *scripted) set(answer func(context.Context, string) (Fetched, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// content answers with a file's servers, under a digest of their own.
func content(servers ...string) func(context.Context, string) (Fetched, error) {
	return func(_ context.Context, previous string) (Fetched, error) {
		return fromFile([]byte(registryFile(servers...)), previous)
	}
}

// withSource runs a Syncer of one source named "up", of kind api, that answers
// as scripted.
func withSource(t *testing.T, m *memory, src Source, opt Options, filter config.Filter, interval time.Duration) (*Syncer, func()) {
	t.Helper()
	opt.wrap = func(Source) Source { return src }
	return running(t, m, opt, config.Source{
		Name: "up", API: &config.API{Endpoint: "https://registry.example"}, Interval: config.Duration(interval), Filter: filter,
	})
}

func TestSyncer_RestartNotDue(t *testing.T) {
	m := newMemory()
	up := &scripted{answer: content(server("io.example/a", "1.0.0", "x"))}
	_, stop := withSource(t, m, up, Options{}, config.Filter{}, time.Hour)
	eventually(t, "it is synchronized", func() bool { return len(m.list("up")) == 1 })
	stop()
	if l := m.leases["up"]; l.owner != "" {
		t.Errorf("the lease is still held by %s", l.owner)
	}
	s, _ := withSource(t, m, up, Options{}, config.Filter{}, time.Hour)
	eventually(t, "it leads again", func() bool { m.mu.Lock(); defer m.mu.Unlock(); return m.leases["up"].owner != "" })
	if up.count() != 1 {
		t.Errorf("it was fetched %d times", up.count())
	}
	s.Refresh()
	eventually(t, "it is fetched when told to", func() bool { return up.count() == 2 })
	if up.fetches[1] == "" {
		t.Error("the source was not told what is applied")
	}
	eventually(t, "it is found unchanged", func() bool { return m.sync("up").Phase == "complete" })
	if m.replaced != 1 {
		t.Errorf("unchanged content was written %d times", m.replaced)
	}
}

func TestSyncer_RestartOverdue(t *testing.T) {
	m := newMemory()
	up := &scripted{answer: content(server("io.example/a", "1.0.0", "x"))}
	_, stop := withSource(t, m, up, Options{}, config.Filter{}, time.Hour)
	eventually(t, "it is synchronized", func() bool { return len(m.list("up")) == 1 })
	stop()
	later := func() time.Time { return time.Now().Add(2 * time.Hour) }
	withSource(t, m, up, Options{Now: later}, config.Filter{}, time.Hour)
	eventually(t, "it is fetched", func() bool { return up.count() == 2 })
}

func TestSyncer_ChangedFilter(t *testing.T) {
	m := newMemory()
	up := &scripted{answer: content(server("io.example/a", "1.0.0", "x", "db"), server("io.example/b", "1.0.0", "x"))}
	for _, row := range []struct {
		filter config.Filter
		want   []string
	}{
		{config.Filter{}, []string{"io.example/a@1.0.0", "io.example/b@1.0.0"}},
		{config.Filter{Names: config.Match{Exclude: []string{"*/a"}}}, []string{"io.example/b@1.0.0"}},
		{config.Filter{Tags: config.Match{Include: []string{"db"}}}, []string{"io.example/a@1.0.0"}},
	} {
		_, stop := withSource(t, m, up, Options{}, row.filter, time.Hour)
		eventually(t, fmt.Sprint(row.want), func() bool { return slices.Equal(listed(m, "up"), row.want) })
		stop()
	}
}

func TestSyncer_FailureRetried(t *testing.T) {
	m := newMemory()
	up := &scripted{answer: content(server("io.example/a", "1.0.0", "x"))}
	s, _ := withSource(t, m, up, Options{}, config.Filter{}, time.Hour)
	eventually(t, "it is synchronized", func() bool { return len(m.list("up")) == 1 })
	before := m.sync("up")
	up.set(func(context.Context, string) (Fetched, error) {
		return Fetched{}, errors.New("it says \x1b[31mno\x00\r\nand \u202emore" + strings.Repeat(" words", 500))
	})
	s.Refresh()
	eventually(t, "it has failed several times", func() bool { return m.sync("up").Failures >= 3 })
	state := m.sync("up")
	if strings.ContainsAny(state.Error, "\x1b\x00\r\n\u202e") || utf8.RuneCountInString(state.Error) > maxReason+1 || !strings.HasPrefix(state.Error, "it says no and more") {
		t.Errorf("the error is %q", state.Error)
	}
	if !state.LastSuccess.Equal(before.LastSuccess) || state.Digest != before.Digest || state.Servers != 1 || len(m.list("up")) != 1 {
		t.Errorf("got %+v", state)
	}
	up.set(func(context.Context, string) (Fetched, error) { panic("hostile bytes") })
	eventually(t, "a panic is a failure", func() bool { return strings.Contains(m.sync("up").Error, "hostile bytes") })
	up.set(content(server("io.example/b", "1.0.0", "x")))
	eventually(t, "it recovers", func() bool { return slices.Equal(listed(m, "up"), []string{"io.example/b@1.0.0"}) })
}

func TestSyncer_MalformedEntries(t *testing.T) {
	m := newMemory()
	good := server("io.example/good", "1.0.0", "x")
	file := registryFile(good, good, server("io.example/a", "1 0", "x"), server("io.example/b", "1/0", "x"), server("io.example/c", "..", "x"))
	file = strings.Replace(file, `"data":{`, `"data":{"skills":[{},{}],`, 1)
	up := &scripted{answer: func(_ context.Context, previous string) (Fetched, error) { return fromFile([]byte(file), previous) }}
	var log bytes.Buffer
	s, stop := withSource(t, m, up, Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, config.Filter{}, time.Hour)
	eventually(t, "it is synchronized", func() bool { return m.sync("up").Phase == "complete" })
	if got := listed(m, "up"); !slices.Equal(got, []string{"io.example/good@1.0.0"}) {
		t.Errorf("listed: %v", got)
	}
	reported := func() {
		t.Helper()
		state := m.sync("up")
		if state.Malformed != 4 || state.Others != 2 || state.Error != "" || !strings.Contains(state.LeftOut, "twice") || !strings.Contains(state.LeftOut, `"1/0"`) {
			t.Errorf("the state is %+v", state)
		}
	}
	reported()
	s.Refresh()
	eventually(t, "it is found unchanged", func() bool { return up.count() == 2 && m.sync("up").Phase == "complete" })
	reported()
	// A list without any usable entry changes nothing.
	up.set(content(server("io.example/good", "1 0", "x")))
	s.Refresh()
	eventually(t, "it fails", func() bool { return m.sync("up").Phase == "failed" })
	if got := m.sync("up").Error; !strings.Contains(got, "none of its 1 entries can be used") || len(m.list("up")) != 1 {
		t.Errorf("the error is %q; listed: %v", got, listed(m, "up"))
	}
	stop()
	if n := strings.Count(log.String(), "malformed=4"); n != 1 || !strings.Contains(log.String(), "count=2") {
		t.Errorf("%d log lines about what is left out:\n%s", n, &log)
	}
}

func TestSyncer_ShrunkList(t *testing.T) {
	for _, row := range []struct {
		name         string
		before, then int
		api          bool
		refused      bool
	}{
		{"a registry that lists nothing any more", 3, 0, true, true},
		{"a registry that lists a twentieth", 100, 5, true, true},
		{"a registry that lists half", 100, 50, true, false},
		{"a small registry that shrinks", 9, 1, true, false},
		{"a file that is emptied", 50, 0, false, true},
		{"a small file that is emptied", 3, 0, false, false},
		{"a file with a tenth left", 50, 5, false, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := newMemory()
			up := &scripted{answer: content(numbered(row.before)...)}
			cfg := config.Source{Name: "up", Interval: config.Duration(time.Hour)}
			if row.api {
				cfg.API = &config.API{Endpoint: "https://registry.example"}
			} else {
				cfg.Git = &config.Git{Repository: "https://git.example/r.git"}
			}
			s, _ := running(t, m, Options{wrap: func(Source) Source { return up }}, cfg)
			eventually(t, "the first list", func() bool { return len(m.list("up")) == row.before })
			up.set(content(numbered(row.then)...))
			s.Refresh()
			if !row.refused {
				eventually(t, "the new list", func() bool { return len(m.list("up")) == row.then })
				return
			}
			eventually(t, "it is refused", func() bool { return m.sync("up").Failures > 0 })
			if state := m.sync("up"); !strings.Contains(state.Error, "refused") || len(m.list("up")) != row.before {
				t.Errorf("%d are left: %+v", len(m.list("up")), state)
			}
		})
	}
	t.Run("a registry that was empty from the first", func(t *testing.T) {
		m := newMemory()
		withSource(t, m, &scripted{answer: content()}, Options{}, config.Filter{}, time.Hour)
		eventually(t, "it is complete", func() bool { return m.sync("up").Phase == "complete" })
	})
}

func TestSyncer_Takeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no stall of the machine costs a lease
		m := newMemory()
		one := &scripted{answer: content(server("io.example/a", "1.0.0", "x"))}
		two := &scripted{answer: content(server("io.example/a", "1.0.0", "x"))}
		_, stopOne := withSource(t, m, one, Options{Owner: "one", Lease: short}, config.Filter{}, 30*time.Millisecond)
		eventually(t, "one leads", func() bool { return one.count() > 2 })
		withSource(t, m, two, Options{Owner: "two", Lease: short}, config.Filter{}, 30*time.Millisecond)
		for n := one.count() + 10; one.count() < n; time.Sleep(time.Millisecond) {
			if two.count() > 0 {
				t.Fatal("both synchronize")
			}
		}
		stopOne()
		eventually(t, "the other takes over", func() bool { return two.count() > 2 })
		if m.sync("up").Phase == "failed" {
			t.Errorf("got %+v", m.sync("up"))
		}
	})
}

func TestSyncer_LeaseRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no stall of the machine costs a lease
		m := newMemory()
		proceed := make(chan struct{})
		long := &scripted{}
		long.set(func(ctx context.Context, previous string) (Fetched, error) {
			select {
			case <-proceed:
				return content(server("io.example/a", "1.0.0", "x"))(ctx, previous)
			case <-ctx.Done():
				return Fetched{}, ctx.Err()
			}
		})
		other := &scripted{answer: content()}
		withSource(t, m, long, Options{Owner: "one", Lease: short}, config.Filter{}, time.Hour)
		eventually(t, "it fetches", func() bool { return long.count() == 1 })
		withSource(t, m, other, Options{Owner: "two", Lease: short}, config.Filter{}, time.Hour)
		began := time.Now()
		eventually(t, "four leases have passed", func() bool { return time.Since(began) > 4*short })
		close(proceed)
		eventually(t, "it is applied", func() bool { return len(m.list("up")) == 1 })
		if other.count() != 0 || long.count() != 1 {
			t.Errorf("fetched %d and %d times", long.count(), other.count())
		}
	})
}

func TestSyncer_LostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no stall of the machine costs a lease
		m := newMemory()
		var ended atomic.Bool
		stuck := &scripted{answer: func(ctx context.Context, _ string) (Fetched, error) {
			<-ctx.Done()
			ended.Store(true)
			return Fetched{}, ctx.Err()
		}}
		withSource(t, m, stuck, Options{Owner: "one", Lease: short}, config.Filter{}, time.Hour)
		eventually(t, "it fetches", func() bool { return stuck.count() == 1 })
		m.mu.Lock()
		m.leases["up"] = lease{"two", time.Now().Add(time.Hour)}
		m.mu.Unlock()
		eventually(t, "the fetch is ended", ended.Load)
	})
}

func TestSyncer_RefreshAfterLostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no stall of the machine costs a lease
		m := newMemory()
		up := &scripted{answer: content(server("io.example/a", "1.0.0", "x"))}
		s, _ := withSource(t, m, up, Options{Owner: "one", Lease: short}, config.Filter{}, time.Hour)
		eventually(t, "it is synchronized", func() bool { return m.sync("up").Phase == "complete" })
		up.set(func(ctx context.Context, _ string) (Fetched, error) {
			<-ctx.Done()
			return Fetched{}, ctx.Err()
		})
		s.Refresh()
		eventually(t, "it fetches", func() bool { return up.count() == 2 })
		up.set(content(server("io.example/b", "1.0.0", "x")))
		m.mu.Lock()
		m.leases["up"] = lease{"two", time.Now().Add(5 * short / 3)}
		m.mu.Unlock()
		eventually(t, "it is fetched once more", func() bool { return slices.Equal(listed(m, "up"), []string{"io.example/b@1.0.0"}) })
	})
}

func TestSyncer_StopDuringFetch(t *testing.T) {
	m := newMemory()
	stuck := &scripted{answer: func(ctx context.Context, _ string) (Fetched, error) {
		<-ctx.Done()
		return Fetched{}, ctx.Err()
	}}
	_, stop := withSource(t, m, stuck, Options{}, config.Filter{}, time.Hour)
	eventually(t, "it is synchronizing", func() bool { return m.sync("up").Phase == "syncing" })
	stop()
	if state := m.sync("up"); state.Phase != "" || state.Failures != 0 {
		t.Errorf("got %+v", state)
	}
	if l := m.leases["up"]; l.owner != "" {
		t.Error("the lease is still held")
	}
}

func TestSyncer_StoreUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no stall of the machine costs a lease
		m := newMemory()
		up := &scripted{answer: content(server("io.example/a", "1.0.0", "x"))}
		withSource(t, m, up, Options{Lease: short}, config.Filter{}, 20*time.Millisecond)
		eventually(t, "it is synchronized", func() bool { return len(m.list("up")) == 1 })
		m.breakWith(store.ErrUnavailable)
		began := time.Now()
		eventually(t, "two leases have passed", func() bool { return time.Since(began) > 2*short })
		up.set(content(server("io.example/b", "1.0.0", "x")))
		m.breakWith(nil)
		eventually(t, "it goes on", func() bool { return slices.Equal(listed(m, "up"), []string{"io.example/b@1.0.0"}) })
	})
}
