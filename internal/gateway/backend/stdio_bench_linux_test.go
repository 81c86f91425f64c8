package backend

import (
	"context"
	"testing"

	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/stdio"
	"github.com/toolhaven/toolhaven/internal/guest"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// What a call costs through the line into a container, without the container's
// own part of it.
func BenchmarkStdioCall(b *testing.B) {
	file := program(b, "github.com/modelcontextprotocol/go-sdk/examples/server/everything")
	s := newSite(b)
	backend := NewStdio(stdio.Config{Spawn: func(ctx context.Context) (guest.Process, error) {
		return s.line.Spawn(ctx, []string{file})
	}})
	defer backend.Close()
	conn, err := backend.Open(b.Context(), plain(), quiet{})
	if err != nil {
		b.Fatal(err)
	}
	x := backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "greet", `{"name":"you"}`), quiet{})
	for b.Loop() {
		if got := backendtest.Text(conn.Do(b.Context(), x)); got != "Hi you" {
			b.Fatal(got)
		}
	}
}

// What a call costs in the stateless era, from one client and from many.
func BenchmarkModernStdioCall(b *testing.B) {
	s := newSite(b)
	file := program(b, "github.com/modelcontextprotocol/go-sdk/examples/server/everything")
	backend := NewStdio(stdio.Config{Spawn: func(ctx context.Context) (guest.Process, error) {
		return s.line.Spawn(ctx, []string{file})
	}}).(*bridge)
	defer backend.Close()
	x := modernExchange(backendtest.Call(mcp.IntID(1), "greet", `{"name":"you"}`), quiet{})
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			if got := backendtest.Text(backend.stateless.Do(b.Context(), x)); got != "Hi you" {
				b.Fatal(got)
			}
		}
	})
	b.Run("many", func(b *testing.B) {
		b.SetParallelism(16)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if got := backendtest.Text(backend.stateless.Do(b.Context(), x)); got != "Hi you" {
					b.Error(got)
					return
				}
			}
		})
	})
}
