package httpd

import (
	"net/http/httptest"
	"testing"
)

func TestClientAddress(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lines []string
		trust bool
		want  string
	}{
		"no proxy":                      {nil, true, "192.0.2.1"},
		"a header of the sender's own":  {[]string{"198.51.100.7"}, false, "192.0.2.1"},
		"a trusted proxy":               {[]string{"198.51.100.7"}, true, "198.51.100.7"},
		"the proxy's is the last":       {[]string{"10.0.0.1, 203.0.113.9,198.51.100.7"}, true, "198.51.100.7"},
		"the proxy's is the last line":  {[]string{"10.0.0.1", "198.51.100.7"}, true, "198.51.100.7"},
		"with a port":                   {[]string{"198.51.100.7:4711"}, true, "198.51.100.7"},
		"IPv6":                          {[]string{"2001:db8::1"}, true, "2001:db8::1"},
		"IPv6 with a port":              {[]string{"[2001:db8::1]:4711"}, true, "2001:db8::1"},
		"IPv4 in IPv6":                  {[]string{"::ffff:198.51.100.7"}, true, "198.51.100.7"},
		"no address":                    {[]string{"unknown"}, true, "192.0.2.1"},
		"an address before no address":  {[]string{"198.51.100.7, unknown"}, true, "192.0.2.1"},
		"a zone is not another address": {[]string{"fe80::1%eth0"}, true, "fe80::1"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/", nil)
		r.RemoteAddr = "192.0.2.1:1234"
		r.Header["X-Forwarded-For"] = c.lines
		if got := ClientAddress(r, c.trust); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		source := c.want // of records: with the port of a connection
		if source == "192.0.2.1" {
			source = r.RemoteAddr
		}
		if got := SourceOf(r, c.trust).Address; got != source {
			t.Errorf("%s: got the source %q, want %q", name, got, source)
		}
	}
}
