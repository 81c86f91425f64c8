//go:build integration

package scenario

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/toolhaven/toolhaven/internal/credential/aws/awstest"
)

// cloud is the AWS of a script: the sessions whose credentials signed requests.
type cloud struct {
	mu   sync.Mutex
	used map[string]bool // role and session name
	// passedOn are headers of a client that the service received.
	passedOn []string
}

// awsService is the command aws ADDR NAME [IP]: it puts an AWS service in eu-central-1 before the
// MCP server at ADDR, sets NAME to the address of the service, and NAME_STS to the URL of the
// STS whose credentials it accepts. The service listens at IP, 127.0.0.1 when it is not given.
func awsService(ts *testscript.TestScript, _ bool, args []string) {
	c := &cloud{used: map[string]bool{}}
	sts := awstest.NewSTS()
	stsServer := httptest.NewServer(sts)
	ts.Defer(stsServer.Close)
	target, err := url.Parse("http://" + args[0])
	ts.Check(err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		c.mu.Lock()
		c.used[r.In.Header.Get("X-Role")+" "+r.In.Header.Get("X-Session")] = true
		for _, name := range []string{"Cookie", "Proxy-Authorization", "X-Client"} {
			if r.In.Header.Get(name) != "" {
				c.passedOn = append(c.passedOn, name)
			}
		}
		c.mu.Unlock()
		r.SetURL(target)
		r.Out.Host = target.Host
	}}
	ip := "127.0.0.1"
	if len(args) > 2 {
		ip = args[2]
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	ts.Check(err)
	service := httptest.NewUnstartedServer(sts.Guard(awstest.Scope{Region: "eu-central-1", Service: "aws-mcp"}, http.Handler(proxy)))
	ts.Check(service.Listener.Close()) // httptest listens on 127.0.0.1 only
	service.Listener = listener
	service.Start()
	ts.Defer(func() {
		service.CloseClientConnections() // Close waits for streams
		service.Close()
	})
	here(ts).cloud = c
	ts.Setenv(args[1], service.Listener.Addr().String())
	ts.Setenv(args[1]+"_STS", stsServer.URL)
}

// assumed is the command assumed ROLE SESSION: the service received a request of that session,
// and none with a header that a client sent to the gateway.
func assumed(ts *testscript.TestScript, neg bool, args []string) {
	c := here(ts).cloud
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.used[args[0]+" "+args[1]] == neg {
		ts.Fatalf("the sessions are %v", c.used)
	}
	if len(c.passedOn) > 0 {
		ts.Fatalf("the service received headers of a client: %v", c.passedOn)
	}
}
