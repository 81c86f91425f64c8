package build

import (
	"compress/gzip"
	"fmt"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// entrypoint is what every image starts.
const entrypoint = "/app/server"

// nonroot is the user of images from nothing, by the number that distroless
// images made usual.
const nonroot = "65532:65532"

const passwd = "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/tmp:/sbin/nologin\n"
const group = "root:x:0:\nnonroot:x:65532:\n"

// scratchFiles is all that a static program needs around it.
func scratchFiles(certs []byte) []file {
	files := []file{
		{name: "etc/", dir: true, mode: 0o755},
		{name: "etc/passwd", content: []byte(passwd)},
		{name: "etc/group", content: []byte(group)},
		{name: "tmp/", dir: true, mode: 0o1777},
	}
	if len(certs) == 0 {
		return files
	}
	return append(files,
		file{name: "etc/ssl/", dir: true, mode: 0o755},
		file{name: "etc/ssl/certs/", dir: true, mode: 0o755},
		file{name: "etc/ssl/certs/ca-certificates.crt", content: certs},
	)
}

// scratch describes an image from nothing around a static program.
type scratch struct {
	program string // path on the host
	certs   []byte
	arch    string
	args    []string
	labels  map[string]string
	work    string // directory for what is made on the way
}

func (s scratch) image() (v1.Image, error) {
	base, app := filepath.Join(s.work, "base.tar"), filepath.Join(s.work, "app.tar")
	if err := packLayer(base, scratchFiles(s.certs)); err != nil {
		return nil, err
	}
	err := packLayer(app, []file{
		{name: "app/", dir: true, mode: 0o755},
		{name: entrypoint[1:], mode: 0o755, path: s.program},
	})
	if err != nil {
		return nil, err
	}
	img := empty.Image
	for _, path := range []string{base, app} {
		layer, err := tarball.LayerFromFile(path, tarball.WithCompressionLevel(gzip.BestSpeed))
		if err != nil {
			return nil, fmt.Errorf("make an image layer: %w", err)
		}
		if img, err = mutate.AppendLayers(img, layer); err != nil {
			return nil, fmt.Errorf("add an image layer: %w", err)
		}
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("configure the image: %w", err)
	}
	cfg = cfg.DeepCopy()
	cfg.OS, cfg.Architecture, cfg.Created = "linux", s.arch, v1.Time{Time: epoch}
	cfg.Config = v1.Config{
		Entrypoint: append([]string{entrypoint}, s.args...),
		Env:        []string{"PATH=/app", "HOME=/tmp", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
		User:       nonroot,
		WorkingDir: "/",
		Labels:     s.labels,
	}
	img, err = mutate.ConfigFile(img, cfg)
	if err != nil {
		return nil, fmt.Errorf("configure the image: %w", err)
	}
	return img, nil
}
