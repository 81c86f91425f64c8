package providers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/secret"
	"github.com/toolhaven/toolhaven/internal/secret/local"
)

func openTest(t *testing.T, dir string, handed *Handover) *Secrets {
	t.Helper()
	s, err := Open(Config{
		Dir: dir, Env: func(string) string { return "" }, Environ: func() []string { return []string{"THV_SECRET_env=e"} }, Handed: handed,
		Password: func(_ context.Context, q local.Question) (string, error) {
			if q.Wrong > 0 || handed != nil {
				return "", errors.New("no password")
			}
			return "right", nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// shared is a provider in memory, as Vault is.
type shared map[string]string

func (s shared) About() secret.About { return secret.About{Name: "vault", Writes: true, Lists: true} }
func (s shared) Get(_ context.Context, name string) (string, error) {
	if v, ok := s[name]; ok {
		return v, nil
	}
	return "", fmt.Errorf("%w: %q", secret.ErrNotFound, name)
}
func (s shared) Set(_ context.Context, name, value string) error {
	if name == "full" {
		return errors.New("the disk is full")
	}
	s[name] = value
	return nil
}
func (s shared) Delete(_ context.Context, name string) error { delete(s, name); return nil }
func (s shared) List(context.Context) ([]string, error)      { return slices.Sorted(maps.Keys(s)), nil }

// The owner of a workload resolves what was handed over, and nothing else.
func TestHandover(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openTest(t, dir, nil)
	if _, err := s.Change(t.Context(), Choice{Provider: "encrypted"}); err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{"user/github": "hunter2", "user/other": "x", "workload/w/KEY": "k"} {
		if err := s.Store().Set(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	h, err := s.Handover(t.Context(), []string{"secret/github", "workload/w/KEY"})
	if err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var received Handover
	if err := json.Unmarshal(line, &received); err != nil {
		t.Fatal(err)
	}
	owner := openTest(t, dir, &received)
	for ref, want := range map[string]string{"secret/github": "hunter2", "workload/w/KEY": "k"} {
		if got, err := owner.Resolve(t.Context(), ref); got != want || err != nil {
			t.Errorf("%s: %q, %v", ref, got, err)
		}
	}
	if _, err := owner.Resolve(t.Context(), "secret/other"); !errors.Is(err, secret.ErrNotFound) {
		t.Errorf("what was not handed over: %v", err)
	}
	if err := owner.Store().Set(t.Context(), "oauth/0a", "refreshed"); err != nil {
		t.Error(err)
	}
	// Without references the store stays locked.
	if h, err := openTest(t, dir, nil).Handover(t.Context(), nil); err != nil || h.Key != nil || h.Values != nil {
		t.Errorf("%+v, %v", h, err)
	}
	if _, err := openTest(t, dir, &Handover{}).Resolve(t.Context(), "workload/w/KEY"); !errors.Is(err, secret.ErrLocked) {
		t.Errorf("without the key: %v", err)
	}
	if _, err := s.Handover(t.Context(), []string{"secret/githob"}); !errors.Is(err, secret.ErrNotFound) || !strings.Contains(err.Error(), `did you mean "github"?`) {
		t.Error(err)
	}
	if _, err := s.Handover(t.Context(), []string{"secret/completely-new"}); err == nil || !strings.Contains(err.Error(), "store it with `thv secret set completely-new`") {
		t.Error(err)
	}
}

func TestToMove(t *testing.T) {
	t.Parallel()
	s := openTest(t, t.TempDir(), nil)
	user := local.User{Store: s.Store()}
	for name, value := range map[string]string{"a": "1", "b": "2"} {
		if err := user.Set(t.Context(), name, value); err != nil {
			t.Fatal(err)
		}
	}
	values, kept, err := s.toMove(t.Context(), shared{"b": "2", "c": "3"})
	if diff := cmp.Diff(map[string]string{"a": "1", "b": "2"}, values); diff != "" || len(kept) > 0 || err != nil {
		t.Errorf("%v %v %s", err, kept, diff)
	}
	if _, _, err := s.toMove(t.Context(), shared{"b": "other"}); err == nil || !strings.Contains(err.Error(), "different values of b; nothing was changed") {
		t.Error(err)
	}
	// From Vault: its longer paths, and those without a value, stay.
	s.provider = shared{"a": "9", "team/app/db": "x"}
	values, kept, err = s.toMove(t.Context(), shared{})
	if diff := cmp.Diff(map[string]string{"a": "9"}, values); diff != "" || !slices.Equal(kept, []string{"team/app/db"}) || err != nil {
		t.Errorf("%v %v %s", err, kept, diff)
	}
}

func TestMove(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openTest(t, dir, nil)
	user := local.User{Store: s.Store()}
	values := map[string]string{"a": "1", "full": "2"}
	for name, value := range values {
		if err := user.Set(t.Context(), name, value); err != nil {
			t.Fatal(err)
		}
	}
	target := shared{}
	if _, err := move(t.Context(), target, values); err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Fatal(err)
	}
	// Nothing was deleted.
	names, err := user.List(t.Context())
	if diff := cmp.Diff([]string{"a", "full"}, names); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if copied, err := move(t.Context(), shared{}, map[string]string{"a": "1"}); err != nil || !slices.Equal(copied, []string{"a"}) {
		t.Errorf("%v, %v", copied, err)
	}
}

func TestOpen_BadChoice(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"", "{", `{"version":2}`, `{"version":1,"provide":"x"}`} {
		dir := t.TempDir()
		if err := os.WriteFile(dir+"/provider", []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(Config{Dir: dir, Env: os.Getenv}); err == nil || !strings.Contains(err.Error(), dir+"/provider is damaged") {
			t.Errorf("%q: %v", content, err)
		}
	}
}
