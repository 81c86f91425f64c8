package verifytest

import (
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Media types.
const (
	BundleType   = "application/vnd.dev.sigstore.bundle.v0.3+json"
	SimpleType   = "application/vnd.dev.cosign.simplesigning.v1+json"
	EnvelopeType = "application/vnd.dsse.envelope.v1+json"
)

// Refer attaches a bundle to an image as a referrer. Its subject is the image's descriptor.
func Refer(repo name.Repository, subject v1.Descriptor, bundle []byte) error {
	img, err := layer(bundle, BundleType, nil)
	if err != nil {
		return err
	}
	img = mutate.ConfigMediaType(img, BundleType) // what the referrers API shows as the type
	img, ok := mutate.Subject(img, subject).(v1.Image)
	if !ok {
		panic("the subject of an image is an image's")
	}
	digest, err := img.Digest()
	if err != nil {
		return err
	}
	return remote.Write(repo.Digest(digest.String()), img)
}

// Tag attaches a signature to an image under the tag sha256-DIGESTsuffix; suffix is .sig or
// .att.
func Tag(repo name.Repository, digest, suffix, mediaType string, content []byte, annotations map[string]string) error {
	img, err := layer(content, mediaType, annotations)
	if err != nil {
		return err
	}
	return remote.Write(repo.Tag(strings.Replace(digest, ":", "-", 1)+suffix), img)
}

func layer(content []byte, mediaType string, annotations map[string]string) (v1.Image, error) {
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	return mutate.Append(img, mutate.Addendum{
		Layer: static.NewLayer(content, types.MediaType(mediaType)), MediaType: types.MediaType(mediaType), Annotations: annotations,
	})
}
