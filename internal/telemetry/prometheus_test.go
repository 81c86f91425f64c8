//go:build integration

package telemetry

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Debian's Prometheus scrapes /metrics, and each query of the dashboard has a result.
func TestDashboard_Prometheus(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatalf("%v; test/setup/prometheus.sh installs it", err)
	}
	tel := start(t, Config{Prometheus: true}, Options{})
	tel.SetSessions(func() int { return 1 })
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		busy(t, tel) // so that rates are not zero
		tel.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(gateway.Close)
	api := startPrometheus(t, program, strings.TrimPrefix(gateway.URL, "http://"))
	variables := strings.NewReplacer("$__rate_interval", "1m", "$server", ".*", "$job", ".*")
	for title, exprs := range queries(t) {
		for _, expr := range exprs {
			var last string
			for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
				var ok bool
				if ok, last = query(t, api, variables.Replace(expr)); ok {
					break
				}
				if time.Now().After(deadline) {
					t.Errorf("%s: no result of %s: %s", title, expr, last)
					break
				}
			}
		}
	}
}

// startPrometheus starts Prometheus, which scrapes target, and returns the URL of its API.
func startPrometheus(t *testing.T, program, target string) string {
	t.Helper()
	dir := t.TempDir()
	config := fmt.Sprintf("global:\n  scrape_interval: 500ms\nscrape_configs:\n  - job_name: thv\n    static_configs:\n      - targets: [%q]\n", target)
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close() // for Prometheus
	cmd := exec.Command(program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--log.level=warn")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return "http://" + address + "/api/v1/query"
}

// query reports whether a query has a result that is a number. Prometheus may not be ready.
func query(t *testing.T, api, expr string) (bool, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, api+"?query="+url.QueryEscape(expr), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return false, err.Error()
	}
	defer resp.Body.Close()
	var answer struct {
		Error string
		Data  struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return false, resp.Status + ": " + err.Error()
	}
	if answer.Error != "" {
		t.Fatalf("%s: %s", expr, answer.Error)
	}
	for _, series := range answer.Data.Result {
		if series.Value[1] != "NaN" {
			return true, ""
		}
	}
	return false, fmt.Sprint(answer.Data.Result)
}
