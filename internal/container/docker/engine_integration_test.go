//go:build integration

package docker

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/moby/moby/client"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/container/enginetest"
)

// The engine is whatever answers here: Docker in CI; set THV_ENGINE to try
// another.
func connectHere(t *testing.T, env func(string) string) *Engine {
	t.Helper()
	e, err := Connect(t.Context(), env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func TestEngine(t *testing.T) { runSuite(t, os.Getenv) }

// TestPodman is the same suite over Podman's Docker-compatible socket.
func TestPodman(t *testing.T) {
	socket := os.Getenv("THV_TEST_PODMAN")
	if socket == "" {
		t.Skip("THV_TEST_PODMAN names no socket; `make test` starts a Podman and sets it (test/setup/podman.sh)")
	}
	env := func(name string) string {
		if name == "THV_ENGINE" {
			return "unix://" + socket
		}
		return os.Getenv(name)
	}
	if info, err := connectHere(t, env).Info(t.Context()); err != nil || info.Name != "Podman" {
		t.Fatalf("at %s answers %+v, %v", socket, info, err)
	}
	runSuite(t, env)
}

func runSuite(t *testing.T, env func(string) string) {
	t.Cleanup(func() { noNetworkIsLeft(t, env, enginetest.Network) })
	enginetest.Run(t, func(t *testing.T) container.Engine { return connectHere(t, env) })
}

// noNetworkIsLeft removes the network of a test, and complains about networks
// of containers that are gone.
func noNetworkIsLeft(t *testing.T, env func(string) string, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	e, err := Connect(ctx, env)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	left, err := e.api.NetworkList(ctx, client.NetworkListOptions{Filters: client.Filters{}.Add("label", labelNetwork+"=true")})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range left.Items {
		if n.Name != name && !strings.HasPrefix(n.Name, name+".") {
			continue
		}
		if n.Name != name {
			t.Errorf("the network %s of a container was left", n.Name)
		}
		if err := e.networks.remove(ctx, n.ID); err != nil {
			t.Error(err)
		}
	}
}

func TestProcessesThatRaceMakeOneNetwork(t *testing.T) {
	network := fmt.Sprintf("thv-enginetest-race-%d", os.Getpid())
	t.Cleanup(func() { noNetworkIsLeft(t, os.Getenv, network) })
	for round := range 3 {
		var wait sync.WaitGroup
		for range 4 {
			e := connectHere(t, os.Getenv)
			wait.Go(func() {
				if err := e.EnsureNetwork(t.Context(), network); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		e := connectHere(t, os.Getenv)
		left, err := e.networks.named(t.Context(), network)
		if err != nil || len(left) != 1 {
			t.Fatalf("round %d: %d networks, %v", round, len(left), err)
		}
		if err := e.networks.remove(t.Context(), left[0].ID); err != nil {
			t.Fatal(err)
		}
	}
}

func TestProbeNamesTheEngine(t *testing.T) {
	for _, a := range Probe(t.Context(), os.Getenv) {
		if a.Err == nil && a.Info.Version != "" && a.Info.Socket == a.Address {
			return
		}
	}
	t.Error("no engine reported its name")
}

// A registry that requires a password serves the image after a login.
func TestPullFromAPrivateRegistry(t *testing.T) {
	open := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "jo" || password != "pass:word" {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`)
			return
		}
		open.ServeHTTP(w, r)
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	ref := host + "/private/image:1"
	tag, err := name.NewTag(ref, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	image, err := random.Image(1000, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, image, remote.WithAuth(&authn.Basic{Username: "jo", Password: "pass:word"})); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	env := func(k string) string {
		if k == "DOCKER_CONFIG" {
			return dir
		}
		return os.Getenv(k)
	}
	e := connectHere(t, env)
	t.Cleanup(func() {
		if err := e.RemoveImage(context.Background(), ref); err != nil {
			t.Error(err)
		}
	})
	err = e.Pull(t.Context(), ref, nil)
	if err == nil || errors.Is(err, container.ErrUnavailable) || !strings.Contains(err.Error(), "docker login "+host) {
		t.Errorf("without a login: %v", err)
	}
	auth := base64.StdEncoding.EncodeToString([]byte("jo:pass:word"))
	write(t, filepath.Join(dir, "config.json"), `{"auths":{"`+host+`":{"auth":"`+auth+`"}}}`)
	if err := e.Pull(t.Context(), ref, nil); err != nil {
		t.Errorf("with a login: %v", err)
	}
	// As `docker login` stores it where a credential helper is configured.
	if err := e.RemoveImage(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	helper(t, "thvtest", `read server; [ "$1" = get ] && [ "$server" = `+host+` ] && echo '{"Username":"jo","Secret":"pass:word"}'`)
	write(t, filepath.Join(dir, "config.json"), `{"credsStore":"thvtest"}`)
	if err := e.Pull(t.Context(), ref, nil); err != nil {
		t.Errorf("with a credential helper: %v", err)
	}
}
