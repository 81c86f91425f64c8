package docker

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// socketDir is a folder whose path is short enough for a socket in it.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "thv")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// listen serves an engine's API at a socket and returns what ends it.
func listen(t *testing.T, socket string, h http.Handler) (stop func()) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return func() { server.Close() }
}

// fakeEngine answers what an engine would answer in a situation that a real one
// cannot be brought to. Routes are written without the API version.
func fakeEngine(routes map[string]http.HandlerFunc) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/_ping", func(http.ResponseWriter, *http.Request) {})
	for pattern, h := range routes {
		mux.HandleFunc(pattern, h)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		r.URL.Path = strings.TrimPrefix(r.URL.Path, "/v1.41")
		mux.ServeHTTP(w, r)
	})
}

// connect returns an Engine of that fake.
func connect(t *testing.T, h http.Handler, vars ...string) *Engine {
	t.Helper()
	socket := filepath.Join(socketDir(t), "e.sock")
	listen(t, socket, h)
	env := map[string]string{"THV_ENGINE": socket, "HOME": "/nowhere"}
	for i := 0; i < len(vars); i += 2 {
		env[vars[i]] = vars[i+1]
	}
	e, err := Connect(t.Context(), envOf(env))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// responds serves a status and a body.
func responds(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}
