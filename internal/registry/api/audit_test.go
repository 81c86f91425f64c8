package api

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/auditlog"
	"github.com/toolhaven/toolhaven/internal/registry/catalog"
	"github.com/toolhaven/toolhaven/internal/registry/store/sqlite"
)

func record(t testing.TB, file string) *auditlog.Log {
	t.Helper()
	l, err := auditlog.Open(auditlog.Options{File: file, Out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestLog_WriteWithoutRecordRejected(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("SKIPPED: there is no /dev/full")
	}
	st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "registry.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	log := record(t, "/dev/full")
	log.Record(slog.Int("n", 1)) // which fails
	cat := catalog.New(st, []catalog.Definition{{Name: "default", Sources: []string{"s"}, Managed: "s"}})
	h := New(Options{Catalog: cat, Log: slog.New(slog.DiscardHandler), Audit: log})
	call := func(method, path, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	w := call("POST", "/registry/default/v0.1/publish", `{"name":"a.b/x","version":"1.0.0","description":"d"}`)
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "audit.file") {
		t.Errorf("publish: %d %s", w.Code, w.Body)
	}
	if w = call("GET", "/registry/default/v0.1/servers?include_deleted=true", ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"count":0`) {
		t.Errorf("list: %d %s", w.Code, w.Body)
	}
}
