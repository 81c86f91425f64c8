package build

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// recipe is raised when images are made differently from the same inputs, so
// that no image of the old recipe is taken for one of the new.
const recipe = 3

// inputs is everything that decides what is in an image.
type inputs struct {
	Recipe      int
	Scheme      string
	Name        string
	Version     string
	Arch        string
	Args        []string
	AddPackages []string
	Base        string // the base image's id
	CA          string // hash of the certificates that stay in the image
	Content     string // hash of a Go program; a registry's fingerprint of a package
}

var notAlnum = regexp.MustCompile(`[^a-z0-9]+`)
var notTag = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// imageTag names an image by what made it:
// thv.local/SCHEME/NAME:VERSION-HASH12. No registry is called thv.local, so the
// name can never be pulled from elsewhere.
func imageTag(in inputs) (string, error) {
	b, err := json.Marshal(in)
	if err != nil {
		return "", fmt.Errorf("name the image of %s: %w", in.Name, err)
	}
	path := strings.Trim(notAlnum.ReplaceAllString(strings.ToLower(in.Name), "-"), "-")
	if len(path) > 100 {
		path = strings.Trim(path[len(path)-100:], "-")
	}
	if path == "" {
		path = "package"
	}
	version := strings.TrimLeft(notTag.ReplaceAllString(in.Version, "_"), ".-")
	return fmt.Sprintf("thv.local/%s/%s:%.100s-%s", in.Scheme, path, version, hash(b)[:12]), nil
}

// hash is a SHA-256 in hexadecimal.
func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
