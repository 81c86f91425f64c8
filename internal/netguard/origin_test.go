package netguard

import (
	"net/url"
	"testing"
)

func TestOrigin(t *testing.T) {
	for raw, want := range map[string]string{
		"https://A.example/x?y#z":     "https://a.example",
		"https://a.example:443":       "https://a.example",
		"http://a.example:80/":        "http://a.example",
		"http://a.example:443/":       "http://a.example:443",
		"https://u:p@a.example:8443/": "https://a.example:8443",
		"HTTPS://[2001:DB8::1]:443/":  "https://[2001:db8::1]",
		"http://[::1]:8080/":          "http://[::1]:8080",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got := Origin(u); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}
