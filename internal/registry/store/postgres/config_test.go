package postgres

import (
	"strings"
	"testing"
)

func TestParse_ErrorsHideURL(t *testing.T) {
	for _, options := range []Options{
		{},
		{URL: "postgres://u:top-secret@host:port/db"},
		{URL: "postgres://u:top/secret:top-secret@host/db"},
		{URL: "postgres://u:%zztop-secret@host/db"},
		{URL: "postgres://u:top-secret@host/db?sslmode=perhaps"},
		{URL: "postgres://u:top-secret@host/db?sslrootcert=/nowhere/ca.pem&sslmode=verify-full"},
		{URL: "host=h password='top-secret"},
		{URL: "top-secret"},
		{URL: "mysql://u:top-secret@host/db"},
		{URL: "postgres://host/db", MaxConnections: -1},
	} {
		_, err := Open(t.Context(), options)
		if err == nil {
			t.Errorf("%q is accepted", options.URL)
			continue
		}
		if strings.Contains(err.Error(), "top-secret") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q is answered %q", options.URL, err)
		}
	}
}

func TestParse_ServerBounds(t *testing.T) {
	config, err := parse(Options{URL: "postgres://u@db.example/registry?statement_timeout=5s&connect_timeout=3"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"statement_timeout": "5s", "lock_timeout": "10s", "application_name": "thv-registry"} {
		if got := config.RuntimeParams[name]; got != want {
			t.Errorf("%s is %q, not %q", name, got, want)
		}
	}
	if config.ConnectTimeout.Seconds() != 3 || address(config) != "db.example:5432" {
		t.Errorf("%s at %s", config.ConnectTimeout, address(config))
	}
	if config, err = parse(Options{URL: "host=/run/postgresql user=registry"}); err != nil {
		t.Fatal(err)
	}
	if config.ConnectTimeout != connectTimeout || address(config) != "/run/postgresql" || config.Database != "registry" {
		t.Errorf("%s at %s, database %s", config.ConnectTimeout, address(config), config.Database)
	}
}
