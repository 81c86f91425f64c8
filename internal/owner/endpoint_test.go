package owner

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// unreachable is a backend for a gateway that serves no request.
type unreachable struct{ exchange.BackendDefaults }

func (unreachable) Open(context.Context, *exchange.Client, exchange.Peer) (exchange.Conn, error) {
	return nil, errors.New("unreachable")
}

func (unreachable) Do(context.Context, *exchange.Exchange) (*mcp.Message, error) {
	return nil, errors.New("unreachable")
}

func (unreachable) Close() error { return nil }

// A configuration that the gateway refuses is refused by workload.Validate already,
// before an image is built or anything is started, and the other way round.
func TestValidate_AgreesWithGateway(t *testing.T) {
	t.Parallel()
	prefixes := []string{"", "/", "/tools", "/tools/x/", "tools", "//evil.example", "/a//b", "/a/../b", "/ä", "/a b", "/a?b", "/a\nb", `/a\b`, "/%2e"}
	hosts := []string{"", "tools.example", "tools.example:8443", "x:99999", "x:0", "*.example", "http://x", "a b", "[::1]:80", "[::1", "ä.example", "a,b"}
	ttls := []time.Duration{0, time.Minute, -1}
	valid, invalid := 0, 0
	for _, mode := range []string{"streamable-http", "sse", "", "stdio"} {
		for _, prefix := range prefixes {
			for _, host := range hosts {
				for _, ttl := range ttls {
					for _, stateless := range []bool{false, true} {
						spec := &workload.Spec{
							Schema: workload.Schema, Name: "a", Transport: workload.StreamableHTTP,
							Remote: &workload.Remote{URL: "https://mcp.example/mcp"},
							Proxy: workload.Proxy{
								Host: "127.0.0.1", Port: 20001, Mode: mode, EndpointPrefix: prefix, AllowedHosts: []string{host},
								SessionTTL: workload.Duration(ttl), Stateless: stateless,
							},
						}
						specErr := workload.Validate(spec)
						front, err := gateway.New(gateway.Config{Backend: unreachable{}, Endpoint: spec.Endpoint()})
						if err == nil {
							_ = front.Close(t.Context())
							valid++
						} else {
							invalid++
						}
						if (specErr == nil) != (err == nil) {
							t.Errorf("Validate: %v\ngateway.New: %v", specErr, err)
						}
					}
				}
			}
		}
	}
	if valid < 50 || invalid < 1000 {
		t.Errorf("%d valid and %d invalid configurations", valid, invalid)
	}
}
