//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toolhaven/toolhaven/test/local"
)

// Options of a server; the zero value accepts every connection without a password.
type Options struct {
	// Password, if not "", is required (SCRAM) of the user postgres.
	Password string
}

// Server is a PostgreSQL server, running or not.
type Server struct {
	// Port it listens on, at 127.0.0.1.
	Port int

	options Options
	bin     string // directory of its programs
	dir     string // of ours, for everything
	as      *syscall.SysProcAttr
	logFile string

	mu        sync.Mutex
	command   *exec.Cmd
	ended     chan struct{} // closed when command has
	databases int
}

// startTimeout bounds how long the server may take to answer, the repair after a
// crash included.
const startTimeout = 2 * time.Minute

// Start starts a server without a password. It is ready when Start returns.
func Start(t testing.TB) *Server {
	t.Helper()
	return StartWith(t, Options{})
}

// StartWith starts a server, ends it with the test, and fails the test when that
// is not possible.
func StartWith(t testing.TB, options Options) *Server {
	t.Helper()
	bin, err := installed()
	if err != nil {
		t.Fatalf("PostgreSQL cannot be started: %v; test/setup/postgres.sh installs it", err)
	}
	s := &Server{options: options, bin: bin}
	if s.as, err = unprivileged(); err != nil {
		t.Fatal(err)
	}
	if s.dir, err = os.MkdirTemp("", "thv-postgres-"); err != nil {
		t.Fatal(err)
	}
	s.logFile = filepath.Join(s.dir, "log")
	t.Cleanup(guard(t, s.dir))
	if c := s.as.Credential; c != nil {
		if err := os.Chown(s.dir, int(c.Uid), int(c.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	if s.Port, err = local.FreePort(); err != nil {
		t.Fatal(err)
	}
	s.initialize(t)
	t.Cleanup(func() { s.Stop(t) })
	s.Restart(t)
	return s
}

// initialize makes the server's directory of data.
func (s *Server) initialize(t testing.TB) {
	t.Helper()
	args := []string{"-D", filepath.Join(s.dir, "data"), "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"}
	if s.options.Password == "" {
		args = append(args, "-A", "trust")
	} else {
		file := filepath.Join(s.dir, "password")
		if err := os.WriteFile(file, []byte(s.options.Password), 0o644); err != nil {
			t.Fatal(err)
		}
		args = append(args, "-A", "scram-sha-256", "--pwfile", file)
	}
	command := s.program("initdb", args...)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
}

// program is one of PostgreSQL's, run as its user, with none of the environment's
// PG* variables.
func (s *Server) program(name string, args ...string) *exec.Cmd {
	command := exec.Command(filepath.Join(s.bin, name), args...)
	command.Dir = s.dir
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "HOME=" + s.dir}
	command.SysProcAttr = s.as
	return command
}

// Restart starts the server, on the same port with the same data, after stopping
// it if it runs. It answers when Restart returns.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Stop(t)
	deadline := time.Now().Add(startTimeout)
	for {
		if err := s.start(); err != nil {
			t.Fatalf("start PostgreSQL: %v", err)
		}
		// It refuses to start while what is left of one that was killed still
		// ends: then again.
		for s.Running() {
			if err := s.ping(); err == nil {
				return
			} else if time.Now().After(deadline) {
				t.Fatalf("PostgreSQL does not answer within %s: %v\n%s", startTimeout, err, s.Log())
			}
			time.Sleep(20 * time.Millisecond)
		}
		if time.Now().After(deadline) {
			t.Fatalf("PostgreSQL does not start within %s\n%s", startTimeout, s.Log())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (s *Server) start() error {
	log, err := os.OpenFile(s.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	command := s.program("postgres", "-D", filepath.Join(s.dir, "data"), "-p", strconv.Itoa(s.Port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=")
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = command.Wait()
		close(ended)
	}()
	s.mu.Lock()
	s.command, s.ended = command, ended
	s.mu.Unlock()
	return nil
}

// Running reports whether the server's process runs.
func (s *Server) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.command == nil {
		return false
	}
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// Stop shuts the server down; it aborts what clients are doing.
func (s *Server) Stop(t testing.TB) { s.end(t, syscall.SIGINT) }

// Kill kills the server: it cannot finish or log anything.
func (s *Server) Kill(t testing.TB) { s.end(t, syscall.SIGKILL) }

func (s *Server) end(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if !s.Running() {
		return
	}
	if err := s.command.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("end PostgreSQL: %v", err)
	}
	select {
	case <-s.ended:
	case <-time.After(startTimeout):
		t.Errorf("PostgreSQL does not end within %s\n%s", startTimeout, s.Log())
		_ = s.command.Process.Kill()
	}
}

// URL is that of a database on this server, without a password.
func (s *Server) URL(database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.User("postgres"), Path: "/" + database,
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)), RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Database makes a new database and returns its URL.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	s.mu.Lock()
	s.databases++
	name := fmt.Sprintf("test%d", s.databases)
	s.mu.Unlock()
	s.Exec(t, "postgres", "CREATE DATABASE "+name)
	return s.URL(name)
}

// Exec runs statements in a database, as its superuser.
func (s *Server) Exec(t testing.TB, database string, statements ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	conn, err := s.connect(ctx, database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func (s *Server) connect(ctx context.Context, database string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(s.URL(database))
	if err != nil {
		return nil, err
	}
	config.Password = s.options.Password
	return pgx.ConnectConfig(ctx, config)
}

func (s *Server) ping() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := s.connect(ctx, "postgres")
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// Log is the end of the server's log, for messages of failing tests.
func (s *Server) Log() string {
	const end = 4 << 10
	f, err := os.Open(s.logFile)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > end {
		_, _ = f.Seek(-end, io.SeekEnd)
	}
	text, _ := io.ReadAll(f)
	return string(text)
}

// Password is what the server's own functions connect with from now on, after a
// test has changed it.
func (s *Server) Password(password string) { s.options.Password = password }
