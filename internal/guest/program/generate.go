//go:build ignore

// Generate builds the guest's program for every architecture into bin. The
// same sources and compiler give the same bytes.
package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
)

func main() {
	log.SetFlags(0)
	for _, arch := range []string{"amd64", "arm64"} {
		if err := build(arch); err != nil {
			log.Fatalf("build the guest for linux/%s: %v", arch, err)
		}
	}
}

func build(arch string) error {
	dir, err := os.MkdirTemp("", "thv-guest")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "thv-guest")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid=", "-o", file,
		"github.com/toolhaven/toolhaven/cmd/thv-guest")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOFLAGS=")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return err
	}
	program, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	zw, err := gzip.NewWriterLevel(&packed, gzip.BestCompression) // no name, no time
	if err != nil {
		return err
	}
	if _, err := zw.Write(program); err != nil {
		return err
	}
	if err := zw.Close(); err != nil {
		return err
	}
	target := filepath.Join("bin", "thv-guest-linux-"+arch+".gz")
	if old, err := os.ReadFile(target); err == nil && bytes.Equal(old, packed.Bytes()) {
		return nil // what embeds it need not be built again
	}
	fmt.Fprintf(os.Stderr, "%s: %d bytes, %d packed\n", target, len(program), packed.Len())
	return os.WriteFile(target, packed.Bytes(), 0o644)
}
