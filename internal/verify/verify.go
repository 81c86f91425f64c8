// Package verify decides whether a container image was signed by those who may sign it.
//
// A [Requirement] states who that is: identities in certificates of a sigstore instance, or
// public keys. It comes from the provenance of a registry's entry ([FromProvenance]) or from
// the user's policy file ([Policy]). A [Verifier] fetches the signatures of an image from the
// image's own registry and checks them. Three forms are known: sigstore bundles that refer to
// the image (OCI distribution 1.1, referrers), and the tags sha256-DIGEST.sig and
// sha256-DIGEST.att of cosign.
//
// What is verified is a digest, never a tag. The caller runs exactly that digest
// ([Result].Digest), so that an image that is pushed under the tag afterwards does not run.
//
// Everything that a registry sends is hostile: sizes, counts and redirects are bounded, and
// nothing of it is trusted before a signature over it holds. Cryptography is sigstore-go's.
package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/toolhaven/toolhaven/internal/plaintext"
)

// Errors of Verify and of the policy. Their texts are sentences for people.
var (
	// ErrNoPolicy: nothing states who may sign the image.
	ErrNoPolicy = errors.New("nothing states who may sign the image")
	// ErrUnsigned: the registry has no signature of the image that could count.
	ErrUnsigned = errors.New("the image is not signed")
	// ErrSigner: the image is signed, but by none of those who may.
	ErrSigner = errors.New("the image is signed by someone else")
	// ErrInvalid: a signature does not hold.
	ErrInvalid = errors.New("the signature is not valid")
	// ErrUnreachable: the registry or the sigstore instance did not answer.
	ErrUnreachable = errors.New("the verification could not be made")
)

// Requirement is what a signature of an image must be. One signature that satisfies it is
// enough.
type Requirement struct {
	// Origin is where the requirement is written, for people.
	Origin string
	// Identities are accepted in certificates, Keys without certificates.
	Identities []Identity
	Keys       []Key
	// Attestation is what must be attested; nil accepts signatures of the image, and
	// attestations of its build (SLSA provenance).
	Attestation *Attestation
	// Log demands an entry in a transparency log; nil demands it of certificates only.
	Log *bool
	// Timestamp demands a signed timestamp (RFC 3161).
	Timestamp bool
	// TrustedRoot is the path of a trusted_root.json of sigstore; "" is the public instance,
	// whose root is fetched by TUF.
	TrustedRoot string
	// Instance is the host of the sigstore instance that must have issued the certificate;
	// "" is the public one.
	Instance string
}

// Image is what to verify.
type Image struct {
	// Ref is the reference, as the user wrote it.
	Ref string
	// Local are the digests, sha256:..., under which the engine has the image from Ref's
	// repository. They are verified in place of what the tag means at the registry.
	Local []string
	// OS, Arch and Variant are the engine's platform: which image of an index runs.
	OS, Arch, Variant string
}

// Result is a verified image.
type Result struct {
	// Digest is that of the index or manifest that was signed: sha256:...
	Digest string
	// Signer is who signed: an identity and its issuer, or a key.
	Signer string
}

// Login is a credential for a registry; the zero value is none.
type Login struct{ Username, Password, IdentityToken string }

// Verifier verifies images. It may be used concurrently.
type Verifier struct {
	// Login returns the credential for the registry of a reference; nil is none.
	Login func(ctx context.Context, ref string) (Login, error)
	// CAFiles are PEM files of authorities that are trusted beside the system's.
	CAFiles []string
	// CacheDir keeps what was fetched of the public sigstore instance.
	CacheDir string

	transport http.RoundTripper // of tests; nil is a guarded one
	instance  *tufInstance      // of tests; nil is the public one
}

// Timeout bounds the verification of one image.
const Timeout = 60 * time.Second

// maxLocal bounds the digests of Image.Local that are tried.
const maxLocal = 4

