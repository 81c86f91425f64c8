//go:build integration

package docker

import (
	"os"
	"testing"

	"github.com/toolhaven/toolhaven/internal/container/enginetest"
)

// The engine is whatever answers here: Docker in CI; set THV_ENGINE to try
// another, such as Podman's socket.
func TestEngine(t *testing.T) {
	engine, err := Connect(t.Context(), os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	enginetest.Run(t, engine)
}
