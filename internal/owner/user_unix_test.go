//go:build unix

package owner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// described is an engine with this description.
type described struct {
	container.Engine
	rootless bool
	err      error
}

func (e described) Info(context.Context) (container.Info, error) {
	return container.Info{Rootless: e.rootless}, e.err
}

// Whoever gives a folder of theirs gives it to a server that can use it.
func TestAServerThatIsGivenAFolderIsItsOwner(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("engines are elsewhere in a machine of their own")
	}
	dir, me := t.TempDir(), fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())
	if os.Getuid() == 0 { // root gives any user's
		if me = "1234:5678"; os.Chown(dir, 1234, 5678) != nil {
			t.Skip("this root may not give files away")
		}
	}
	anybody := container.Image{User: "10001:10001", Labels: map[string]string{container.LabelUser: container.AnyUser}}
	given := []workload.Mount{{Host: dir, Container: "/files"}, {Host: "/", Container: "/all", ReadOnly: true}}
	down := errors.New("the engine is away")
	for _, row := range []struct {
		what   string
		engine described
		image  container.Image
		with   workload.Container
		want   string
		err    error
	}{
		{"a folder", described{}, anybody, workload.Container{Mounts: given}, me, nil},
		{"a folder, under an engine that the person runs", described{rootless: true}, anybody, workload.Container{Mounts: given}, "0:0", nil},
		{"no folder", described{err: down}, anybody, workload.Container{}, "", nil},
		{"an image that needs its user", described{}, container.Image{User: "node"}, workload.Container{Mounts: given}, "", nil},
		{"a privileged container", described{}, anybody, workload.Container{Mounts: given, Permissions: workload.Permissions{Privileged: true}}, "", nil},
		{"an engine that does not answer", described{err: down}, anybody, workload.Container{Mounts: given}, "", down},
	} {
		s := &instance{spec: &workload.Spec{Container: row.with}, engine: row.engine}
		if got, err := s.user(t.Context(), row.image); got != row.want || !errors.Is(err, row.err) {
			t.Errorf("%s: run by %q, want %q (%v)", row.what, got, row.want, err)
		}
	}
}

func TestTheUserOfAServerHasAName(t *testing.T) {
	env := []string{"A=b", "USER=me"}
	got := runAs(container.Config{Env: slices.Clone(env)}, "1:2")
	if diff := cmp.Diff(container.Config{User: "1:2", Env: append(env, "LOGNAME=app")}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(container.Config{Env: env}, runAs(container.Config{Env: env}, "")); diff != "" {
		t.Errorf("the image's user (-want +got):\n%s", diff)
	}
}