// Verify verifies an image. The error wraps one of the errors of this package and names the
// image, what was found and what is expected.
func (v *Verifier) Verify(ctx context.Context, image Image, req *Requirement) (Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, Timeout, fmt.Errorf("no answer within %s", Timeout))
	defer cancel()
	result, err := v.verify(ctx, image, req)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return Result{}, fmt.Errorf("%w: %s: %w", ErrUnreachable, image.Ref, cause)
	}
	return result, err
}

func (v *Verifier) verify(ctx context.Context, image Image, req *Requirement) (Result, error) {
	named, err := reference.ParseNormalizedNamed(image.Ref)
	if err != nil {
		return Result{}, fmt.Errorf("%.200q is not an image reference: %w", image.Ref, err)
	}
	r, err := v.open(ctx, named)
	if err != nil {
		return Result{}, err
	}
	var digests []string
	if pinned, ok := named.(reference.Digested); ok {
		digests = []string{pinned.Digest().String()}
	} else if digests = image.Local; len(digests) == 0 {
		digest, err := r.resolve(ctx, reference.TagNameOnly(named).(reference.Tagged).Tag())
		if err != nil {
			return Result{}, fmt.Errorf("%w: ask the registry for %s: %w", ErrUnreachable, image.Ref, err)
		}
		digests = []string{digest}
	}
	c := &checker{verifier: v, registry: r, req: req}
	var worst *failure
	for _, digest := range digests[:min(len(digests), maxLocal)] {
		result, f := c.tryBoth(ctx, digest, image)
		if f == nil {
			return result, nil
		}
		worst = worse(worst, f)
	}
	return Result{}, worst.err(image.Ref, req)
}

// tryBoth tries the digest, and if it is an index that is not signed, its image for the
// engine's platform.
func (c *checker) tryBoth(ctx context.Context, digest string, image Image) (Result, *failure) {
	hash, err := v1.NewHash(digest)
	if err != nil || hash.Algorithm != "sha256" {
		return Result{}, &failure{kind: ErrInvalid, digest: digest, text: "only sha256 digests can be verified"}
	}
	signer, f := c.try(ctx, hash)
	if f == nil {
		return Result{Digest: digest, Signer: signer}, nil
	}
	inner, err := c.registry.platform(ctx, hash, image)
	if err != nil {
		return Result{}, worse(f, &failure{kind: ErrUnreachable, digest: digest, text: "read the image's manifest: " + plaintext.Line(err.Error())})
	}
	if inner == (v1.Hash{}) {
		return Result{}, f
	}
	signer, again := c.try(ctx, inner)
	if again == nil {
		return Result{Digest: inner.String(), Signer: signer}, nil
	}
	return Result{}, worse(f, again)
}

// failure is why a digest was not verified.
type failure struct {
	kind   error // of the errors of this package
	digest string
	text   string // what was found
}

// order of failures: the one that tells a person most is reported.
var order = []error{ErrUnsigned, ErrInvalid, ErrUnreachable, ErrSigner}

// worse returns the failure that tells more; the first of equal ones.
func worse(a, b *failure) *failure {
	if a == nil || b != nil && slices.Index(order, b.kind) > slices.Index(order, a.kind) {
		return b
	}
	return a
}

func (f *failure) err(ref string, req *Requirement) error {
	short := ref
	if f.digest != "" {
		short += " (" + f.digest[:min(len(f.digest), len("sha256:")+12)] + ")"
	}
	switch {
	case errors.Is(f.kind, ErrUnsigned):
		return fmt.Errorf("%w: %s has %s; %s accepts %s", ErrUnsigned, short, cmp.Or(f.text, "no signature at its registry"), req.Origin, req.accepts())
	case errors.Is(f.kind, ErrSigner):
		return fmt.Errorf("%w: %s is signed by %s; %s accepts %s", ErrSigner, short, f.text, req.Origin, req.accepts())
	default:
		return fmt.Errorf("%w: %s: %s", f.kind, short, f.text)
	}
}

// repository is the part of a reference that a registry client needs.
func repository(named reference.Named) (name.Repository, error) {
	// Only loopback registries are spoken to without TLS; the transport refuses others.
	return name.NewRepository(named.Name())
}
