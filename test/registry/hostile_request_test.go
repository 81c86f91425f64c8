//go:build integration

package registry

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/test/idp"
)

// wire sends bytes as they are and reads one answer.
func (s *instance) wire(t *testing.T, method, content string) answer {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	go func() { _, _ = io.WriteString(conn, content) }() // it may be refused before its end
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%.100q: %v", content, err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return answer{status: resp.StatusCode, header: resp.Header, body: body}
}

func (s *instance) line(t *testing.T, method, target string, headers ...string) answer {
	t.Helper()
	return s.wire(t, method, method+" "+target+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"+strings.Join(append(headers, ""), "\r\n")+"\r\n")
}

// RFC 9112 section 3.2: the four forms of a request's target, and every method,
// on a registry that requires a token and has a public part.
func TestRequest_TargetsAndMethods(t *testing.T) {
	t.Parallel()
	p := idp.Start(t, idp.Options{})
	s := serve(t, oauthConfig(t, "    publicPaths: [/registry/open]\n", p)+`
sources:
  - {name: default, managed: {}}
  - {name: open, managed: {}}
registries:
  - {name: default, sources: [default]}
  - {name: open, sources: [open]}
`)
	const private, open = "/registry/default/v0.1/servers", "/registry/open/v0.1/servers"
	tests := []struct {
		method, target string
		status         int
	}{
		{"OPTIONS", "*", 400}, // asterisk-form
		{"GET", "*", 400},
		{"CONNECT", "localhost:80", 400}, // authority-form
		{"CONNECT", private, 401},
		{"GET", "http://localhost" + private, 401}, // absolute-form
		{"GET", "http://localhost" + open, 200},
		{"GET", "http://localhost/registry/open/../default/v0.1/servers", 400},
		{"GET", "http://localhost", 400}, {"GET", "http://elsewhere" + open, 421},
		{"TRACE", private, 401}, {"OPTIONS", private, 401}, {"HEAD", private, 401}, {"QUERY", private, 401}, {"get", private, 401},
		{"HEAD", open, 200}, {"POST", open, 405}, {"TRACE", open, 405}, {"OPTIONS", open, 405},
		{"HEAD", "/openapi.json", 200}, {"POST", "/openapi.json", 405}, {"DELETE", "/openapi.json", 405}, {"OPTIONS", "/openapi.json", 405},
		{"GET", "/.well-known", 404}, {"GET", "/.well-known/", 404}, {"POST", "/.well-known/x", 404},
		{"HEAD", "/.well-known/oauth-protected-resource", 200}, {"DELETE", "/.well-known/oauth-protected-resource", 405},
		{"POST", "/registry/open/v0.1/publish", 401}, {"GET", "/registry/open/v0.1/publish", 405},
		{"GET", "/registry/open", 404}, {"GET", "/registry/open/", 404}, {"GET", "/registry/opened/v0.1/servers", 401},
		// RFC 3986 section 2: one spelling of a path is one path.
		{"GET", "/registry/%6fpen/v0.1/servers", 200}, {"GET", "/registry/open%2Fv0.1/servers", 400}, {"GET", "/registry/open%5Cv0.1/servers", 400},
		{"GET", "/registry/open/%2E%2e/default/v0.1/servers", 400}, {"GET", "/registry/open/.%2E/default/v0.1/servers", 400},
		{"GET", "/registry/open//v0.1/servers", 400}, {"GET", "/registry/open%00/v0.1/servers", 400}, {"GET", "/registry/open/v0.1/servers%00", 400},
		{"GET", "/registry/open/%c0%ae%c0%ae/default/v0.1/servers", 400}, {"GET", "/registry/open/%e0%80%ae/x", 400}, // overlong
		{"GET", "/registry/open/%252e%252e/default/v0.1/servers", 400}, {"GET", "/registry/open/v0.1/servers/..%2f../versions", 400},
		{"GET", "/registry/open/v0.1/servers/a%2f..%2f..%2fdefault/versions", 400}, {"GET", "/registry/open%0d%0aX:%20y/v0.1/servers", 400},
		{"GET", "/registry/open%EF%BC%8F..%EF%BC%8Fdefault/v0.1/servers", 401}, // a full-width slash is a letter
	}
	for _, test := range tests {
		a := s.line(t, test.method, test.target)
		if a.status != test.status {
			t.Errorf("%s %s: %s, wanted %d", test.method, test.target, a, test.status)
		}
		if a.status == 405 && a.header.Get("Allow") == "" {
			t.Errorf("%s %s: no Allow (RFC 9110 section 15.5.6)", test.method, test.target)
		}
		if a.header.Get("X-Request-Id") == "" {
			t.Errorf("%s %s passed by the log", test.method, test.target)
		}
	}
	t.Run("what may not be read and what is not there look the same", func(t *testing.T) {
		for _, pair := range [][2]string{{private, "/registry/nowhere/v0.1/servers"}, {at("a.b/x", "/versions"), "/nowhere"}} {
			a, b := s.do("GET", pair[0], nil), s.do("GET", pair[1], nil)
			if a.String() != b.String() || a.header.Get("WWW-Authenticate") != b.header.Get("WWW-Authenticate") {
				t.Errorf("%s: %s and %s", pair, a, b)
			}
		}
	})
	t.Run("refused writes are on record", func(t *testing.T) {
		before := strings.Count(s.log.String(), `"outcome":"refused"`)
		mustDo(t, s.do("DELETE", at("a.b/secret", "/versions/1"), nil), 401)
		mustDo(t, s.as(t, "junk").do("POST", publish, server("a.b/x", "1.0.0")), 401)
		mustDo(t, s.as(t, p.Token(t, resource, "mcp-registry:read")).do("POST", publish, server("a.b/x", "1.0.0")), 403)
		writer := s.as(t, p.Token(t, resource, "mcp-registry:write"))
		mustDo(t, writer.do("POST", publish, "{"), 422)
		mustDo(t, writer.do("POST", publish, server("a.b/x", "1.0.0")), 200)
		mustDo(t, writer.do("POST", publish, server("a.b/x", "1.0.0")), 409)
		eventually(t, "the record is written", func() error {
			log := s.log.String()
			if n := strings.Count(log, `"outcome":"refused"`) - before; n != 3 {
				return fmt.Errorf("%d refusals on record", n)
			}
			if n := strings.Count(log, `"outcome":"failed"`); n != 2 {
				return fmt.Errorf("%d failures on record", n)
			}
			return nil
		})
		if strings.Contains(s.log.String(), "eyJ") {
			t.Error("a token is in the log")
		}
	})
}

// A registry that a caller may not read and one that is not there are the same
// to them.
func TestRequest_RegistryNamesHidden(t *testing.T) {
	t.Parallel()
	p := idp.Start(t, idp.Options{})
	s := serve(t, oauthConfig(t, "", p)+`
authz:
  rules:
    - {registries: [team], scopes: ["mcp-registry:read"]}
sources: [{name: team, managed: {}}, {name: secret, managed: {}}]
registries: [{name: team, sources: [team]}, {name: secret, sources: [secret]}]
`).as(t, p.Token(t, resource, "mcp-registry:read"))
	mustDo(t, s.do("GET", "/registry/team/v0.1/servers", nil), 200)
	for _, rest := range []string{"/v0.1/servers", "/v0.1/servers/a.b%2Fx/versions", "/v0.1/servers/a.b%2Fx/versions/latest", "/v0.1/publish"} {
		for _, method := range []string{"GET", "POST", "DELETE", "PATCH"} {
			a, b := s.do(method, "/registry/secret"+rest, nil), s.do(method, "/registry/nowhere"+rest, nil)
			if a.String() != b.String() || a.header.Get("WWW-Authenticate") != b.header.Get("WWW-Authenticate") || a.status != 403 {
				t.Errorf("%s %s: %s and %s", method, rest, a, b)
			}
		}
	}
}

func TestRequest_HostileQueriesAndHeaders(t *testing.T) {
	t.Parallel()
	s := serve(t, anonymous)
	for _, name := range []string{"a.b/one", "a.b/two", "a.b/three"} {
		mustDo(t, s.do("POST", publish, server(name, "1.0.0")), 200)
	}
	cursor := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for query, status := range map[string]int{
		"limit=1e9": 400, "limit=1000000000": 400, "limit=abc": 400, "limit=-1": 400, "limit=0": 400, "limit=1.0": 400, "limit=0x10": 400, "limit=%D9%A1": 400,
		"limit=1&limit=1": 400, "search=a&search=b": 400, "version=latest&version=1": 400, "limit=1;limit=2": 400, "cursor=a&cursor=b": 400,
		"cursor=" + cursor("a.b/one\n1.0.0\n\n0"):                                                   200, // forged, and a position all the same
		"cursor=" + cursor("zz/not.there\n9\n\n0"):                                                  200,
		"cursor=" + cursor("a.b/one\n1.0.0"):                                                        400, // of a version before this one
		"cursor=" + cursor("a.b/one\n1.0.0\n\n-1"):                                                  400,
		"cursor=" + cursor("a.b/one"):                                                               400,
		"cursor=" + cursor("a.b/one\n1\n2\n0"):                                                      400,
		"updated_since=2026-01-01T00:00:00Z&cursor=" + cursor("a.b/one\n1\n2\n0"):                   200, // nothing is as old
		"updated_since=2026-01-01T00:00:00Z&cursor=" + cursor("a.b/one\n1\n9223372036854775807\n0"): 200,
		"updated_since=2026-01-01T00:00:00Z&cursor=" + cursor("a.b/one\n1\n9223372036854775808\n0"): 400,
		"updated_since=2026-01-01T00:00:00Z&cursor=" + cursor("a.b/one\n1\n2\n3\n4"):                400,
		"cursor=" + cursor("a.b/one\n\xff\n\n0"):                                                    200,
		"cursor=" + cursor("'; DROP TABLE\n1"):                                                      400,
		"cursor=" + cursor("../../etc/passwd\n1"):                                                   400,
		"cursor=" + strings.Repeat("A", 20<<10):                                                     400,
		"updated_since=0":                                                                           400,
		"updated_since=9999-12-31T23:59:59Z":                                                        200,
		"updated_since=0001-01-01T00:00:00Z":                                                        200,
		"updated_since=2026-02-30T00:00:00Z":                                                        400,
		"version=" + strings.Repeat("v", 300):                                                       400,
		"search=" + strings.Repeat("%20a", 60):                                                      400,
		"search=%00":                                                                                200,
		"search=%ff%fe":                                                                             200,
		"search=" + strings.Repeat("%E2%80%AE", 9):                                                  200,
		"include_deleted=TRUE":                                                                      400,
		"unknown=1":                                                                                 200,
		"%00=1":                                                                                     200,
	} {
		mustDo(t, s.do("GET", servers+"?"+query, nil), status)
	}
	t.Run("the answer before is known by its tag, weak or not, in any list", func(t *testing.T) {
		tag := s.do("GET", servers, nil).header.Get("ETag")
		strong := strings.TrimPrefix(tag, "W/")
		for value, status := range map[string]int{
			tag: 304, strong: 304, `"a", ` + tag + `, W/"b"`: 304, `"a",` + strong: 304, `W/"` + strings.Repeat("x", 9000) + `"`: 200,
			strings.Trim(strong, `"`): 200, `w/` + strong: 200, strings.Repeat(`"a",`, 5000) + tag: 304, ",,,": 200,
		} {
			mustDo(t, s.do("GET", servers, nil, header{"If-None-Match": value}), status)
		}
		a := s.line(t, "GET", servers, `If-None-Match: "a"`, "If-None-Match: "+tag)
		if a.status != 304 {
			t.Errorf("two headers: %s", a)
		}
		if a := s.do("GET", at("a.b/nothing", "/versions"), nil, header{"If-None-Match": tag}); a.status != 404 || a.header.Get("ETag") != "" {
			t.Errorf("what is not there has a tag: %s", a)
		}
	})
	t.Run("too much of a header is refused", func(t *testing.T) {
		mustDo(t, s.line(t, "GET", servers, "X-Large: "+strings.Repeat("x", 64<<10)), 431)
		mustDo(t, s.line(t, "GET", servers+"?search="+strings.Repeat("x", 64<<10)), 431)
		mustDo(t, s.line(t, "GET", servers, strings.TrimSuffix(strings.Repeat("X-Many: x\r\n", 6000), "\r\n")), 431)
	})
	t.Run("requests that two readers would split in two are refused", func(t *testing.T) { // RFC 9112 section 11.2
		for _, headers := range [][]string{
			{"Content-Length: 5", "Content-Length: 6"}, {"Content-Length: -1"}, {"Content-Length: 5", "Transfer-Encoding: xchunked"},
			{"Transfer-Encoding: chunked", "Transfer-Encoding: chunked"}, {"X : y"}, {"Host: other"}, {"X: a\x00b"},
		} {
			if a := s.line(t, "GET", servers, headers...); a.status != 400 && a.status != 501 {
				t.Errorf("%q: %s", headers, a)
			}
		}
	})
}

func TestRequest_HostileBodies(t *testing.T) {
	t.Parallel()
	s := serve(t, anonymous)
	mustDo(t, s.do("POST", publish, server("a.b/x", "1.0.0")), 200)
	good := `{"name":"a.b/z","version":"1.0.0","description":"d"}`
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(z, good)
	_ = z.Close()
	exactly := func(size int) string { // of this many bytes
		const frame = `{"name":"a.b/z","version":"1.0.0","description":"d"` + "\n" + `}`
		return strings.Replace(frame, "\n", strings.Repeat("\n", size-len(frame)+1), 1)
	}
	status := at("a.b/x", "/versions/1.0.0/status")
	tests := []struct {
		name, method, path, body string
		status                   int
		headers                  header
	}{
		{"cut short", "POST", publish, good[:len(good)-1], 422, nil},
		{"nothing", "POST", publish, "", 422, nil},
		{"compressed", "POST", publish, zipped.String(), 422, header{"Content-Encoding": "gzip"}},
		{"a form", "POST", publish, good, 400, header{"Content-Type": "application/x-www-form-urlencoded"}},
		{"no type", "POST", publish, good, 400, header{"Content-Type": ""}},
		{"a broken type", "POST", publish, good, 400, header{"Content-Type": "application/json; ="}},
		{"a byte more than a document may have", "POST", publish, exactly(1<<20 + 1), 422, nil},
		{"deep", "POST", publish, strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000), 422, nil},
		{"deep and open", "POST", publish, strings.Repeat("[", 500_000), 422, nil},
		{"a member twice, deep inside", "POST", publish, `{"name":"a.b/z","version":"1.0.0","description":"d","repository":{"url":"https://a.example","url":"https://b.example","source":"git"}}`, 422, nil},
		{"a member twice, once escaped", "POST", publish, `{"name":"a.b/z","n\u0061me":"a.b/y","version":"1.0.0","description":"d"}`, 422, nil},
		{"NUL", "POST", publish, `{"name":"a.b/z","version":"1.0.0","description":"a\u0000b"}`, 422, nil},
		{"a raw NUL", "POST", publish, good + "\x00", 422, nil},
		{"no UTF-8", "POST", publish, "{\"name\":\"a.b/z\",\"version\":\"1.0.0\",\"description\":\"\xff\"}", 422, nil},
		{"half a character", "POST", publish, `{"name":"a.b/z","version":"1.0.0","description":"\ud800"}`, 422, nil},
		{"a byte order mark", "POST", publish, "\ufeff" + good, 422, nil},
		{"two documents", "POST", publish, good + good, 422, nil},
		{"a number beyond numbers", "POST", publish, `{"name":"a.b/z","version":1e999999999,"description":"d"}`, 422, nil},
		{"a name in another case", "POST", publish, `{"Name":"a.b/z","version":"1.0.0","description":"d"}`, 422, nil},
		{"a status with a member twice", "PATCH", status, `{"status":"active","status":"deleted"}`, 400, nil},
		{"a status with half a character", "PATCH", status, `{"status":"active","statusMessage":"\ud800"}`, 400, nil},
		{"a status that is no UTF-8", "PATCH", status, "{\"status\":\"active\",\"statusMessage\":\"\xff\"}", 400, nil},
		{"a status with NUL", "PATCH", status, `{"status":"active","statusMessage":"\u0000"}`, 400, nil},
		{"a status with an escape sequence", "PATCH", status, `{"status":"active","statusMessage":"\u009b31m"}`, 400, nil},
		{"a status of null", "PATCH", status, `{"status":null}`, 400, nil},
		{"a status that is a list", "PATCH", status, `[]`, 400, nil},
		{"from a page of another origin", "POST", publish, good, 403, header{"Sec-Fetch-Site": "cross-site"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var said struct{ Error string }
			mustDo(t, s.do(test.method, test.path, test.body, test.headers), test.status).into(t, &said)
			if said.Error == "" || len(said.Error) > 2000 {
				t.Errorf("it says %q", said.Error)
			}
		})
	}
	t.Run("a chunked body without end is cut off", func(t *testing.T) {
		chunk := fmt.Sprintf("%x\r\n%s\r\n", 1<<20, strings.Repeat(" ", 1<<20))
		a := s.wire(t, "POST", "POST "+publish+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"+strings.Repeat(chunk, 12))
		if a.status != 413 {
			t.Error(a)
		}
	})
	t.Run("a body longer than it says to be is not read on", func(t *testing.T) {
		a := s.wire(t, "POST", fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", publish, 9<<20, "{}"))
		if a.status != 413 && a.status != 400 {
			t.Error(a)
		}
	})
	if l := list(t, s, "?include_deleted=true"); len(l.Servers) != 1 {
		t.Errorf("bad input was published: %v", names(l))
	}
	mustDo(t, s.do("POST", publish, exactly(1<<20)), 200)
	if strings.Contains(s.log.String(), "a request failed") {
		t.Errorf("a caller's fault is logged as ours:\n%s", s.log)
	}
}

// Connections that send next to nothing are ended, and many at once keep nobody
// from an answer.
func TestRequest_SlowAndManyConnections(t *testing.T) {
	s := serve(t, anonymous)
	address := strings.TrimPrefix(s.base, "http://")
	var slow []net.Conn
	for range 1000 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nX-Slow: ", servers)
		slow = append(slow, conn)
	}
	start := time.Now()
	mustDo(t, s.do("GET", servers, nil), 200)
	// Each of them is waited for for 10 s: also the last one, which came before us.
	last := slow[len(slow)-1]
	_ = last.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if _, err := last.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("an answer took %s, until those beside it were ended (%v)", time.Since(start), err)
	}
	for _, conn := range slow {
		_ = conn.SetReadDeadline(start.Add(patience))
		if _, err := io.Copy(io.Discard, conn); err != nil {
			if e, ok := err.(net.Error); ok && e.Timeout() {
				t.Fatal("a request without an end is still waited for")
			}
		}
	}
	mustDo(t, s.do("GET", servers, nil), 200)
	if code := s.stop(); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// DNS rebinding: a page of evil.example, whose name was made to resolve to this
// machine, is of the same origin as the registry for its browser.
func TestRequest_OtherHosts(t *testing.T) {
	t.Parallel()
	p := idp.Start(t, idp.Options{})
	for name, config := range map[string]string{"anonymous": anonymous, "oauth": oauthConfig(t, "", p)} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, config)
			body := server("a.b/x", "1.0.0")
			for _, request := range []string{
				"GET / HTTP/1.1\r\nHost: evil.example:8080\r\n\r\n",
				"GET http://evil.example" + servers + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
				fmt.Sprintf("POST %s HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://evil.example\r\nSec-Fetch-Site: same-origin\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", publish, len(body), body),
			} {
				method, _, _ := strings.Cut(request, " ")
				a := s.wire(t, method, request)
				if a.status != http.StatusMisdirectedRequest || !strings.Contains(string(a.body), "allowedHosts") || strings.Contains(string(a.body), "evil") {
					t.Errorf("%.40q: %s", request, a)
				}
			}
			if name == "anonymous" {
				if l := list(t, s, ""); len(l.Servers) != 0 {
					t.Errorf("published: %v", names(l))
				}
			}
		})
	}
}
