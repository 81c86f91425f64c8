package taskgroup

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestGroup_Close(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g Group
		var ended atomic.Int64
		for range 3 {
			if !g.Go(func() {
				time.Sleep(time.Second)
				ended.Add(1)
			}) {
				t.Error("Go returned false before Stop")
			}
		}
		if !g.Enter() || g.Len() != 4 {
			t.Errorf("%d members, want 4", g.Len())
		}
		time.AfterFunc(2*time.Second, g.Leave)
		g.Close()
		if ended.Load() != 3 || g.Len() != 0 {
			t.Errorf("Close returned after %d of 3 goroutines, with %d members", ended.Load(), g.Len())
		}
		if g.Go(func() { t.Error("it ran") }) || g.Enter() || g.Stop() {
			t.Error("a member was added after Close")
		}
	})
}

func TestGroup_Wait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g Group
		if n := g.Wait(t.Context()); n != 0 {
			t.Errorf("an empty group has %d members", n)
		}
		g.Enter()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if n := g.Wait(ctx); n != 1 {
			t.Errorf("Wait returned %d, want 1", n)
		}
		if !g.Stop() || g.Stop() {
			t.Error("only the first Stop returns true")
		}
		time.AfterFunc(time.Second, g.Leave)
		if n := g.Wait(t.Context()); n != 0 {
			t.Errorf("Wait returned %d, want 0", n)
		}
	})
}
