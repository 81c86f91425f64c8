// Command images makes the images of thv and thv-operator from nothing but their programs and
// the authorities that they trust: no Dockerfile, no engine, no base image. The same programs
// give the same images, byte for byte.
//
//	go run ./tools/images -programs dist -out dist/images -version v1.2.3 -created 2026-01-02T15:04:05Z
//	go run ./tools/images ... -push registry.example/toolhaven
//
// For each image there is an OCI layout as one file, OUT/NAME.tar, with all platforms; skopeo,
// ctr and podman read it. The programs are in PROGRAMS/linux-ARCH/.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user runs the programs. It has no name and no home directory.
const user = "65532:65532"

// authorities is where crypto/x509 looks for the system's authorities.
const authorities = "etc/ssl/certs/ca-certificates.crt"

// image is what an image is made of.
type image struct {
	name string
	// programs are the paths in the image, by the name of the built program.
	programs   map[string]string
	entrypoint string
}

var images = []image{
	// Not /thv: pods mount a directory there.
	{"thv", map[string]string{"thv": "usr/bin/thv", "thv-guest": "thv-guest"}, "/usr/bin/thv"},
	{"thv-operator", map[string]string{"thv-operator": "usr/bin/thv-operator"}, "/usr/bin/thv-operator"},
}

// options are the flags.
type options struct {
	programs, out, push, ca, version string
	platforms                        []v1.Platform
	created                          time.Time
}

func main() {
	var o options
	created, arches := "", ""
	flag.StringVar(&o.programs, "programs", "dist", "folder with linux-ARCH/PROGRAM")
	flag.StringVar(&o.out, "out", "dist/images", "folder for the images")
	flag.StringVar(&o.push, "push", "", "also push to this repository prefix, such as registry.example/toolhaven")
	flag.StringVar(&o.ca, "ca", "/"+authorities, "PEM file of the authorities that the programs trust")
	flag.StringVar(&o.version, "version", "dev", "tag of the images")
	flag.StringVar(&created, "created", "", "time of the images, RFC 3339 (default: 1970)")
	flag.StringVar(&arches, "arches", "amd64,arm64", "architectures of the images")
	flag.Parse()
	o.platforms = linux(arches)
	if err := run(o, created); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

// linux are the platforms of architectures that are separated by commas.
func linux(arches string) (platforms []v1.Platform) {
	for arch := range strings.SplitSeq(arches, ",") {
		platforms = append(platforms, v1.Platform{OS: "linux", Architecture: arch})
	}
	return platforms
}

func run(o options, created string) (err error) {
	o.created = time.Unix(0, 0)
	if created != "" {
		if o.created, err = time.Parse(time.RFC3339, created); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	for _, i := range images {
		index, err := i.build(o)
		if err != nil {
			return fmt.Errorf("%s: %w", i.name, err)
		}
		file := filepath.Join(o.out, i.name+".tar")
		if err := writeLayout(file, i.name+":"+o.version, index); err != nil {
			return fmt.Errorf("%s: %w", i.name, err)
		}
		digest, err := index.Digest()
		if err != nil {
			return err
		}
		fmt.Println(file, digest)
		if o.push == "" {
			continue
		}
		ref, err := name.ParseReference(o.push + "/" + i.name + ":" + o.version)
		if err != nil {
			return err
		}
		if err := remote.WriteIndex(ref, index, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
			return fmt.Errorf("push %s: %w", ref, err)
		}
		fmt.Println(ref)
	}
	return nil
}

// build makes the index with an image for each platform.
func (i image) build(o options) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, platform := range o.platforms {
		img, err := i.forPlatform(o, platform)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &platform}})
	}
	return index, nil
}

func (i image) forPlatform(o options, platform v1.Platform) (v1.Image, error) {
	ca, err := os.ReadFile(o.ca)
	if err != nil {
		return nil, err
	}
	base := &files{created: o.created}
	base.dir("tmp", 0o1777)
	base.file(authorities, ca, 0o444)
	layers := []*files{base}
	for _, program := range sorted(i.programs) {
		content, err := os.ReadFile(filepath.Join(o.programs, platform.OS+"-"+platform.Architecture, program))
		if err != nil {
			return nil, err
		}
		layer := &files{created: o.created}
		layer.file(i.programs[program], content, 0o555)
		layers = append(layers, layer)
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, f := range layers {
		layer, err := f.layer()
		if err != nil {
			return nil, err
		}
		if img, err = mutate.Append(img, mutate.Addendum{Layer: layer, MediaType: types.OCILayer}); err != nil {
			return nil, err
		}
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = platform.OS, platform.Architecture, v1.Time{Time: o.created}
	config.Config = v1.Config{
		User: user, Entrypoint: []string{i.entrypoint}, WorkingDir: "/", Env: []string{"PATH=/usr/bin"},
		Labels: map[string]string{
			"org.opencontainers.image.title": i.name, "org.opencontainers.image.version": o.version,
			"org.opencontainers.image.source": "https://github.com/toolhaven/toolhaven", "org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return mutate.ConfigFile(img, config)
}

func sorted(m map[string]string) (keys []string) {
	for _, i := range []string{"thv", "thv-guest", "thv-operator"} {
		if _, ok := m[i]; ok {
			keys = append(keys, i)
		}
	}
	return keys
}

// files are the content of a layer.
type files struct {
	created time.Time
	tar     bytes.Buffer
	made    map[string]bool
	errs    []error
}

func (f *files) dir(path string, mode int64) {
	if f.made == nil {
		f.made = map[string]bool{}
	}
	if path == "." || f.made[path] {
		return
	}
	f.dir(filepath.Dir(path), 0o755)
	f.made[path] = true
	f.add(&tar.Header{Typeflag: tar.TypeDir, Name: path + "/", Mode: mode}, nil)
}

func (f *files) file(path string, content []byte, mode int64) {
	f.dir(filepath.Dir(path), 0o755)
	f.add(&tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: mode, Size: int64(len(content))}, content)
}

func (f *files) add(h *tar.Header, content []byte) {
	h.ModTime = f.created
	w := tar.NewWriter(&f.tar)
	err := w.WriteHeader(h)
	if err == nil {
		_, err = w.Write(content)
	}
	f.errs = append(f.errs, err, w.Flush()) // Close would end the archive
}

func (f *files) layer() (v1.Layer, error) {
	w := tar.NewWriter(&f.tar)
	if err := errors.Join(append(f.errs, w.Close())...); err != nil {
		return nil, err
	}
	content := f.tar.Bytes()
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }, tarball.WithMediaType(types.OCILayer))
}

// writeLayout writes an OCI layout as one file. The names in its index are those that
// containerd and skopeo read.
func writeLayout(file, ref string, index v1.ImageIndex) error {
	dir, err := os.MkdirTemp(filepath.Dir(file), ".layout")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	_, tag, _ := strings.Cut(ref, ":")
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": tag,
		"io.containerd.image.name":          "ghcr.io/toolhaven/" + ref,
	})); err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	w := tar.NewWriter(out)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755})
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	return errors.Join(err, w.Close(), out.Close())
}
