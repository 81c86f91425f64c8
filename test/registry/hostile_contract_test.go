//go:build integration

package registry

import (
	"regexp"
	"strings"
	"testing"
)

// Every operation of the document is served, every route of the server is in the
// document, and every status that was seen is too.
func TestOpenAPI_MatchesServer(t *testing.T) {
	t.Parallel()
	s := serve(t, anonymous)
	mustDo(t, s.do("POST", publish, server("a.b/x", "1.0.0")), 200)
	var doc struct {
		Paths map[string]map[string]any
	}
	s.do("GET", "/openapi.json", nil).into(t, &doc)
	fill := strings.NewReplacer("{registry}", "default", "{server}", "a.b%2Fx", "{version}", "1.0.0")
	methods := []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"}
	operations := 0
	for path, item := range doc.Paths {
		for _, method := range methods {
			_, documented := item[strings.ToLower(method)]
			a := s.do(method, fill.Replace(path), nil)
			served := a.status != 405 && a.status != 501 && !(a.status == 404 && strings.Contains(string(a.body), "page"))
			if path == "/.well-known/oauth-protected-resource" {
				continue // there is none without authentication
			}
			if documented {
				operations++
			}
			if served != documented {
				t.Errorf("%s %s: documented %v, and it answers %s", method, path, documented, a)
			}
		}
	}
	if operations < 9 {
		t.Errorf("%d operations", operations)
	}
	// Routes by what the server itself calls them, in its log.
	routes := regexp.MustCompile(`"route":"([A-Z]+) (/registry[^"]*|/openapi.json)"`)
	for _, m := range routes.FindAllStringSubmatch(s.log.String(), -1) {
		if _, ok := doc.Paths[m[2]][strings.ToLower(m[1])]; !ok {
			t.Errorf("%s %s is served and not documented", m[1], m[2])
		}
	}
}
