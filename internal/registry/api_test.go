package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/test/local"
)

// registryServer serves entries as the official API v0.1 does: two servers on a
// page, whatever the limit.
func registryServer(t *testing.T, servers ...string) *httptest.Server {
	t.Helper()
	type head struct{ Name, Version string }
	heads := make([]head, len(servers))
	for i, s := range servers {
		if err := json.Unmarshal([]byte(s), &heads[i]); err != nil {
			t.Fatal(err)
		}
	}
	answer := func(s string) string {
		return `{"server": ` + s + `, "_meta": {"io.modelcontextprotocol.registry/official": {"status": "active", "isLatest": true}}}`
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /base/v0.1/servers", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if n, err := strconv.Atoi(q.Get("limit")); err != nil || n < 1 || n > 100 {
			http.Error(w, "limit", http.StatusUnprocessableEntity)
			return
		}
		var found []string
		for i, s := range servers {
			if strings.Contains(heads[i].Name, q.Get("search")) {
				found = append(found, answer(s))
			}
		}
		start, _ := strconv.Atoi(strings.TrimPrefix(q.Get("cursor"), "at:"))
		end := min(start+2, len(found))
		next := ""
		if end < len(found) {
			next = fmt.Sprintf(`"nextCursor": "at:%d", `, end)
		}
		fmt.Fprintf(w, `{"servers": [%s], "metadata": {%s"count": %d}}`, strings.Join(found[start:end], ","), next, end-start)
	})
	// The name is one path segment: its slash must come percent-encoded.
	mux.HandleFunc("GET /base/v0.1/servers/{name}/versions/{version}", func(w http.ResponseWriter, r *http.Request) {
		for i, s := range servers {
			if heads[i].Name == r.PathValue("name") && slices.Contains([]string{"latest", heads[i].Version}, r.PathValue("version")) {
				w.Write([]byte(answer(s)))
				return
			}
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusNotFound)
		w.Write([]byte(`{"title": "Not Found", "status": 404, "detail": "Server not found"}`))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

func openAPI(t *testing.T, url string, client *http.Client) *apiCatalog {
	t.Helper()
	c, err := Open(url, client, nil)
	if err != nil {
		t.Fatal(err)
	}
	api, ok := c.(*apiCatalog)
	if !ok {
		t.Fatalf("%s was taken for %T", url, c)
	}
	return api
}

func TestAPI_Lookup(t *testing.T) {
	server := registryServer(t, named("io.one/a", "1.0.0"), named("io.one/b", "1.0.0+x"), named("io.one/c", "2.0.0"), named("io.two/c", "1.0.0"), named("io.two/cc", "1.0.0"))
	c := openAPI(t, server.URL+"/base/", server.Client())
	all, err := c.List(t.Context())
	if got := names(all.Entries); err != nil || got != "io.one/a@1.0.0 io.one/b@1.0.0+x io.one/c@2.0.0 io.two/c@1.0.0 io.two/cc@1.0.0" {
		t.Errorf("list: %s, %v", got, err)
	}
	found, err := c.Search(t.Context(), "two/c")
	if got := names(found.Entries); err != nil || got != "io.two/c@1.0.0 io.two/cc@1.0.0" {
		t.Errorf("search: %s, %v", got, err)
	}
	for name, want := range map[string]string{
		"io.one/a": "io.one/a", "io.one/b@1.0.0+x": "io.one/b", "a": "io.one/a", "cc": "io.two/cc", "cc@1.0.0": "io.two/cc", "io.two/c@latest": "io.two/c",
	} {
		if e, err := c.Get(t.Context(), name); err != nil || e.Name != want {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
	for name, want := range map[string]error{
		"io.one/none": ErrNotFound, "io.one/a@9.9.9": ErrNotFound, "a@9.9.9": ErrNotFound, "zzz": ErrNotFound, "../x": ErrNotFound, "c": ErrAmbiguous,
	} {
		if _, err := c.Get(t.Context(), name); !errors.Is(err, want) || !strings.Contains(err.Error(), server.URL) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAPI_Status(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(`{"server": ` + minimal + `, "_meta": {"io.modelcontextprotocol.registry/official": {"status": "deprecated", "statusMessage": "use b"}}}`))
	}))
	defer server.Close()
	e, err := openAPI(t, server.URL, server.Client()).Get(t.Context(), "io.example/a")
	if err != nil || e.Status != Deprecated || e.StatusMessage != "use b" {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestAPI_Hostile(t *testing.T) {
	const page = "text/html; charset=utf-8"
	for name, c := range map[string]struct {
		status  int
		media   string
		body    string
		want    error
		says    string
		forList bool // the fault is one of lists
	}{
		"a web page":          {200, page, "<html>It works!</html>", ErrMalformed, "not JSON", false},
		"nothing":             {200, "", "", ErrMalformed, "empty", false},
		"no server":           {200, "application/json", `{"_meta": {}}`, ErrMalformed, `no "server"`, false},
		"a wrong shape":       {200, "application/json", `{"server": 7, "servers": "none"}`, ErrMalformed, "number", false},
		"another server":      {200, "application/json", `{"server": ` + named("io.evil/b", "1.0.0") + `}`, ErrMalformed, "io.evil/b", false},
		"internal error":      {500, page, "oops", ErrUnreachable, "500", false},
		"overloaded":          {429, page, "", ErrUnreachable, "429", false},
		"wants a sign-in":     {401, "application/json", `{"error": "unauthorized"}`, nil, "sign-in", false},
		"no API at this path": {404, page, "404 page not found", ErrMalformed, "not a server of the registry API", false},
		"a redirect":          {302, page, "", ErrMalformed, "redirect", false},
		"bad request":         {418, page, "", ErrMalformed, "418", false},
		"no list":             {200, "application/json", `{"metadata": {}}`, ErrMalformed, `no "servers"`, true},
		"a circle":            {200, "application/json", `{"servers": [], "metadata": {"nextCursor": "again"}}`, ErrMalformed, "repeats itself", true},
		"a key twice":         {200, "application/json", `{"servers": [], "servers": []}`, ErrMalformed, "twice", true},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.media)
				w.WriteHeader(c.status)
				w.Write([]byte(c.body))
			}))
			defer server.Close()
			client := server.Client()
			client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			api := openAPI(t, server.URL, client)
			var err error
			if c.forList {
				_, err = api.List(t.Context())
			} else {
				_, err = api.Get(t.Context(), "io.example/a")
			}
			if err == nil || c.want != nil && !errors.Is(err, c.want) || errors.Is(err, ErrNotFound) {
				t.Fatalf("got %v", err)
			}
			if !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), server.URL) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q does not say %q and %s in one line", err, c.says, server.URL)
			}
		})
	}
}

