package telemetry

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// queries are the queries of the Grafana dashboard, by the title of their panel or the name of
// their variable.
func queries(t *testing.T) map[string][]string {
	t.Helper()
	content, err := os.ReadFile("../../docs/grafana/toolhaven.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	if err := json.Unmarshal(content, &dashboard); err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			all[panel.Title] = append(all[panel.Title], target.Expr)
		}
	}
	labelValues := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`)
	for _, variable := range dashboard.Templating.List {
		if m := labelValues.FindStringSubmatch(variable.Definition); m != nil {
			all[variable.Name] = append(all[variable.Name], "count by ("+m[2]+") ("+m[1]+"{})")
		}
	}
	if len(all) < 14 {
		t.Fatalf("the dashboard has only %d panels and variables with queries", len(all))
	}
	return all
}

// busy makes requests of every kind that the dashboard distinguishes.
func busy(t *testing.T, tel *Telemetry) {
	t.Helper()
	through(t, tel, nil, request(mcp.MethodToolsCall, echo("x")), respond(`{}`))
	through(t, tel, nil, request(mcp.MethodToolsList, ``), respond(`{"tools":[]}`))
	through(t, tel, nil, request(mcp.MethodToolsCall, echo("x")), func(context.Context, *exchange.Exchange) (*mcp.Message, error) {
		return nil, exchange.Forbid("denied")
	})
	refuse := tel.HTTP(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	refuse.ServeHTTP(httptest.NewRecorder(), post(nil))
	stream := tel.HTTP(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mcp.TypeEventStream)
		w.WriteHeader(http.StatusOK)
	}))
	stream.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/mcp", nil))
}

// Each query names only metrics and labels that /metrics has after a few calls. With
// Prometheus itself: TestDashboard_Prometheus.
func TestDashboard(t *testing.T) {
	t.Parallel()
	tel := start(t, Config{Prometheus: true}, Options{})
	busy(t, tel)
	text := scrape(t, tel)
	metric := regexp.MustCompile(`([a-z_]+)\{([^}]*)\}`)
	label := regexp.MustCompile(`([a-z_]+)[=!]`)
	for title, exprs := range queries(t) {
		for _, expr := range exprs {
			found := metric.FindAllStringSubmatch(expr, -1)
			if len(found) == 0 {
				t.Errorf("%s: no metric in %s", title, expr)
			}
			for _, m := range found {
				if !strings.Contains(text, "\n"+m[1]+"{") && !strings.Contains(text, "\n"+m[1]+" ") {
					t.Errorf("%s: /metrics has no %s", title, m[1])
				}
				for _, l := range label.FindAllStringSubmatch(m[2], -1) {
					if l[1] != "job" && !strings.Contains(text, l[1]+`="`) { // job is Prometheus's own
						t.Errorf("%s: /metrics has no label %s", title, l[1])
					}
				}
			}
		}
	}
}
