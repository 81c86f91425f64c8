package source

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/registry/config"
)

// item is a server in a response; meta is the registry's data about it.
func item(server, meta string) string {
	if meta == "" {
		return `{"server":` + server + `,"_meta":{}}`
	}
	return `{"server":` + server + `,"_meta":{"io.modelcontextprotocol.registry/official":` + meta + `}}`
}

func page(next string, items ...string) string {
	cursor := ""
	if next != "" {
		cursor = fmt.Sprintf(`"nextCursor":%q,`, next)
	}
	return fmt.Sprintf(`{"servers":[%s],"metadata":{%s"count":%d}}`, strings.Join(items, ","), cursor, len(items))
}

// upstream is a registry server whose answers the test gives.
type upstream struct {
	*httptest.Server
	mu      sync.Mutex
	queries []url.Values
	auth    []string
}

func newUpstream(t *testing.T, answer http.HandlerFunc) *upstream {
	t.Helper()
	u := &upstream{}
	u.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.mu.Lock()
		u.queries = append(u.queries, r.URL.Query())
		u.auth = append(u.auth, r.Header.Get("Authorization"))
		u.mu.Unlock()
		if r.URL.Path != "/registry/main/v0.1/servers" {
			http.NotFound(w, r)
			return
		}
		answer(w, r)
	}))
	u.Config.ErrorLog = log.New(io.Discard, "", 0)
	u.Start()
	t.Cleanup(u.Close)
	return u
}

func (u *upstream) endpoint() string { return u.URL + "/registry/main" }

// pages answers with pages one after the other; a cursor is the number of its
// page.
func pages(list ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
		fmt.Fprint(w, list[n])
	}
}

func apiAt(endpoint string) config.Source {
	return config.Source{Name: "up", API: &config.API{Endpoint: endpoint}}
}

func TestAPI_AllPages(t *testing.T) {
	// Members in unusual order and an unknown one are kept.
	odd := `{"version":"2.0.0", "x-new":{"b":1,"a":[1.50,1e3]},
		"description":"odd é <&>", "name":"io.example/odd"}`
	up := newUpstream(t, pages(
		page("1", item(server("io.example/a", "1.0.0", "x"), `{"status":"active","publishedAt":"2025-01-01T00:00:00Z","updatedAt":"2025-02-01T00:00:00.123456789Z","isLatest":false}`)),
		page("2", item(odd, `{"status":"deprecated","statusMessage":"use another","statusChangedAt":"2025-03-01T01:00:00+01:00"}`), item(server("io.example/a", "1.1.0", "x"), "")),
		page("", item(server("io.example/gone", "1.0.0", "x"), `{"status":"deleted"}`)),
	))
	got, err := fetch(t, apiAt(up.endpoint()), "")
	if err != nil {
		t.Fatal(err)
	}
	type row struct{ Name, Version, Status, Message string }
	var rows []row
	for _, e := range got.Entries {
		rows = append(rows, row{e.Name, e.Version, e.Status, e.StatusMessage})
	}
	if diff := cmp.Diff([]row{
		{"io.example/a", "1.0.0", "active", ""}, {"io.example/odd", "2.0.0", "deprecated", "use another"},
		{"io.example/a", "1.1.0", "active", ""}, {"io.example/gone", "1.0.0", "deleted", ""},
	}, rows); diff != "" {
		t.Error(diff)
	}
	if want := `{"version":"2.0.0","x-new":{"b":1,"a":[1.50,1e3]},"description":"odd é <&>","name":"io.example/odd"}`; string(got.Entries[1].Raw) != want {
		t.Errorf("the document is %s", got.Entries[1].Raw)
	}
	a, o := got.Entries[0], got.Entries[1]
	if !a.PublishedAt.Equal(time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)) || !a.StatusChangedAt.IsZero() ||
		!o.StatusChangedAt.Equal(time.Date(2025, 3, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("times: %+v, %+v", a, o)
	}
	want := []url.Values{
		{"limit": {"100"}, "include_deleted": {"true"}},
		{"limit": {"100"}, "include_deleted": {"true"}, "cursor": {"1"}},
		{"limit": {"100"}, "include_deleted": {"true"}, "cursor": {"2"}},
	}
	if diff := cmp.Diff(want, up.queries); diff != "" {
		t.Error(diff)
	}
	if again, err := fetch(t, apiAt(up.endpoint()+"/"), got.Digest); err != nil || !again.Unchanged || again.Entries != nil {
		t.Errorf("fetched again: %+v, %v", again, err)
	}
}

