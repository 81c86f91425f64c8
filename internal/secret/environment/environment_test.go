package environment

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/secret"
)

func TestProvider(t *testing.T) {
	t.Parallel()
	p := New(func() []string {
		return []string{"THV_SECRET_github=a=b", "THV_SECRET_EMPTY=", "THV_SECRET_a/b=x", "THV_SECRETS_PASSWORD=x", "PATH=/bin", "THV_SECRET_A-1=x", "THV_SECRET_team__key=y"}
	})
	names, err := p.List(t.Context())
	if diff := cmp.Diff([]string{"A-1", "github", "team__key"}, names); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if got, err := p.Get(t.Context(), "github"); got != "a=b" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := p.Get(t.Context(), "team/key"); got != "y" || err != nil { // NAME/KEY
		t.Errorf("%q, %v", got, err)
	}
	for _, name := range []string{"other", "EMPTY", "a/b"} {
		if _, err := p.Get(t.Context(), name); !errors.Is(err, secret.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := errors.Join(p.Set(t.Context(), "a", "b"), p.Delete(t.Context(), "a")); !errors.Is(err, secret.ErrReadOnly) {
		t.Error(err)
	}
}
