//go:build integration

package registry

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func mustDo(t *testing.T, a answer, status int) answer {
	t.Helper()
	if a.status != status {
		t.Fatalf("%s, wanted %d", a, status)
	}
	return a
}

func names(l serverList) []string {
	out := []string{}
	for _, s := range l.Servers {
		out = append(out, s.Server.Name+" "+s.Server.Version)
	}
	return out
}

func list(t *testing.T, s *instance, query string) serverList {
	t.Helper()
	var l serverList
	mustDo(t, s.do("GET", servers+query, nil), http.StatusOK).into(t, &l)
	if l.Metadata.Count != len(l.Servers) {
		t.Errorf("count %d, servers %d", l.Metadata.Count, len(l.Servers))
	}
	return l
}

func TestPublish_Lifecycle(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, testPublishLifecycle)
}

func testPublishLifecycle(t *testing.T, s *instance) {
	if l := list(t, s, ""); len(l.Servers) != 0 {
		t.Fatalf("a new registry lists %v", names(l))
	}
	const name = "io.github.example/weather"
	for _, v := range []string{"1.0.0", "1.10.0", "1.9.0"} {
		var got serverAnswer
		mustDo(t, s.do("POST", publish, server(name, v)), http.StatusOK).into(t, &got)
		if m := got.Meta[official]; m.Status != "active" || time.Since(m.PublishedAt) > time.Minute || got.Server.Version != v {
			t.Errorf("published as %+v", got)
		}
	}
	t.Run("versions are listed by publication, newest first", func(t *testing.T) {
		var l serverList
		mustDo(t, s.do("GET", at(name, "/versions"), nil), http.StatusOK).into(t, &l)
		if diff := cmp.Diff([]string{name + " 1.9.0", name + " 1.10.0", name + " 1.0.0"}, names(l)); diff != "" {
			t.Error(diff)
		}
		if l.Servers[0].Meta[official].IsLatest || !l.Servers[1].Meta[official].IsLatest {
			t.Error("the highest version is not marked as the latest")
		}
	})
	t.Run("latest is the newest", func(t *testing.T) {
		var got serverAnswer
		mustDo(t, s.do("GET", at(name, "/versions/latest"), nil), http.StatusOK).into(t, &got)
		if got.Server.Version != "1.10.0" {
			t.Error(got.Server.Version)
		}
		if l := list(t, s, "?version=latest"); len(l.Servers) != 1 || l.Servers[0].Server.Version != "1.10.0" {
			t.Error(names(l))
		}
	})
	t.Run("a version is published once", func(t *testing.T) {
		mustDo(t, s.do("POST", publish, server(name, "1.0.0")), http.StatusConflict)
	})
	t.Run("an edit changes the document and keeps the times of publication", func(t *testing.T) {
		var before, after serverAnswer
		s.do("GET", at(name, "/versions/1.0.0"), nil).into(t, &before)
		doc := server(name, "1.0.0")
		doc["description"] = "Says what the weather was"
		mustDo(t, s.do("PUT", at(name, "/versions/1.0.0"), doc), http.StatusOK).into(t, &after)
		if after.Server.Description != "Says what the weather was" || !after.Meta[official].PublishedAt.Equal(before.Meta[official].PublishedAt) || !after.Meta[official].UpdatedAt.After(before.Meta[official].UpdatedAt) {
			t.Errorf("%+v after %+v", after, before)
		}
		mustDo(t, s.do("PUT", at(name, "/versions/1.9.0"), doc), http.StatusBadRequest)
		mustDo(t, s.do("PUT", at(name, "/versions/7.0.0"), server(name, "7.0.0")), http.StatusNotFound)
	})
	t.Run("a deprecated version says why", func(t *testing.T) {
		var got serverAnswer
		mustDo(t, s.do("PATCH", at(name, "/versions/1.9.0/status"), `{"status":"deprecated","statusMessage":"use 1.10"}`), http.StatusOK).into(t, &got)
		if m := got.Meta[official]; m.Status != "deprecated" || m.StatusMessage != "use 1.10" {
			t.Errorf("%+v", m)
		}
	})
	t.Run("what is deleted is hidden, and told to those who ask", func(t *testing.T) {
		since := url.QueryEscape(time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
		mustDo(t, s.do("DELETE", at(name, "/versions/1.10.0"), nil), http.StatusOK)
		mustDo(t, s.do("GET", at(name, "/versions/1.10.0"), nil), http.StatusNotFound)
		mustDo(t, s.do("GET", at(name, "/versions/1.10.0?include_deleted=true"), nil), http.StatusOK)
		var latest serverAnswer
		mustDo(t, s.do("GET", at(name, "/versions/latest"), nil), http.StatusOK).into(t, &latest)
		if latest.Server.Version != "1.9.0" {
			t.Errorf("the latest is %s", latest.Server.Version)
		}
		if l := list(t, s, ""); len(l.Servers) != 2 {
			t.Error(names(l))
		}
		if l := list(t, s, "?updated_since="+since); len(l.Servers) != 3 {
			t.Error(names(l))
		}
		mustDo(t, s.do("GET", servers+"?include_deleted=false&updated_since="+since, nil), http.StatusBadRequest)
	})
	t.Run("all versions change together", func(t *testing.T) {
		var got struct {
			UpdatedCount int
			Servers      []serverAnswer
		}
		mustDo(t, s.do("PATCH", at(name, "/status"), `{"status":"deprecated","statusMessage":"it has moved"}`), http.StatusOK).into(t, &got)
		if got.UpdatedCount != 3 || len(got.Servers) != 3 || got.Servers[0].Meta[official].Status != "deprecated" {
			t.Errorf("%+v", got)
		}
		mustDo(t, s.do("PATCH", at("a/unknown", "/status"), `{"status":"deprecated"}`), http.StatusNotFound)
	})
	t.Run("every write is on record", func(t *testing.T) {
		s.said(t, 0, `"registry write"`, `"outcome":"done"`, `"outcome":"failed"`, `"version":"1.10.0"`)
	})
	t.Run("it is all there after a restart", func(t *testing.T) {
		before := s.do("GET", servers+"?include_deleted=true", nil)
		if code := s.stop(); code != 0 {
			t.Fatalf("exit %d\n%s", code, s.log)
		}
		s.start("127.0.0.1:0", "127.0.0.1:0")
		eventually(t, "it is ready again", func() error {
			if a := s.do("GET", servers+"?include_deleted=true", nil); a.String() != before.String() {
				return fmt.Errorf("%s", a)
			}
			return nil
		})
	})
}

func TestPublish_DocumentUnchanged(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, testPublishDocumentUnchanged)
}

