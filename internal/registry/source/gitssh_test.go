package source

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/toolhaven/toolhaven/internal/registry/config"
)

func newKey(t *testing.T) (ed25519.PrivateKey, ssh.Signer) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return key, signer
}

// sshServer runs the requested command if it is git-upload-pack, as sshd does.
func sshServer(t *testing.T, host ssh.Signer, cfg *ssh.ServerConfig) string {
	t.Helper()
	cfg.AddHostKey(host)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() {
		listener.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { serveSSH(conn, cfg) })
		}
	})
	return listener.Addr().String()
}

func serveSSH(conn net.Conn, cfg *ssh.ServerConfig) {
	defer conn.Close()
	_, channels, requests, err := ssh.NewServerConn(conn, cfg)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for c := range channels {
		channel, requests, err := c.Accept()
		if err != nil {
			return
		}
		for r := range requests {
			if r.Type != "exec" {
				continue
			}
			var line struct{ Command string }
			if err := ssh.Unmarshal(r.Payload, &line); err != nil || !strings.HasPrefix(line.Command, "git-upload-pack '") {
				_ = r.Reply(false, nil)
				continue
			}
			_ = r.Reply(true, nil)
			cmd := exec.Command("sh", "-c", line.Command)
			in, _ := cmd.StdinPipe()
			cmd.Stdout, cmd.Stderr = channel, channel.Stderr()
			go func() {
				_, _ = io.Copy(in, channel)
				in.Close()
			}()
			_ = cmd.Run()
			_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{0}))
			channel.Close()
		}
	}
}

func TestGit_SSH(t *testing.T) {
	repo := newGitRepo(t)
	first := repo.commit("registry.json", registryFile(server("io.example/first", "1.0.0", "x")))
	repo.commit("registry.json", registryFile(server("io.example/second", "1.0.0", "x")))
	_, host := newKey(t)
	key, signer := newKey(t)
	address := sshServer(t, host, &ssh.ServerConfig{
		PasswordCallback: func(c ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
			if c.User() == "bot" && string(password) == "s3cret" {
				return nil, nil
			}
			return nil, errors.New("no")
		},
		PublicKeyCallback: func(c ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
			if (c.User() == "bot" || c.User() == "git") && string(k.Marshal()) == string(signer.PublicKey().Marshal()) {
				return nil, nil
			}
			return nil, errors.New("no")
		},
	})
	dir := t.TempDir()
	known := filepath.Join(dir, "known_hosts")
	writeFile(t, known, knownhosts.Line([]string{address}, host.PublicKey())+"\n")
	t.Setenv("SSH_KNOWN_HOSTS", known)
	t.Setenv("SSH_AUTH_SOCK", "")
	password, private, wrong := filepath.Join(dir, "password"), filepath.Join(dir, "key"), filepath.Join(dir, "wrong")
	writeFile(t, password, "s3cret\n")
	writeFile(t, wrong, "other-s3cret\n")
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, private, string(pem.EncodeToMemory(block)))
	at := func(change func(*config.Git)) config.Source {
		g := &config.Git{Repository: "ssh://" + address + repo.dir, AllowPrivateIP: true, Username: "bot", PasswordFile: password}
		change(g)
		return config.Source{Git: g}
	}
	for _, row := range []struct {
		name string
		cfg  config.Source
		want string
	}{
		{"with a password", at(func(*config.Git) {}), "io.example/second@1.0.0"},
		{"with a private key", at(func(g *config.Git) { g.PasswordFile = private }), "io.example/second@1.0.0"},
		{"at a commit", at(func(g *config.Git) { g.Commit = first }), "io.example/first@1.0.0"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := fetch(t, row.cfg, "")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{row.want}, entryNames(got)); diff != "" {
				t.Error(diff)
			}
			if again, err := fetch(t, row.cfg, got.Digest); err != nil || !again.Unchanged {
				t.Errorf("fetched again: %+v, %v", again, err)
			}
		})
	}
	for _, row := range []struct {
		name string
		cfg  config.Source
		want string
	}{
		{"a wrong password", at(func(g *config.Git) { g.PasswordFile = wrong }), "unable to authenticate"},
		{"no credential", at(func(g *config.Git) { g.Username, g.PasswordFile = "", "" }), "no way to authenticate"},
		{"no repository", at(func(g *config.Git) { g.Repository = "ssh://" + address + "/no'where" }), "no git repository"},
		{"a private address", at(func(g *config.Git) { g.AllowPrivateIP = false }), "not a public one"},
		{"no such branch", at(func(g *config.Git) { g.Branch = "nope" }), `no branch "nope"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := fetch(t, row.cfg, "")
			if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v, want %q in it", err, row.want)
			}
		})
	}
	t.Run("with an agent", func(t *testing.T) {
		socket := filepath.Join(t.TempDir(), "agent")
		listener, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		ring := agent.NewKeyring()
		if err := ring.Add(agent.AddedKey{PrivateKey: key}); err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				_ = agent.ServeAgent(ring, conn)
				conn.Close()
			}
		}()
		t.Setenv("SSH_AUTH_SOCK", socket)
		got, err := fetch(t, at(func(g *config.Git) { g.Username, g.PasswordFile = "", "" }), "")
		if err != nil || len(got.Entries) != 1 {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("the guard makes the connection", func(t *testing.T) {
		src, err := Open(at(func(g *config.Git) { g.AllowPrivateIP = false }), Access{
			Dial: func(_ context.Context, allowPrivate bool, _, to string) (net.Conn, error) {
				return nil, fmt.Errorf("asked for %s, %v", to, allowPrivate)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := src.Fetch(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "asked for "+address+", false") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("another host key is refused", func(t *testing.T) {
		_, other := newKey(t)
		writeFile(t, known, knownhosts.Line([]string{address}, other.PublicKey())+"\n")
		if _, err := fetch(t, at(func(*config.Git) {}), ""); err == nil || !strings.Contains(err.Error(), "key") {
			t.Errorf("got %v", err)
		}
		if err := os.Remove(known); err != nil {
			t.Fatal(err)
		}
		t.Setenv("HOME", t.TempDir())
		if _, err := fetch(t, at(func(*config.Git) {}), ""); err == nil || !strings.Contains(err.Error(), "known hosts") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a silent server times out", func(t *testing.T) {
		silent, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		writeFile(t, known, knownhosts.Line([]string{silent.Addr().String()}, host.PublicKey())+"\n")
		src, err := Open(at(func(g *config.Git) { g.Repository = "ssh://" + silent.Addr().String() + "/r" }), Access{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			conn, err := silent.Accept()
			if err == nil {
				defer conn.Close()
			}
			cancel()
		}()
		if _, err := src.Fetch(ctx, ""); err == nil {
			t.Error("it was taken for an answer")
		}
	})
}
