package api

import (
	"net/url"
	"path"
	"strings"
	"testing"
)

// An accepted path is the same after cleaning and decoding.
func FuzzCheckPath(f *testing.F) {
	for _, seed := range []string{"/", "/registry/default/v0.1/servers/a.b%2Fx/versions", "/a/%2e%2e/b", "//a", "/a\\b", "/%c0%ae", "*", "http://x/%2f"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || checkPath(u) != nil {
			return
		}
		if clean := path.Clean(u.Path); clean != u.Path && clean+"/" != u.Path || strings.ContainsAny(u.Path, "\\\x00%") {
			t.Errorf("%q is let through: %q, cleaned %q", target, u.Path, clean)
		}
	})
}

func FuzzParseStatus(f *testing.F) {
	f.Add([]byte(`{"status":"active","statusMessage":"why"}`))
	f.Add([]byte(`{"status":"active","status":"deleted"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if status, message, err := parseStatus(body); err == nil && (status == "" || strings.ContainsRune(message, 0)) {
			t.Errorf("%q gives %q, %q", body, status, message)
		}
	})
}
