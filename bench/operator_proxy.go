//go:build unix

package main

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// countingProxy stands before an API server and counts what passes. Watches and the lease are
// not counted, and events apart.
type countingProxy struct {
	kubeconfig       string // a file for clients of it
	server           *http.Server
	requests, writes atomic.Int64
	events           atomic.Int64

	mu     sync.Mutex
	counts map[string]int // writes by path
}

func newCountingProxy(config *rest.Config, dir string) (*countingProxy, error) {
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(config) // with the token
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &countingProxy{kubeconfig: filepath.Join(dir, "kubeconfig"), counts: map[string]int{}}
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
	}
	p.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.count(r)
		proxy.ServeHTTP(w, r)
	})}
	go func() { _ = p.server.Serve(l) }()
	return p, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"bench": {Server: "http://" + l.Addr().String()}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"bench": {}},
		Contexts:       map[string]*clientcmdapi.Context{"bench": {Cluster: "bench", AuthInfo: "bench"}},
		CurrentContext: "bench",
	}, p.kubeconfig)
}

func (p *countingProxy) count(r *http.Request) {
	watch := r.URL.Query().Get("watch") == "true" || r.URL.Query().Get("watch") == "1"
	if strings.HasSuffix(r.URL.Path, "/events") {
		p.events.Add(1)
		return
	}
	if watch || isLease(r.URL.Path) {
		return
	}
	p.requests.Add(1)
	if r.Method == http.MethodGet {
		return
	}
	p.writes.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[r.URL.Path]++
}

// reset begins to count anew.
func (p *countingProxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests.Store(0)
	p.writes.Store(0)
	clear(p.counts)
}

// written is the number of objects that were written, and the most writes of one of them, with
// its path.
func (p *countingProxy) written() (objects, most int, path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for of, n := range p.counts {
		if n > most {
			most, path = n, of
		}
	}
	return len(p.counts), most, path
}

func (p *countingProxy) close() { _ = p.server.Close() }
