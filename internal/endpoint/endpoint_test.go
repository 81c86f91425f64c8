package endpoint_test

import (
	"testing"

	"github.com/toolhaven/toolhaven/internal/endpoint"
)

func TestConfig_Validate(t *testing.T) {
	t.Parallel()
	with := func(change func(*endpoint.Config)) endpoint.Config {
		c := endpoint.Config{Mode: endpoint.Streamable}
		change(&c)
		return c
	}
	for name, row := range map[string]struct {
		config endpoint.Config
		valid  bool
	}{
		"streamable":                 {with(func(*endpoint.Config) {}), true},
		"sse":                        {with(func(c *endpoint.Config) { c.Mode = endpoint.SSE }), true},
		"no mode":                    {with(func(c *endpoint.Config) { c.Mode = "" }), false},
		"unknown mode":               {with(func(c *endpoint.Config) { c.Mode = "pigeon" }), false},
		"sse without sessions":       {with(func(c *endpoint.Config) { c.Mode, c.Stateless = endpoint.SSE, true }), false},
		"prefix":                     {with(func(c *endpoint.Config) { c.Prefix = "/tools/x" }), true},
		"prefix with a last slash":   {with(func(c *endpoint.Config) { c.Prefix = "/tools/x/" }), true},
		"relative prefix":            {with(func(c *endpoint.Config) { c.Prefix = "tools" }), false},
		"prefix that is a host":      {with(func(c *endpoint.Config) { c.Prefix = "//evil.example" }), false},
		"prefix that climbs":         {with(func(c *endpoint.Config) { c.Prefix = "/a/../b" }), false},
		"prefix with a line break":   {with(func(c *endpoint.Config) { c.Prefix = "/a\ndata: x" }), false},
		"prefix that is not ASCII":   {with(func(c *endpoint.Config) { c.Prefix = "/ä" }), false},
		"host":                       {with(func(c *endpoint.Config) { c.AllowedHosts = []string{"tools.example"} }), true},
		"host and port":              {with(func(c *endpoint.Config) { c.AllowedHosts = []string{"tools.example:8443"} }), true},
		"host and port out of range": {with(func(c *endpoint.Config) { c.AllowedHosts = []string{"x:99999"} }), false},
		"host with a wildcard":       {with(func(c *endpoint.Config) { c.AllowedHosts = []string{"*.example"} }), false},
		"URL as host":                {with(func(c *endpoint.Config) { c.AllowedHosts = []string{"http://x"} }), false},
		"IPv6 host":                  {with(func(c *endpoint.Config) { c.AllowedHosts = []string{"[fd00::1]:80"} }), true},
		"negative TTL":               {with(func(c *endpoint.Config) { c.SessionTTL = -1 }), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := row.config.Validate(); (err == nil) != row.valid {
				t.Errorf("Validate() = %v, valid is %v", err, row.valid)
			}
		})
	}
}
