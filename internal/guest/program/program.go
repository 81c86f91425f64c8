// Package program embeds the guest's program, built for the architectures that
// containers run on, in thv itself: nothing has to be downloaded, and guest and thv
// always have the same version.
//
// The programs in bin are made by `go generate` (`make build` does it) and are
// not committed.
package program

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/guest"
)

//go:generate go run generate.go

// built holds bin; before `go generate` it has a README.md only.
//
//go:embed bin
var built embed.FS

// maxProgram bounds the unpacked program, in bytes. It is below 4 MB.
const maxProgram = 64 << 20

// For returns the guest's program for linux/arch, arch in GOARCH form.
func For(arch string) ([]byte, error) {
	packed, err := fs.ReadFile(built, "bin/thv-guest-linux-"+arch+".gz")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, missing(arch)
	}
	if err != nil {
		return nil, err
	}
	zr, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpack the container guest for %s: %w", arch, err)
	}
	program, err := io.ReadAll(io.LimitReader(zr, maxProgram))
	if err != nil {
		return nil, fmt.Errorf("unpack the container guest for %s: %w", arch, err)
	}
	return program, nil
}

// missing is the error for an architecture without a program: either nothing was
// generated, or there is none for it.
func missing(arch string) error {
	names, err := fs.Glob(built, "bin/*.gz")
	if err != nil || len(names) == 0 {
		return errors.New("this thv was built without its container guest; build it with `make build`")
	}
	for i, name := range names {
		name = strings.TrimSuffix(path.Base(name), ".gz")
		names[i] = strings.TrimPrefix(name, "thv-guest-linux-")
	}
	return fmt.Errorf("the image is for linux/%s, and this thv has a container guest only for %s", arch, strings.Join(names, " and "))
}

// Tar returns the guest's program as a tar stream to unpack at the root of a container:
// at [guest.Path], owned by root.
func Tar(arch string) (io.Reader, error) {
	program, err := For(arch)
	if err != nil {
		return nil, err
	}
	file := strings.TrimPrefix(guest.Path, "/")
	var buf bytes.Buffer
	buf.Grow(len(program) + 4096)
	tw := tar.NewWriter(&buf)
	epoch := time.Unix(0, 0)
	headers := []*tar.Header{
		{Typeflag: tar.TypeDir, Name: path.Dir(file) + "/", Mode: 0o755, ModTime: epoch},
		{Typeflag: tar.TypeReg, Name: file, Mode: 0o755, ModTime: epoch, Size: int64(len(program))},
	}
	for _, h := range headers {
		if err := tw.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("pack the container guest: %w", err)
		}
	}
	if _, err := tw.Write(program); err != nil {
		return nil, fmt.Errorf("pack the container guest: %w", err)
	}
	if err := tw.Close(); err != nil {
		return nil, fmt.Errorf("pack the container guest: %w", err)
	}
	return &buf, nil
}
