//go:build integration

package owner

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/container/docker"
)

// powerless grants a container's entry point nothing, as an engine may that does not permit
// CAP_NET_ADMIN.
type powerless struct{ container.Engine }

func (p powerless) Create(ctx context.Context, c container.Config) (string, error) {
	c.SetUp, c.User = false, "0:0"
	return p.Engine.Create(ctx, c)
}

func TestTryIsolation(t *testing.T) {
	engine, err := docker.Connect(t.Context(), os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	if err := TryIsolation(t.Context(), engine); err != nil {
		t.Errorf("this engine: %v", err)
	}
	if err := TryIsolation(t.Context(), powerless{engine}); err == nil || !strings.Contains(err.Error(), "not permitted") {
		t.Errorf("an engine that grants nothing: %v", err)
	}
	left, err := engine.List(t.Context(), map[string]string{labelTry: "yes"})
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %+v, %v", left, err)
	}
}