func testPublishDocumentUnchanged(t *testing.T, s *instance) {
	// The order of members, numbers, escapes and unknown members stay.
	document := `{"name":"io.github.example/exact","version":"1.0.0","description":"<b>&\"ü\" 😀</b>","title":"T","_meta":{"io.modelcontextprotocol.registry/publisher-provided":{"z":1.0,"a":12345678901234567890,"nested":{"x":[1e3,null,true]}}},"websiteUrl":"https://example.com/?a=b&c=d"}`
	mustDo(t, s.do("POST", publish, document), http.StatusOK)
	var got struct{ Server json.RawMessage }
	mustDo(t, s.do("GET", at("io.github.example/exact", "/versions/1.0.0"), nil), http.StatusOK).into(t, &got)
	if diff := cmp.Diff(document, string(got.Server)); diff != "" {
		t.Error(diff)
	}
}

func TestList_Pages(t *testing.T) { onEachDatabase(t, testListPages) }

func testListPages(t *testing.T, s *instance) {
	var want []string
	for i := range 25 {
		name := fmt.Sprintf("io.github.example/s%02d", i)
		mustDo(t, s.do("POST", publish, server(name, "1.0.0")), http.StatusOK)
		want = append(want, name+" 1.0.0")
	}
	for _, limit := range []int{1, 7, 24, 25, 100} {
		got := []string{}
		cursor := ""
		for page := 0; ; page++ {
			l := list(t, s, fmt.Sprintf("?limit=%d&cursor=%s", limit, url.QueryEscape(cursor)))
			got = append(got, names(l)...)
			if len(l.Servers) > limit {
				t.Fatalf("a page of %d", len(l.Servers))
			}
			if cursor = l.Metadata.NextCursor; cursor == "" || page > 30 {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("in pages of %d: %s", limit, diff)
		}
	}
}

func TestConditional_NotModified(t *testing.T) {
	t.Parallel()
	s := serve(t, anonymous)
	mustDo(t, s.do("POST", publish, server("a.b/x", "1.0.0")), http.StatusOK)
	for _, path := range []string{servers, servers + "?limit=5", at("a.b/x", "/versions"), at("a.b/x", "/versions/latest")} {
		tag := mustDo(t, s.do("GET", path, nil), http.StatusOK).header.Get("ETag")
		if tag == "" {
			t.Fatalf("%s has no ETag", path)
		}
		again := mustDo(t, s.do("GET", path, nil, header{"If-None-Match": `"other", ` + tag}), http.StatusNotModified)
		if len(again.body) > 0 || again.header.Get("ETag") != tag {
			t.Errorf("%s: %s", path, again)
		}
		mustDo(t, s.do("GET", path+"", nil, header{"If-None-Match": `"other"`}), http.StatusOK)
	}
	tag := s.do("GET", servers, nil).header.Get("ETag")
	mustDo(t, s.do("POST", publish, server("a.b/x", "2.0.0")), http.StatusOK)
	mustDo(t, s.do("GET", servers, nil, header{"If-None-Match": tag}), http.StatusOK)
}

// RFC 9110 sections 13.1.1, 13.1.2 and 13.2.
func TestConditional_Preconditions(t *testing.T) {
	t.Parallel()
	s := serve(t, anonymous)
	mustDo(t, s.do("POST", publish, server("a.b/x", "1.0.0")), http.StatusOK)
	one, all := at("a.b/x", "/versions/1.0.0"), at("a.b/x", "/versions")
	tag := s.do("GET", one, nil).header.Get("ETag")
	status := func(method, path string, body any, status int, name, value string) {
		t.Helper()
		a := s.do(method, path, body, header{name: value})
		if a.status != status {
			t.Errorf("%s %s with %s: %s is answered %s, not %d", method, path, name, value, a, status)
		}
		if status == http.StatusNotModified && a.header.Get("ETag") == "" && path != "/openapi.json" {
			t.Errorf("%s %s: no ETag beside a 304 (section 15.4.5)", method, path)
		}
	}
	for _, path := range []string{servers, servers + "?search=nothing-has-it", one, all, at("a.b/x", "/versions/latest"), "/openapi.json"} {
		for _, method := range []string{"GET", "HEAD"} {
			status(method, path, nil, 304, "If-None-Match", "*")
			status(method, path, nil, 304, "If-None-Match", " * ")
			status(method, path, nil, 200, "If-None-Match", `"*"`)
			status(method, path, nil, 200, "If-Match", "*")
		}
	}
	status("GET", one, nil, 412, "If-Match", tag) // it is weak
	status("GET", one, nil, 412, "If-Match", strings.TrimPrefix(tag, "W/"))
	// Section 13.2.1: only where the answer would be a success.
	for _, path := range []string{at("a.b/none", "/versions"), at("a.b/x", "/versions/2.0.0"), "/registry/none/v0.1/servers", "/nothing"} {
		for _, name := range []string{"If-None-Match", "If-Match"} {
			status("GET", path, nil, 404, name, "*")
		}
	}
	status("GET", servers+"?cursor=x", nil, 400, "If-None-Match", "*")
	if a := s.do("GET", one, nil, header{"If-Match": "*", "If-None-Match": tag}); a.status != 304 {
		t.Errorf("If-Match holds, and If-None-Match does not: %s", a)
	}
	if a := s.do("GET", one, nil, header{"If-Match": `"a"`, "If-None-Match": tag}); a.status != 412 {
		t.Errorf("If-Match comes first (section 13.2.2): %s", a)
	}

	// What writes.
	edited := server("a.b/x", "1.0.0")
	edited["title"] = "Edited"
	status("POST", publish, server("a.b/x", "1.0.0"), 409, "If-None-Match", `"a"`)
	status("POST", publish, server("a.b/x", "1.0.0"), 412, "If-None-Match", "*")
	status("POST", publish, server("a.b/x", "2.0.0"), 412, "If-Match", "*")
	status("PUT", one, edited, 412, "If-None-Match", "*")
	status("PUT", one, edited, 412, "If-None-Match", tag)
	status("PUT", one, edited, 412, "If-Match", tag)
	status("PUT", one, edited, 412, "If-Match", `"a", "b"`)
	status("DELETE", one, nil, 412, "If-None-Match", "*")
	status("PATCH", one+"/status", `{"status":"deleted"}`, 412, "If-Match", `"a"`)
	status("PATCH", at("a.b/x", "/status"), `{"status":"deleted"}`, 412, "If-None-Match", "*")
	for _, name := range []string{"If-None-Match", "If-Match"} { // not there, so it fails by itself
		status("PUT", at("a.b/x", "/versions/3.0.0"), server("a.b/x", "3.0.0"), 404, name, "*")
		status("DELETE", at("a.b/none", "/versions/1.0.0"), nil, 404, name, "*")
		status("DELETE", at("a.b/x", "/versions/latest"), nil, 404, name, "*")
	}
	if again := s.do("GET", one, nil).header.Get("ETag"); again != tag {
		t.Error("a request whose condition did not hold has changed something")
	}
	status("PUT", one, edited, 200, "If-Match", "*")
	status("PUT", one, edited, 200, "If-None-Match", tag) // which is of before
	status("POST", publish, server("a.b/x", "2.0.0"), 200, "If-None-Match", "*")
}

func TestSearch_Fields(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, testSearchFields)
}

