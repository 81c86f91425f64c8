package cli

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheTimeAPersonTakesDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := errors.New("late")
		ctx, p, cancel := withPatience(t.Context(), time.Minute, late)
		defer cancel()
		time.Sleep(40 * time.Second)
		p.pause()
		time.Sleep(time.Hour)
		p.resume()
		time.Sleep(19 * time.Second)
		synctest.Wait()
		if ctx.Err() != nil {
			t.Fatal("it ended before a minute of waiting")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if !errors.Is(context.Cause(ctx), late) {
			t.Errorf("after a minute of waiting: %v", context.Cause(ctx))
		}
	})
}