func TestAPI_EndlessList(t *testing.T) {
	var pages atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"servers": [], "metadata": {"nextCursor": "%d"}}`, pages.Add(1))
	}))
	defer server.Close()
	_, err := openAPI(t, server.URL, server.Client()).List(t.Context())
	if !errors.Is(err, ErrMalformed) || pages.Load() != maxPages {
		t.Errorf("after %d pages: %v", pages.Load(), err)
	}
}

func TestAPI_LargeResponse(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		chunk := []byte(strings.Repeat(" ", 1<<20))
		for range maxPage>>20 + 1 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	if _, err := openAPI(t, server.URL, server.Client()).Get(t.Context(), "io.example/a"); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "too large") {
		t.Errorf("got %v", err)
	}
}

func TestAPI_ConnectionRefused(t *testing.T) {
	port, err := local.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	api := openAPI(t, "http://"+address, &http.Client{})
	if _, err := api.Get(t.Context(), "io.example/a"); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), address) {
		t.Errorf("got %v", err)
	}
}

// However far an answer has come when the client's patience ends, that is what is said.
func TestAPI_StalledResponse(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	client := *server.Client()
	client.Timeout = 300 * time.Millisecond
	api := openAPI(t, server.URL, &client)
	if _, err := api.Get(t.Context(), "io.example/a"); !errors.Is(err, ErrUnreachable) || !strings.HasSuffix(err.Error(), "it did not answer in time") {
		t.Errorf("got %v", err)
	}
}

// A host that swallows packets must not keep a person waiting for long, however
// patient the client.
func TestAPI_ConnectTimeout(t *testing.T) {
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}}
	api := openAPI(t, "http://swallow.example", client)
	if api.fetch.connect < time.Second || api.fetch.connect > 3*time.Second {
		t.Errorf("a person would wait %s", api.fetch.connect)
	}
	api.fetch.connect = 50 * time.Millisecond
	_, err := api.Get(t.Context(), "io.example/a")
	if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "no connection within 50ms") {
		t.Errorf("got %v", err)
	}
}

func TestAPI_ResponseTimeout(t *testing.T) {
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-done }))
	defer server.Close()
	defer close(done)
	api := openAPI(t, server.URL, server.Client())
	api.fetch.answer = 50 * time.Millisecond
	if _, err := api.Get(t.Context(), "io.example/a"); !errors.Is(err, ErrUnreachable) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := api.Get(ctx, "io.example/a"); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnreachable) {
		t.Errorf("the person's own interruption became %v", err)
	}
}