func testSearchFields(t *testing.T, s *instance) {
	doc := server("io.github.example/forecast", "1.0.0")
	doc["title"] = "Wetter Bericht"
	doc["_meta"] = map[string]any{"io.modelcontextprotocol.registry/publisher-provided": map[string]any{"dev.toolhaven": map[string]any{"tags": []string{"Meteorology"}}}}
	mustDo(t, s.do("POST", publish, doc), http.StatusOK)
	mustDo(t, s.do("POST", publish, server("io.github.example/other", "1.0.0")), http.StatusOK)
	for search, want := range map[string]int{
		"forecast": 1, "FORE": 1, "wetter": 1, "what the weather": 2, "meteorology": 1, "wetter forecast": 1, "wetter other": 0, "%": 0, "_": 0, "'; drop table version; --": 0,
	} {
		if l := list(t, s, "?search="+url.QueryEscape(search)); len(l.Servers) != want {
			t.Errorf("%q finds %v", search, names(l))
		}
	}
}

// Bad input is an error that names its fault, and never a 500.
func TestBadInput(t *testing.T) { onEachDatabase(t, testBadInput) }

func testBadInput(t *testing.T, s *instance) {
	mustDo(t, s.do("POST", publish, server("a.b/x", "1.0.0")), http.StatusOK)
	big := strings.Repeat("x", 9<<20)
	tests := []struct {
		name, method, path string
		body               any
		status             int
		word               string // in the answer
	}{
		{"limit 0", "GET", servers + "?limit=0", nil, 400, "limit"},
		{"limit below zero", "GET", servers + "?limit=-1", nil, 400, "limit"},
		{"limit above the most", "GET", servers + "?limit=101", nil, 400, "limit"},
		{"limit of words", "GET", servers + "?limit=ten", nil, 400, "limit"},
		{"limit beyond numbers", "GET", servers + "?limit=99999999999999999999", nil, 400, "limit"},
		{"two limits", "GET", servers + "?limit=1&limit=2", nil, 400, "more than once"},
		{"a cursor of somebody else", "GET", servers + "?cursor=abc", nil, 400, "cursor"},
		{"an endless cursor", "GET", servers + "?cursor=" + strings.Repeat("A", 5000), nil, 400, "cursor"},
		{"an endless search", "GET", servers + "?search=" + strings.Repeat("a", 300), nil, 400, "search"},
		{"no time", "GET", servers + "?updated_since=yesterday", nil, 400, "RFC 3339"},
		{"no boolean", "GET", servers + "?include_deleted=maybe", nil, 400, "include_deleted"},
		{"a broken query", "GET", servers + "?limit=%zz", nil, 400, "query"},
		{"no such registry", "GET", "/registry/other/v0.1/servers", nil, 404, "registry"},
		{"no such server", "GET", at("a.b/y", "/versions"), nil, 404, "no such server"},
		{"no such version", "GET", at("a.b/x", "/versions/9"), nil, 404, "no such server or version"},
		{"no such page", "GET", "/registry/default/v0.2/servers", nil, 404, "no such page"},
		{"a method that is not there", "POST", servers, server("a.b/z", "1.0.0"), 405, "GET"},
		{"no JSON", "POST", publish, "{", 422, ""},
		{"another type of content", "POST", publish, nil, 400, "Content-Type"},
		{"a list", "POST", publish, "[]", 422, ""},
		{"nothing in it", "POST", publish, "{}", 422, "/name"},
		{"a name without a slash", "POST", publish, server("weather", "1.0.0"), 422, "/name"},
		{"the version latest", "POST", publish, server("a.b/x", "latest"), 422, "/version"},
		{"a range", "POST", publish, server("a.b/x", "^1.0.0"), 422, "/version"},
		{"a member twice", "POST", publish, `{"name":"a.b/x","name":"a.b/y","version":"1.0.0","description":"d"}`, 422, "twice"},
		{"too large", "POST", publish, `{"description":"` + big + `"}`, 413, "too large"},
		{"a status nobody knows", "PATCH", at("a.b/x", "/versions/1.0.0/status"), `{"status":"gone"}`, 400, "status"},
		{"no status", "PATCH", at("a.b/x", "/versions/1.0.0/status"), `{}`, 400, "status"},
		{"a status of another type", "PATCH", at("a.b/x", "/versions/1.0.0/status"), `{"status":1}`, 400, "status"},
		{"a member too many", "PATCH", at("a.b/x", "/versions/1.0.0/status"), `{"status":"active","x":1}`, 400, "only"},
		{"an endless message", "PATCH", at("a.b/x", "/versions/1.0.0/status"), map[string]string{"status": "deleted", "statusMessage": strings.Repeat("ä", 501)}, 400, "500"},
		{"a dot segment", "GET", "/registry/default/../default/v0.1/servers", nil, 400, "dot segment"},
		{"an encoded dot segment", "GET", "/registry/%2e%2e/v0.1/servers", nil, 400, "dot segment"},
		{"a doubled slash", "GET", "//registry/default/v0.1/servers", nil, 400, "empty segment"},
		{"an encoded slash elsewhere", "GET", "/registry/default%2fv0.1/servers", nil, 400, "separator"},
		{"a name of dots", "GET", "/registry/default/v0.1/servers/..%2F..%2Fx/versions", nil, 400, "separator"},
		{"a backslash", "GET", "/registry%5cdefault/v0.1/servers", nil, 400, "not allowed"},
		{"an encoded percent sign", "GET", "/registry/default/v0.1/servers/a%252Fb/versions", nil, 400, "not allowed"},
		{"a NUL", "GET", "/registry/default/v0.1/servers/a%00/versions", nil, 400, "not allowed"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			headers := header{}
			if test.name == "another type of content" {
				headers["Content-Type"] = "text/plain"
			}
			a := s.do(test.method, test.path, test.body, headers)
			if a.status != test.status || !strings.Contains(string(a.body), test.word) {
				t.Errorf("%s; wanted %d with %q", a, test.status, test.word)
			}
			var said struct{ Error string }
			a.into(t, &said)
			if said.Error == "" {
				t.Errorf("no error in %s", a)
			}
		})
	}
	if l := list(t, s, ""); len(l.Servers) != 1 {
		t.Errorf("bad input changed something: %v", names(l))
	}
}

