package owner

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/guest"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/workload"
)

func TestTheNetworkOfAContainerIsShut(t *testing.T) {
	config := func(c container.Config) container.Config { c.Args = []string{"other"}; return c }
	for _, row := range []struct {
		what  string
		cfg   container.Config
		image container.Image
		want  *guest.SetUp
	}{
		{"an image of root's", container.Config{Network: "thv"}, container.Image{}, &guest.SetUp{}},
		{"an image with a user", container.Config{Network: "thv"}, container.Image{User: "node:node"}, &guest.SetUp{User: "node:node"}},
		{"a user other than the image's", container.Config{Network: "thv", User: "1:2"}, container.Image{User: "node:node"}, &guest.SetUp{User: "1:2"}},
		{"a network that the person names", container.Config{Network: "lan"}, container.Image{}, &guest.SetUp{}},
		{"ports that the person publishes", container.Config{Network: "thv", Publish: []container.Port{{HostPort: 1, ContainerPort: 80}, {ContainerPort: 65535}}}, container.Image{}, &guest.SetUp{Open: []uint16{80, 65535}}},
		{"a home that the image sets", container.Config{Network: "thv"}, container.Image{Env: []string{"PATH=/bin", "HOME=/x"}}, &guest.SetUp{Home: true}},
		{"a home that the person sets", container.Config{Network: "thv", Env: []string{"HOME="}}, container.Image{}, &guest.SetUp{Home: true}},
		{"no home, but a word like it", container.Config{Network: "thv", Env: []string{"HOMEPAGE=x"}}, container.Image{}, &guest.SetUp{}},
		{"no network", container.Config{Network: "none"}, container.Image{User: "node"}, nil},
		{"no network, and a user who may have no name", container.Config{Network: "none", User: "1:2"}, container.Image{User: "node"}, &guest.SetUp{User: "1:2", Alone: true}},
		{"the host's network", container.Config{Network: "host"}, container.Image{}, nil},
		{"a container that could open it again", container.Config{Network: "thv", Privileged: true}, container.Image{}, nil},
	} {
		cfg := shut(config(row.cfg), row.image)
		got, rest, err := guest.ParseSetUp(cfg.Args)
		if err != nil {
			t.Errorf("%s: %v", row.what, err)
		}
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.what, diff)
		}
		if cfg.SetUp != (row.want != nil) || len(rest) != 1 || rest[0] != "other" {
			t.Errorf("%s: %+v", row.what, cfg)
		}
	}
}

// Where a network cannot be isolated there is no server: no case gets a container without.
func TestTheNetworkOfAnIsolatedContainer(t *testing.T) {
	for _, network := range []string{"none", "thv"} {
		cfg := setUp(container.Config{Network: network, Publish: []container.Port{{ContainerPort: 80}}}, container.Image{User: "node"}, true)
		got, _, err := guest.ParseSetUp(cfg.Args)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&guest.SetUp{Isolate: true, User: "node", Open: []uint16{80}}, got); diff != "" || !cfg.SetUp {
			t.Errorf("%s (-want +got):\n%s", network, diff)
		}
	}
	engine := &setUpRefused{}
	s := &instance{spec: &workload.Spec{Container: workload.Container{IsolateNetwork: true}}, engine: engine, store: manager.OpenStore(t.TempDir(), t.TempDir()), log: slog.New(slog.DiscardHandler)}
	if _, _, err := s.create(t.Context(), container.Config{Network: "none"}, container.Image{}, nil); err == nil || engine.without > 0 {
		t.Errorf("%v, and %d containers without", err, engine.without)
	}
}

// setUpRefused is an engine that refuses to give away what setting up takes.
type setUpRefused struct {
	container.Engine
	without int
}

func (e *setUpRefused) Create(_ context.Context, c container.Config) (string, error) {
	if c.SetUp {
		return "", errors.New("refused")
	}
	e.without++
	return "id", nil
}

// inspected is an engine that reports one property of a container: its address.
type inspected struct {
	container.Engine
	ip  string
	err error
}

func (e inspected) Inspect(context.Context, string) (container.Container, error) {
	return container.Container{IP: e.ip}, e.err
}

// Where the network could not be shut, that is detected and reported.
func TestAServerThatIsReachedPastTheGatewayIsFound(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	for _, row := range []struct {
		what      string
		engine    inspected
		transport workload.Transport
		port      int
		want      string
	}{
		{"it listens there", inspected{ip: "127.0.0.1"}, workload.StreamableHTTP, port, l.Addr().String()},
		{"it does not", inspected{ip: "127.0.0.1"}, workload.StreamableHTTP, freePort(t), ""},
		{"it has no address", inspected{}, workload.StreamableHTTP, port, ""},
		{"it is gone", inspected{ip: "127.0.0.1", err: errors.New("gone")}, workload.StreamableHTTP, port, ""},
		{"it serves no port", inspected{ip: "127.0.0.1"}, workload.Stdio, 0, ""},
	} {
		s := &instance{spec: &workload.Spec{Transport: row.transport, TargetPort: row.port}, engine: row.engine}
		if got := s.exposed(t.Context()); got != row.want {
			t.Errorf("%s: %q, want %q", row.what, got, row.want)
		}
	}
	if got := (*instance)(nil).exposed(t.Context()); got != "" {
		t.Errorf("a remote server: %q", got)
	}
}