func TestAPI_EndOfList(t *testing.T) {
	one := item(server("io.example/a", "1.0.0", "x"), "")
	for name, body := range map[string]string{
		"no metadata":        `{"servers":[` + one + `]}`,
		"null metadata":      `{"servers":[` + one + `],"metadata":null}`,
		"no cursor":          `{"servers":[` + one + `],"metadata":{}}`,
		"a null cursor":      `{"servers":[` + one + `],"metadata":{"nextCursor":null}}`,
		"an empty cursor":    `{"servers":[` + one + `],"metadata":{"nextCursor":""}}`,
		"a list that is new": `{"$schema":"x","servers":[` + one + `],"metadata":{"count":9},"more":[]}`,
	} {
		up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
		if got, err := fetch(t, apiAt(up.endpoint()), ""); err != nil || len(got.Entries) != 1 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	up := newUpstream(t, pages(page("1", one), `{"servers":null,"metadata":{}}`))
	if got, err := fetch(t, apiAt(up.endpoint()), ""); err != nil || len(got.Entries) != 1 {
		t.Errorf("a last page that is empty: %+v, %v", got, err)
	}
}

func TestAPI_WithoutIncludeDeleted(t *testing.T) {
	for _, status := range []int{400, 422} {
		up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("include_deleted") {
				w.WriteHeader(status)
				return
			}
			fmt.Fprint(w, page("", item(server("io.example/a", "1.0.0", "x"), "")))
		})
		if got, err := fetch(t, apiAt(up.endpoint()), ""); err != nil || len(got.Entries) != 1 {
			t.Errorf("%d: %+v, %v", status, got, err)
		}
	}
}

func TestAPI_NotAList(t *testing.T) {
	good := item(server("io.example/a", "1.0.0", "x"), "")
	body := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code); fmt.Fprint(w, page("", good)) }
	}
	for _, row := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"nothing", body(""), "it is empty"},
		{"a page for people", body("<html>"), "not JSON"},
		{"half of it", body(page("", good)[:50]), "not JSON"},
		{"more after it", body(page("", good) + "{}"), "not JSON"},
		{"another object", body(`{"error":"x"}`), `no "servers"`},
		{"a list", body(`[]`), "array"},
		{"servers of the wrong type", body(`{"servers":{}}`), "object"},
		{"a cursor of the wrong type", body(`{"servers":[],"metadata":{"nextCursor":7}}`), "number"},
		{"a circle", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, page("again", good)) }, "repeats itself"},
		{"401", status(401), "tokenFile"},
		{"403", status(403), "tokenFile"},
		{"404", status(404), "/v0.1/servers"},
		{"429", status(429), "429 Too Many Requests"},
		{"500", status(500), "500 Internal Server Error"},
		{"204", status(204), "204"},
		{"400 always", status(400), "400 Bad Request"},
		{"500 at the third page", func(w http.ResponseWriter, r *http.Request) {
			if n, _ := strconv.Atoi(r.URL.Query().Get("cursor")); n < 2 {
				fmt.Fprint(w, page(strconv.Itoa(n+1), item(server(fmt.Sprintf("io.example/s%d", n), "1.0.0", "x"), "")))
				return
			}
			w.WriteHeader(500)
		}, "500 Internal Server Error"},
		{"an answer that breaks off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"servers":[`)
		}, "unexpected EOF"},
		{"empty pages without end", func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, page(r.URL.Query().Get("cursor")+"x"))
		}, "were empty"},
	} {
		t.Run(row.name, func(t *testing.T) {
			up := newUpstream(t, row.answer)
			got, err := fetch(t, apiAt(up.endpoint()), "")
			if err == nil || !strings.Contains(err.Error(), row.want) || !strings.Contains(err.Error(), up.endpoint()) {
				t.Errorf("got %v, want %q in it", err, row.want)
			}
			if got.Entries != nil {
				t.Error("part of it was kept")
			}
		})
	}
}