func TestInternalServer(t *testing.T) {
	t.Parallel()
	s := serve(t, anonymous)
	get := func(path string) answer {
		resp, err := http.Get(s.internal + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var body strings.Builder
		buf := make([]byte, 1<<20)
		for {
			n, err := resp.Body.Read(buf)
			body.Write(buf[:n])
			if err != nil {
				break
			}
		}
		return answer{status: resp.StatusCode, header: resp.Header, body: []byte(body.String())}
	}
	if a := get("/health"); a.status != 200 || strings.TrimSpace(string(a.body)) != `{"status":"healthy"}` {
		t.Error(a)
	}
	if a := get("/readiness"); a.status != 200 {
		t.Error(a)
	}
	var version map[string]string
	get("/version").into(t, &version)
	for _, key := range []string{"version", "commit", "build_date", "go_version", "platform"} {
		if version[key] == "" {
			t.Errorf("/version has no %s: %v", key, version)
		}
	}
	s.do("GET", servers, nil)
	metrics := string(get("/metrics").body)
	for _, word := range []string{`thv_registry_http_requests_total{code="200",method="GET",route="GET /registry/{registry}/v0.1/servers"} 1`, "thv_registry_build_info", "thv_registry_http_request_duration_seconds_bucket"} {
		if !strings.Contains(metrics, word) {
			t.Errorf("/metrics has no %s", word)
		}
	}
	for _, path := range []string{"/health", "/readiness", "/version", "/metrics"} {
		if a := s.do("GET", path, nil); a.status != http.StatusNotFound {
			t.Errorf("%s is on the main port: %s", path, a)
		}
	}
}
