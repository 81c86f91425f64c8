package program

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// generated reports whether `go generate` has run; the tests cover both cases.
func generated(t *testing.T) bool {
	t.Helper()
	names, err := fs.Glob(built, "bin/*.gz")
	if err != nil {
		t.Fatal(err)
	}
	return len(names) > 0
}

func TestFor(t *testing.T) {
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		t.Run(arch, func(t *testing.T) {
			got, err := For(arch)
			if !generated(t) {
				if err == nil || !strings.Contains(err.Error(), "make build") {
					t.Errorf("nothing was generated and the error is %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(got) > 4<<20 {
				t.Errorf("the guest is %d bytes, more than 4 MB", len(got))
			}
			f, err := elf.NewFile(bytes.NewReader(got))
			if err != nil {
				t.Fatal(err)
			}
			if f.Machine != machine {
				t.Errorf("it is a program for %s", f.Machine)
			}
			for _, p := range f.Progs {
				if p.Type == elf.PT_INTERP {
					t.Error("it needs a loader, which an image may not have")
				}
			}
		})
	}
}

func TestFor_UnknownArchitecture(t *testing.T) {
	for _, arch := range []string{"riscv64", "", "../amd64", "amd64.gz/x"} {
		_, err := For(arch)
		if err == nil {
			t.Fatalf("there is a guest for %q", arch)
		}
		if generated(t) && !strings.Contains(err.Error(), "amd64 and arm64") {
			t.Errorf("%q: the error does not list the architectures: %v", arch, err)
		}
	}
}

func TestTar(t *testing.T) {
	r, err := Tar("amd64")
	if !generated(t) {
		if err == nil {
			t.Error("nothing was generated, and there is a tar")
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	type entry struct {
		Name     string
		Mode     int64
		UID, GID int
	}
	var got []entry
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, entry{h.Name, h.Mode, h.Uid, h.Gid})
		if h.Typeflag == tar.TypeReg {
			file, _ := io.ReadAll(tr)
			want, _ := For("amd64")
			if !bytes.Equal(file, want) {
				t.Error("the file is not the guest")
			}
		}
	}
	want := []entry{{Name: ".thv/", Mode: 0o755}, {Name: ".thv/guest", Mode: 0o755}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
