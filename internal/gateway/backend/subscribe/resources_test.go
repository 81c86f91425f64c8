package subscribe

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The server receives a request for the first subscription to a resource and for the last. A
// request that fails changes no count.
func TestResources(t *testing.T) {
	t.Parallel()
	r := NewResources()
	refused := errors.New("refused")
	var sent []string
	add := func(uri string, fail error) error {
		return r.Add(t.Context(), uri, func(first bool) error {
			if first {
				sent = append(sent, "+"+uri)
			}
			return fail
		})
	}
	remove := func(uri string, fail error) error {
		return r.Remove(t.Context(), uri, func() error {
			sent = append(sent, "-"+uri)
			return fail
		})
	}
	steps := []struct {
		name string
		err  error
		want error
	}{
		{"the first is refused", add("a", refused), refused},
		{"the first", add("a", nil), nil},
		{"the second", add("a", nil), nil},
		{"the third is refused", add("a", refused), refused},
		{"another resource", add("b", nil), nil},
		{"not the last", remove("a", refused), nil},
		{"the last is refused", remove("a", refused), refused},
		{"the last", remove("a", nil), nil},
		{"the first again", add("a", nil), nil},
		{"the other resource", remove("b", nil), nil},
	}
	for _, step := range steps {
		if !errors.Is(step.err, step.want) {
			t.Errorf("%s: %v, want %v", step.name, step.err, step.want)
		}
	}
	if diff := cmp.Diff([]string{"+a", "+a", "+b", "-a", "-a", "+a", "-b"}, sent); diff != "" {
		t.Error(diff)
	}
}

// A change waits for the one before it, until its context ends.
func TestResources_OneChangeAtATime(t *testing.T) {
	t.Parallel()
	r := NewResources()
	ctx, cancel := context.WithCancelCause(t.Context())
	err := r.Add(t.Context(), "a", func(bool) error {
		cause := errors.New("the client left")
		cancel(cause)
		if err := r.Add(ctx, "b", func(bool) error { return nil }); !errors.Is(err, cause) {
			t.Errorf("a change beside another: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
