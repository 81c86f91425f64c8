package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	digestA = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	digestB = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

func TestDigestFor(t *testing.T) {
	for _, row := range []struct {
		name, ref string
		digests   []string
		want      string
	}{
		{"an image that was made here", "demo:1", nil, ""},
		{"Docker shortens names of Docker Hub", "busybox:1", []string{"busybox@" + digestA}, digestA},
		{"Podman does not", "busybox:1", []string{"docker.io/library/busybox@" + digestA}, digestA},
		{"another repository has the same image", "a.test/x:1", []string{"b.test/x@" + digestB, "a.test/x@" + digestA}, digestA},
		{"only another repository has it", "a.test/x:1", []string{"b.test/x@" + digestB}, ""},
		{"a reference with a digest", "a.test/x@" + digestB, nil, digestB},
		{"no reference", "UPPER:1", []string{"UPPER@" + digestA}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := DigestFor(row.ref, row.digests); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func TestPinned(t *testing.T) {
	for _, row := range []struct{ image, digest, want string }{
		{"busybox:1", digestA, "busybox@" + digestA},
		{"127.0.0.1:5000/x:1", digestA, "127.0.0.1:5000/x@" + digestA},
		{"a.test/x@" + digestA, digestA, "a.test/x@" + digestA},
		{"demo:1", "", ""},
	} {
		if got := (&Resolved{Image: row.image, Digest: row.digest}).Pinned(); got != row.want {
			t.Errorf("%s: got %q, want %q", row.image, got, row.want)
		}
	}
}

func TestRollingBackTwiceIsWhereItBegan(t *testing.T) {
	s := &Spec{
		Image: "thv.local/npx/a:2", Package: &Package{Scheme: "npx", Name: "a", Version: "2"},
		Resolved: &Resolved{Image: "thv.local/npx/a:2", ImageID: "id2", Version: "2"},
		Previous: &Resolved{Image: "thv.local/npx/a:1", ImageID: "id1", Version: "1"},
	}
	before := *s
	if !s.RollBack() || s.Image != "thv.local/npx/a:1" || s.Package.Version != "1" || s.Resolved.ImageID != "id1" || s.Previous.ImageID != "id2" {
		t.Fatalf("%+v", s)
	}
	if before.Package.Version != "2" {
		t.Error("a copy of the Spec changed")
	}
	if !s.RollBack() {
		t.Fatal("nothing to go back to")
	}
	if diff := cmp.Diff(&before, s); diff != "" {
		t.Error(diff)
	}
	if (&Spec{Image: "x"}).RollBack() {
		t.Error("went back to nothing")
	}
	if out := s.Portable(); out.Resolved != nil || out.Previous != nil || s.Resolved == nil {
		t.Errorf("%+v", out)
	}
}
