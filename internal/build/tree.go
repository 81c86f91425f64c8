package build

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// epoch is the time of every file and image: what is made of the same content
// is the same image.
var epoch = time.Unix(0, 0).UTC()

// file is an entry of a tar: a directory when dir is set, the content of the
// host's file at path when that is set, else content.
type file struct {
	name    string
	mode    int64
	uid     int
	dir     bool
	path    string
	content []byte
}

// packTree makes a small tar in memory, for a build context.
func packTree(files []file) (io.Reader, error) {
	var buf bytes.Buffer
	if err := writeTree(&buf, files); err != nil {
		return nil, err
	}
	return &buf, nil
}

// packLayer makes a tar file for a layer.
func packLayer(path string, files []file) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write an image layer: %w", err)
	}
	if err := writeTree(f, files); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("write an image layer: %w", err)
	}
	return nil
}

func writeTree(w io.Writer, files []file) error {
	tw := tar.NewWriter(w)
	for _, f := range files {
		if err := writeFile(tw, f); err != nil {
			return fmt.Errorf("pack %s: %w", f.name, err)
		}
	}
	if err := tw.Close(); err != nil {
		return fmt.Errorf("pack an image layer: %w", err)
	}
	return nil
}

func writeFile(tw *tar.Writer, f file) error {
	h := &tar.Header{Name: f.name, Mode: f.mode, Uid: f.uid, Gid: f.uid, ModTime: epoch, Typeflag: tar.TypeReg, Size: int64(len(f.content)), Format: tar.FormatPAX}
	if h.Mode == 0 {
		h.Mode = 0o644
	}
	if f.dir {
		h.Typeflag, h.Size = tar.TypeDir, 0
		return tw.WriteHeader(h)
	}
	if f.path == "" {
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		_, err := tw.Write(f.content)
		return err
	}
	src, err := os.Open(filepath.Clean(f.path))
	if err != nil {
		return err
	}
	defer src.Close()
	st, err := src.Stat()
	if err != nil {
		return err
	}
	h.Size = st.Size()
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.Copy(tw, src)
	return err
}