func TestAPI_Bounds(t *testing.T) {
	endless := func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
		fmt.Fprint(w, page(strconv.Itoa(n+1), item(server(fmt.Sprintf("io.example/s%d", n), "1.0.0", "x"), "")))
	}
	slow := func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	for _, row := range []struct {
		name   string
		answer http.HandlerFunc
		bounds bounds
		want   string
	}{
		{"pages without end", endless, bounds{20, 1 << 20, 1 << 20, time.Minute, time.Minute}, "more than 20 pages"},
		{"bytes without end", endless, bounds{1 << 20, 1 << 20, 4 << 10, time.Minute, time.Minute}, "larger than 4096 bytes"},
		{"a huge page", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"servers":[`)
			for range 10_000 {
				fmt.Fprint(w, strings.Repeat(" ", 1000))
			}
		}, bounds{10, 1 << 20, 1 << 30, time.Minute, time.Minute}, "more than 1048576 bytes"},
		{"an answer that does not come", slow, bounds{10, 1 << 20, 1 << 20, 100 * time.Millisecond, time.Minute}, "did not answer in time"},
		{"a list that takes too long", endless, bounds{1 << 40, 1 << 20, 1 << 40, time.Minute, 200 * time.Millisecond}, "did not end within 200ms"},
	} {
		t.Run(row.name, func(t *testing.T) {
			up := newUpstream(t, row.answer)
			src, err := newAPI(config.API{Endpoint: up.endpoint()}, Access{})
			if err != nil {
				t.Fatal(err)
			}
			src.bounds = row.bounds
			_, err = src.Fetch(t.Context(), "")
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %q in it", err, row.want)
			}
		})
	}
}

func TestAPI_Token(t *testing.T) {
	var hits atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer elsewhere.Close()
	var mode atomic.Value
	mode.Store("")
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case mode.Load() == "away":
			http.Redirect(w, r, elsewhere.URL+r.URL.RequestURI(), http.StatusTemporaryRedirect)
		case mode.Load() == "same host" && !r.URL.Query().Has("moved"):
			http.Redirect(w, r, r.URL.RequestURI()+"&moved=1", http.StatusTemporaryRedirect)
		case mode.Load() == "round and round":
			http.Redirect(w, r, r.URL.RequestURI()+"&x=1", http.StatusTemporaryRedirect)
		case mode.Load() == "echo":
			w.Header().Set("Location", "/")
			w.WriteHeader(http.StatusOK)
			fmt.Fprintf(w, `{"servers":[{"server":{"name":"io.example/a","version":"1"},"_meta":{"io.modelcontextprotocol.registry/official":{"status":%q}}}]}`, r.Header.Get("Authorization"))
		default:
			fmt.Fprint(w, page("", item(server("io.example/a", "1.0.0", "x"), "")))
		}
	})
	file := filepath.Join(t.TempDir(), "token")
	cfg := apiAt(up.endpoint())
	cfg.API.TokenFile = file
	src, err := Open(cfg, Access{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := src.Fetch(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "tokenFile") {
		t.Errorf("without the file: %v", err)
	}
	for _, token := range []string{"first", "second"} {
		writeFile(t, file, token+"\n")
		if _, err := src.Fetch(t.Context(), ""); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff([]string{"Bearer first", "Bearer second"}, up.auth); diff != "" {
		t.Error(diff)
	}
	mode.Store("same host")
	if _, err := src.Fetch(t.Context(), ""); err != nil {
		t.Errorf("a redirect on the same host: %v", err)
	}
	mode.Store("away")
	if _, err := src.Fetch(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "another host") || hits.Load() != 0 {
		t.Errorf("%v, %d requests elsewhere", err, hits.Load())
	}
	mode.Store("round and round")
	if _, err := src.Fetch(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "307") {
		t.Errorf("got %v", err)
	}
	mode.Store("echo")
	if got, err := src.Fetch(t.Context(), ""); err != nil || got.LeftOut.Malformed == 0 || strings.Contains(got.LeftOut.Why(), "second") {
		t.Errorf("the token is in %q, %v", got.LeftOut.Why(), err)
	}
	writeFile(t, file, "two\nlines")
	if _, err := src.Fetch(t.Context(), ""); err == nil || strings.Contains(err.Error(), "lines") {
		t.Errorf("got %v", err)
	}
}

func TestAPI_PrivateAddress(t *testing.T) {
	src, err := Open(apiAt("https://10.255.255.1"), Access{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := src.Fetch(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "not a public one") {
		t.Errorf("got %v", err)
	}
	if _, err := fetch(t, apiAt("http://registry.example"), ""); err == nil || !strings.Contains(err.Error(), "only HTTPS") {
		t.Errorf("got %v", err)
	}
}

func TestAPI_FailureAtLaterPage(t *testing.T) {
	var broken atomic.Bool
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
		if n == 4 && broken.Load() {
			w.WriteHeader(500)
			return
		}
		next := strconv.Itoa(n + 1)
		if n == 6 {
			next = ""
		}
		description := "before"
		if broken.Load() {
			description = "after"
		}
		fmt.Fprint(w, page(next, item(server(fmt.Sprintf("io.example/s%d", n), "1.0.0", description), "")))
	})
	m := newMemory()
	cfg := apiAt(up.endpoint())
	cfg.Interval = config.Duration(time.Hour)
	s, _ := running(t, m, Options{}, cfg)
	eventually(t, "all are there", func() bool { return len(m.list("up")) == 7 })
	broken.Store(true)
	s.Refresh()
	eventually(t, "it fails", func() bool { return m.sync("up").Failures > 1 })
	for name, doc := range m.list("up") {
		if !strings.Contains(string(doc), "before") {
			t.Errorf("%s is changed", name)
		}
	}
	broken.Store(false)
	s.Refresh()
	eventually(t, "it recovers", func() bool { return m.sync("up").Phase == "complete" })
}

func TestAPI_StatusMessage(t *testing.T) {
	up := newUpstream(t, pages(page("",
		item(server("io.example/a", "1.0.0", "x"), `{"status":"deprecated","statusMessage":"old","publishedAt":"2025-01-01T00:00:00Z","updatedAt":"9999-01-01T00:00:00Z"}`),
		item(server("io.example/b", "1.0.0", "x"), `{"status":"deleted"}`),
	)))
	m := newMemory()
	cfg := apiAt(up.endpoint())
	cfg.Interval = config.Duration(time.Hour)
	running(t, m, Options{}, cfg)
	eventually(t, "it is complete", func() bool { return m.sync("up").Phase == "complete" })
	m.mu.Lock()
	defer m.mu.Unlock()
	a, b := m.versions["up"][[2]string{"io.example/a", "1.0.0"}], m.versions["up"][[2]string{"io.example/b", "1.0.0"}]
	if a.Status != "deprecated" || a.StatusMessage != "old" || !a.PublishedAt.Equal(time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)) || b.Status != "deleted" {
		t.Errorf("got %+v and %+v", a.Head, b.Head)
	}
	if !a.UpdatedAt.IsZero() {
		t.Errorf("when we learned of it is the store's to say, and not %s", a.UpdatedAt)
	}
	if want := "io.example/a\n\nx"; !strings.HasPrefix(a.Search, want) {
		t.Errorf("it is found by %q", a.Search)
	}
}

func TestAPI_Cancel(t *testing.T) {
	asked := make(chan struct{})
	up := newUpstream(t, func(_ http.ResponseWriter, r *http.Request) { close(asked); <-r.Context().Done() })
	src, err := Open(apiAt(up.endpoint()), Access{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if _, err := src.Fetch(ctx, ""); err == nil {
		t.Error("it was taken for an answer")
	}
}

func TestAPI_MalformedItems(t *testing.T) {
	good := item(server("io.example/good", "1.0.0", "x"), `{}`)
	for _, row := range []struct{ name, item, want string }{
		{"a version with a blank", item(server("io.example/a", "1 0", "x"), `{}`), `"1 0"`},
		{"a version with a slash", item(server("io.example/a", "1/0", "x"), `{}`), `"1/0"`},
		{"a version that is a dot segment", item(server("io.example/a", "..", "x"), `{}`), "RFC 3986"},
		{"an item of the wrong type", `"x"`, "string"},
		{"no server in an item", `{"_meta":{}}`, `has no "server"`},
		{"a null server", `{"server":null}`, "item 1"},
		{"a null item", `null`, "item 1"},
		{"a server without a name", `{"server":{"version":"1"}}`, "required"},
		{"a name that is a number", `{"server":{"name":7,"version":"1.0.0"}}`, "text"},
		{"an unknown status", item(server("io.example/a", "1.0.0", "x"), `{"status":"haunted"}`), "haunted"},
		{"an invalid time", item(server("io.example/a", "1.0.0", "x"), `{"publishedAt":"yesterday"}`), "yesterday"},
		{"metadata of the wrong type", `{"server":{"name":"a/b","version":"1"},"_meta":3}`, "_meta"},
	} {
		t.Run(row.name, func(t *testing.T) {
			up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, page("", row.item, good)) })
			got, err := fetch(t, apiAt(up.endpoint()), "")
			if err != nil || len(got.Entries) != 1 || got.Entries[0].Name != "io.example/good" {
				t.Fatalf("%+v, %v", got.Entries, err)
			}
			if why := got.LeftOut.Why(); got.LeftOut.Malformed != 1 || !strings.Contains(why, "page 1: item 1") || !strings.Contains(why, row.want) {
				t.Errorf("left out: %+v", got.LeftOut)
			}
		})
	}
}

func FuzzPage(f *testing.F) {
	f.Add([]byte(page("x", item(server("io.example/a", "1.0.0", "x"), `{"status":"active","publishedAt":"2025-01-01T00:00:00Z"}`))))
	f.Add([]byte(`{"servers":null}`))
	f.Add([]byte(`{"servers":[{"server":{"name":"a/b","version":"1"},"_meta":null}],"metadata":{"nextCursor":null}}`))
	f.Add([]byte(`{"servers":[{}]}`))
	f.Add([]byte(`{"SERVERS":[{"server":{}}],"servers":7}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		entries, _, _, err := parsePage(body)
		if err != nil && entries != nil {
			t.Error("an error with entries")
		}
		for _, e := range entries {
			if e.Name == "" || e.Version == "" || !json.Valid(e.Raw) || !slices.Contains([]string{"active", "deprecated", "deleted"}, e.Status) {
				t.Errorf("%+v was let through", e)
			}
			if utf8Len(e.StatusMessage) > maxStatusMessage {
				t.Error("the message is too long")
			}
		}
	})
}

func utf8Len(s string) int { return len([]rune(s)) }
