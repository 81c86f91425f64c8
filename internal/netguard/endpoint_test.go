package netguard

import (
	"strings"
	"testing"
)

func TestCheckOAuthEndpoint(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"https://as.example/token?tenant=1": "",
		"https://as.example/token?":         "",
		"https://as.example/token":          "",
		"http://127.0.0.1:8/token?a=b":      "",
		"http://as.example/token?a=b":       "must be HTTPS",
		"https://as.example/token?a#b":      "fragment",
		"https://a:b@as.example/token?a=b":  "user information",
		"ftp://as.example/token?a":          "not an absolute http(s) URL",
		"/token?a=b":                        "not an absolute http(s) URL",
		"%":                                 "not an absolute http(s) URL",
		"":                                  "is required",
	} {
		if err := CheckOAuthEndpoint(raw); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", raw, err)
		}
	}
}
