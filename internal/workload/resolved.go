package workload

import (
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"
)

// Resolved is what the name of an image or a package meant when the workload was run, or
// upgraded last. Its containers are made of exactly this image, whatever the name means
// now; `thv upgrade` resolves the name again.
type Resolved struct {
	// Image is the reference of the image: the Spec's Image.
	Image string `json:"image"`
	// ImageID is the engine's id of the image, and Digest that of its manifest or index at
	// its registry: sha256:... Digest is empty for an image that was made on this machine.
	ImageID string `json:"imageId"`
	Digest  string `json:"digest,omitempty"`
	// SignedBy is who signed Digest, as it was verified; "" is not verified.
	SignedBy string `json:"signedBy,omitempty"`
	// Requested is the version of the package that was requested: "" for the newest.
	// Version is what it was resolved to.
	Requested string `json:"requested,omitempty"`
	Version   string `json:"version,omitempty"`
	// Entry is the version of the registry's entry, for a name of the registry.
	Entry string `json:"entry,omitempty"`
	// At is when it was resolved.
	At time.Time `json:"at"`
}

// Resolve records in the Spec which image its name means: the engine's id of it, and its
// digests as REPOSITORY@DIGEST. requested is the version of the package that was asked for.
func (s *Spec) Resolve(requested, imageID string, digests []string) {
	r := &Resolved{Image: s.Image, ImageID: imageID, Entry: s.Source.Version, At: time.Now().UTC().Truncate(time.Second)}
	if s.Package != nil {
		r.Requested, r.Version = requested, s.Package.Version
	} else {
		r.Digest = DigestFor(s.Image, digests)
	}
	s.Resolved = r
}

// DigestFor returns the digest that an image of the reference ref has at its registry, of
// the digests that the engine reports; "" when it was not pulled from there.
func DigestFor(ref string, digests []string) string {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return ""
	}
	if pinned, ok := named.(reference.Digested); ok {
		return pinned.Digest().String()
	}
	for _, d := range slices.Sorted(slices.Values(digests)) {
		repository, digest, _ := strings.Cut(d, "@")
		if other, err := reference.ParseNormalizedNamed(repository); err == nil && other.Name() == named.Name() {
			return digest
		}
	}
	return ""
}

// Pinned is the reference by which exactly this image can be pulled; "" when it has no
// digest.
func (r *Resolved) Pinned() string {
	named, err := reference.ParseNormalizedNamed(r.Image)
	if err != nil || r.Digest == "" {
		return ""
	}
	return reference.FamiliarName(named) + "@" + r.Digest
}

// RollBack makes the Spec run the image that it ran before the last upgrade, and reports
// whether there is one. A second call undoes the first.
func (s *Spec) RollBack() bool {
	if s.Previous == nil {
		return false
	}
	s.Resolved, s.Previous = s.Previous, s.Resolved
	s.Image, s.Source.Version = s.Resolved.Image, s.Resolved.Entry
	if s.Package != nil {
		pkg := *s.Package
		pkg.Version = s.Resolved.Version
		s.Package = &pkg
	}
	return true
}

// Images are the references and ids of the images that the workload runs or goes back to.
func (s *Spec) Images() []string {
	images := []string{s.Image}
	for _, r := range []*Resolved{s.Resolved, s.Previous} {
		if r != nil {
			images = append(images, r.Image, r.ImageID)
		}
	}
	return images
}

// Portable is the Spec without what is true of this machine only: what its name was
// resolved to here.
func (s *Spec) Portable() *Spec {
	out := *s
	out.Resolved, out.Previous = nil, nil
	return &out
}
