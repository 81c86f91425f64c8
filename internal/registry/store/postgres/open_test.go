//go:build integration

package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry/store"
	"github.com/toolhaven/toolhaven/internal/registry/store/storetest"
	server "github.com/toolhaven/toolhaven/test/postgres"
)

const password = "p%40ss/word:#1 ü"

func passwordFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestOpen_PasswordReread(t *testing.T) {
	pg := server.StartWith(t, server.Options{Password: password})
	url := pg.Database(t)
	file := passwordFile(t, password+"\n")
	// The file wins over the URL.
	s, err := Open(t.Context(), Options{URL: strings.Replace(url, "postgres@", "postgres:other@", 1), PasswordFile: file, MaxConnections: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()

	// The password is changed, and then all connections are lost.
	pg.Exec(t, "postgres", "ALTER ROLE postgres PASSWORD 'second'")
	pg.Password("second")
	if err := os.WriteFile(file, []byte("second\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	pg.Restart(t)
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("with the new password: %v", err)
	}
	for what, spoil := range map[string]func() error{
		"wrong":   func() error { return os.WriteFile(file, []byte("third-secret"), 0o600) },
		"empty":   func() error { return os.WriteFile(file, []byte("\n"), 0o600) },
		"large":   func() error { return os.WriteFile(file, make([]byte, 1<<20), 0o600) },
		"missing": func() error { return os.Remove(file) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		pg.Restart(t)
		err := s.Ping(t.Context())
		if !errors.Is(err, store.ErrUnavailable) || strings.Contains(err.Error(), "third-secret") {
			t.Errorf("with a password file that is %s: %v", what, err)
		}
		if what == "missing" {
			continue
		}
		if err := os.WriteFile(file, []byte("second"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.Ping(t.Context()); err != nil {
			t.Errorf("after a password file that was %s: %v", what, err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("second"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Errors name the database and never the password.
func TestOpen_Unusable(t *testing.T) {
	pg := server.StartWith(t, server.Options{Password: password})
	const wrong = "wrong-secret"
	url := pg.URL("postgres")
	host := fmt.Sprintf("127.0.0.1:%d", pg.Port)
	withPassword := func(p string) string { return strings.Replace(url, "postgres@", "postgres:"+p+"@", 1) }
	for name, test := range map[string]struct {
		options Options
		says    []string
		atOnce  bool
	}{
		"a wrong password in the URL":   {Options{URL: withPassword(wrong)}, []string{host, "database postgres", "password authentication failed"}, true},
		"a wrong password in the file":  {Options{URL: url, PasswordFile: passwordFile(t, wrong)}, []string{host, "password authentication failed"}, true},
		"a database that is not there":  {Options{URL: pg.URL("nowhere"), PasswordFile: passwordFile(t, password)}, []string{host, "nowhere", "does not exist"}, true},
		"a server that is not there":    {Options{URL: "postgres://u:wrong-secret@127.0.0.1:1/db?sslmode=disable"}, []string{"127.0.0.1:1", "database db", "refused"}, false},
		"a password file not there":     {Options{URL: url, PasswordFile: "/nowhere/password"}, []string{host, "/nowhere/password"}, false},
		"words instead of a URL":        {Options{URL: "host=127.0.0.1 port=1 user=u dbname=db password=wrong-secret sslmode=disable"}, []string{"127.0.0.1:1", "database db"}, false},
		"a server that does not answer": {Options{URL: "postgres://u:wrong-secret@" + silent(t) + "/db?sslmode=disable"}, []string{"database db"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			// What may change is waited for, as long as the context lasts.
			patience := 4 * time.Second
			if test.atOnce {
				patience = time.Minute
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			began := time.Now()
			s, err := Open(ctx, test.options)
			if err == nil {
				s.Close()
			}
			if !errors.Is(err, store.ErrUnavailable) {
				t.Fatalf("it ends with %v", err)
			}
			if strings.Contains(err.Error(), wrong) || strings.Contains(err.Error(), "\n") {
				t.Errorf("it says %q", err)
			}
			for _, part := range test.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ended, Options{URL: "postgres://127.0.0.1:1/db"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that ends: %v", err)
	}
}

// silent accepts connections and sends nothing.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func TestOpen_WaitsForStart(t *testing.T) {
	pg := server.Start(t)
	url := pg.Database(t)
	pg.Stop(t)
	opened := make(chan error, 1)
	go func() {
		s, err := Open(t.Context(), Options{URL: url})
		if err == nil {
			err = s.Ping(t.Context())
			s.Close()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		t.Fatalf("it does not wait: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
	pg.Restart(t)
	if err := <-opened; err != nil {
		t.Error(err)
	}
}

func TestOpen_NewerDatabase(t *testing.T) {
	pg := server.Start(t)
	url := pg.Database(t)
	openAt(t, url)
	pg.Exec(t, "test1", "INSERT INTO registry_migration (version_id, is_applied) VALUES (99, true)")
	_, err := Open(t.Context(), Options{URL: url})
	if !errors.Is(err, store.ErrNewer) {
		t.Fatalf("it ends with %v", err)
	}
	for _, part := range []string{"database test1", "version 99", "up to 3"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func TestOpen_Concurrent(t *testing.T) {
	url := server.Start(t).Database(t)
	var wait sync.WaitGroup
	for range 6 {
		wait.Go(func() {
			// One connection is enough for everything.
			s, err := Open(t.Context(), Options{URL: url, MaxConnections: 1})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			if _, err := s.Insert(t.Context(), version(fmt.Sprint(time.Now().UnixNano()))); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
}

func TestOpen_ForeignDatabase(t *testing.T) {
	pg := server.Start(t)
	pg.Exec(t, "postgres",
		"CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0",
		"CREATE DATABASE taken", "CREATE DATABASE closed", "CREATE ROLE guest LOGIN")
	pg.Exec(t, "taken", "CREATE TABLE version (n int)")
	pg.Exec(t, "closed", "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	for url, says := range map[string]string{
		pg.URL("latin"): "LATIN1",
		pg.URL("taken"): `relation "version" already exists`,
		strings.Replace(pg.URL("closed"), "postgres@", "guest@", 1): "permission denied",
	} {
		began := time.Now()
		_, err := Open(t.Context(), Options{URL: url})
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", url, err)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%s: it took %s", url, took)
		}
	}
	// Nothing of a migration that failed stays.
	pg.Exec(t, "taken", "DROP TABLE version")
	openAt(t, pg.URL("taken"))
}

func TestMigrate_Clock(t *testing.T) {
	pg := server.Start(t)
	url := pg.Database(t)
	storetest.Clockless(t, func() store.Store { return openAt(t, url) }, func(statement string) { pg.Exec(t, "test1", statement) })
}

func TestMigrate_SearchText(t *testing.T) {
	pg := server.Start(t)
	url := pg.Database(t)
	storetest.Untitled(t, func() store.Store { return openAt(t, url) }, func(statement string) { pg.Exec(t, "test1", statement) })
}
