package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/auth"
	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/registry/catalog"
	"github.com/toolhaven/toolhaven/internal/registry/store"
	"github.com/toolhaven/toolhaven/test/local"
)

// shelf is a registry that holds what a test puts into it, also what no real one
// would take.
type shelf struct {
	catalog.Registry // nothing is written
	name             string
	servers          []catalog.Server // in the order of a list
	err              error
}

func (s *shelf) Name() string { return s.name }

func (s *shelf) List(_ context.Context, q catalog.Query) (catalog.Page, error) {
	if s.err != nil {
		return catalog.Page{}, s.err
	}
	from := 0
	if q.Cursor != "" {
		var err error
		if from, err = strconv.Atoi(q.Cursor); err != nil {
			return catalog.Page{}, catalog.ErrCursor
		}
	}
	var page catalog.Page
	for i, server := range s.servers {
		if i < from || !server.IsLatest || server.Status == registry.Deleted {
			continue
		}
		if !slices.ContainsFunc([]string{strings.Join(q.Words, " ")}, func(w string) bool { return strings.Contains(string(server.Document), w) }) {
			continue
		}
		if len(page.Servers) == q.Limit {
			page.Next = strconv.Itoa(i)
			break
		}
		page.Servers = append(page.Servers, server)
	}
	return page, nil
}

func (s *shelf) Versions(_ context.Context, name string, _ bool) ([]catalog.Server, error) {
	if s.err != nil {
		return nil, s.err
	}
	var out []catalog.Server
	for _, server := range s.servers {
		if server.Name == name && server.Status != registry.Deleted {
			out = append(out, server)
		}
	}
	if len(out) == 0 {
		return nil, store.ErrNotFound
	}
	return out, nil
}

var published = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// put adds the latest version of a server; more is the rest of its server.json.
func (s *shelf) put(name, more string) *catalog.Server {
	document := `{"name": ` + strconv.Quote(name) + `, "version": "1.0.0"`
	if more != "" {
		document += ", " + more
	}
	s.servers = append(s.servers, catalog.Server{IsLatest: true, Version: store.Version{
		Head:     store.Head{Name: name, Version: "1.0.0", Status: registry.Active, PublishedAt: published, UpdatedAt: published},
		Document: json.RawMessage(document + "}"),
	}})
	return &s.servers[len(s.servers)-1]
}

// harness is a page at work, and a browser without JavaScript.
type harness struct {
	*testing.T
	site *Site
	log  *local.Output

	mu  sync.Mutex
	now time.Time
}

func (h *harness) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *harness) advance(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

func newHarness(t *testing.T, opt Options, shelves ...*shelf) *harness {
	t.Helper()
	h := &harness{T: t, log: &local.Output{}, now: time.Now().Truncate(time.Second)}
	opt.Registries = func() []catalog.Registry {
		out := make([]catalog.Registry, len(shelves))
		for i, s := range shelves {
			out[i] = s
		}
		return out
	}
	opt.Log = slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if opt.Now == nil {
		opt.Now = h.clock
	}
	var err error
	if h.site, err = New(opt); err != nil {
		t.Fatal(err)
	}
	return h
}

// get sends a GET request for a path, with cookies.
func (h *harness) get(target string, cookies ...*http.Cookie) *http.Response {
	h.Helper()
	return h.send(http.MethodGet, target, cookies)
}

func (h *harness) send(method, target string, cookies []*http.Cookie, headers ...string) *http.Response {
	h.Helper()
	r := httptest.NewRequest(method, target, nil)
	for _, c := range cookies {
		r.AddCookie(c)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.site.ServeHTTP(w, r)
	return w.Result()
}

// text is the text of a page, without its tags.
func text(t *testing.T, resp *http.Response) string {
	t.Helper()
	s := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(body(t, resp), " ")
	return strings.Join(strings.Fields(html.UnescapeString(s)), " ")
}

func body(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(b))
	return string(b)
}

// shows fails unless the page has each of the texts.
func shows(t *testing.T, resp *http.Response, status int, texts ...string) {
	t.Helper()
	if resp.StatusCode != status {
		t.Errorf("status %d, want %d", resp.StatusCode, status)
	}
	got := text(t, resp)
	for _, want := range texts {
		if !strings.Contains(got, want) {
			t.Errorf("the page does not contain %q:\n%s", want, got)
		}
	}
}

func testKey(context.Context) ([]byte, error) { return bytes.Repeat([]byte{7}, 32), nil }

// withLogin returns the options of a page behind a login at a provider that receives no
// request.
func withLogin(base string) Options {
	return Options{
		BaseURL: base, ResourceURL: base, Key: testKey,
		Login:    &Login{Provider: "main", Issuer: "https://id.example", ClientID: "page", Client: &http.Client{Transport: offline{}}},
		Validate: func(context.Context, string) (*auth.Identity, error) { return nil, &auth.Rejection{} },
		MayRead:  func(*auth.Identity, string) bool { return true },
	}
}

// offline is a network on which all connections fail.
type offline struct{}

func (offline) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("no connection to %s", r.URL.Host)
}

func newRecorder() *httptest.ResponseRecorder { return httptest.NewRecorder() }
