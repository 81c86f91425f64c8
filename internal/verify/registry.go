package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/toolhaven/toolhaven/internal/netguard"
)

// Bounds of what a registry sends for one digest.
const (
	maxResponse   = 8 << 20  // bytes of a manifest, an index or a signature
	maxSignatures = 32 << 20 // bytes of all signatures
	maxReferrers  = 64       // signature manifests that are fetched
	maxLayers     = 64       // signatures of one manifest
)

// Media and artifact types.
const (
	bundleType        = "application/vnd.dev.sigstore.bundle" // with a version
	simpleSigningType = "application/vnd.dev.cosign.simplesigning.v1+json"
	cosignArtifact    = "application/vnd.dev.cosign.artifact.sig.v1+json"
	emptyType         = "application/vnd.oci.empty.v1+json" // a configuration of none
	envelopeType      = "application/vnd.dsse.envelope.v1+json"
)

// registryClient reads one repository.
type registryClient struct {
	repo  name.Repository
	reuse remote.Option // one authentication for all requests
}

// open makes the client for an image's repository.
func (v *Verifier) open(ctx context.Context, named reference.Named) (*registryClient, error) {
	repo, err := repository(named)
	if err != nil {
		return nil, fmt.Errorf("%.200q is not an image reference: %w", named.String(), err)
	}
	rt := v.transport
	if rt == nil {
		if rt, err = guarded(repo.RegistryStr(), v.CAFiles); err != nil {
			return nil, err
		}
	}
	auth := authn.Anonymous
	if v.Login != nil {
		login, err := v.Login(ctx, named.String())
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
		if login != (Login{}) {
			auth = authn.FromConfig(authn.AuthConfig{Username: login.Username, Password: login.Password, IdentityToken: login.IdentityToken})
		}
	}
	puller, err := remote.NewPuller(
		remote.WithTransport(bounded{rt}), remote.WithAuth(auth), remote.WithUserAgent("toolhaven"),
		remote.WithRetryStatusCodes(http.StatusTooManyRequests, http.StatusServiceUnavailable),
	)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return &registryClient{repo: repo, reuse: remote.Reuse(puller)}, nil
}

// guarded returns the transport for a registry. The user chose the registry, so it may have
// a private address; the hosts that it redirects to, and whose tokens it requests, may not.
func guarded(host string, caFiles []string) (http.RoundTripper, error) {
	own, err := netguard.Transport(netguard.Options{CAFiles: caFiles, AllowPrivate: true, AllowLoopback: isLoopback(host)})
	if err != nil {
		return nil, err
	}
	others, err := netguard.Transport(netguard.Options{CAFiles: caFiles})
	if err != nil {
		return nil, err
	}
	return byHost{host: host, own: own, others: others}, nil
}

func isLoopback(hostPort string) bool {
	u := url.URL{Host: hostPort}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
}

// byHost sends requests for one host with own, and all others with others.
type byHost struct {
	host        string
	own, others http.RoundTripper
}

func (b byHost) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == b.host {
		return b.own.RoundTrip(r)
	}
	return b.others.RoundTrip(r)
}

// bounded bounds the bodies of responses.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.ContentLength > maxResponse && r.Method != http.MethodHead {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%s sends %d bytes: %w", r.URL.Host, resp.ContentLength, netguard.ErrTooLarge)
	}
	resp.Body = &boundedBody{ReadCloser: resp.Body, left: maxResponse}
	return resp, nil
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, netguard.ErrTooLarge
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	return n, err
}

// resolve returns the digest that a tag has.
func (r *registryClient) resolve(ctx context.Context, tag string) (string, error) {
	d, err := remote.Head(r.repo.Tag(tag), r.with(ctx)...)
	if err != nil {
		return "", brief(err)
	}
	return d.Digest.String(), nil
}

func (r *registryClient) with(ctx context.Context) []remote.Option {
	return []remote.Option{r.reuse, remote.WithContext(ctx)}
}

// platform returns the digest of an index's image for a platform; the zero value if the
// digest is no index, or has no such image.
func (r *registryClient) platform(ctx context.Context, digest v1.Hash, image Image) (v1.Hash, error) {
	d, err := remote.Get(r.repo.Digest(digest.String()), r.with(ctx)...)
	if err != nil {
		return v1.Hash{}, brief(err)
	}
	if !d.MediaType.IsIndex() {
		return v1.Hash{}, nil
	}
	index, err := d.ImageIndex()
	if err != nil {
		return v1.Hash{}, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return v1.Hash{}, err
	}
	want := v1.Platform{OS: image.OS, Architecture: image.Arch, Variant: image.Variant}
	for _, m := range manifest.Manifests {
		if m.MediaType.IsImage() && m.Platform != nil && m.Platform.Satisfies(want) {
			return m.Digest, nil
		}
	}
	return v1.Hash{}, nil
}

// signatures calls f with each signature that the registry has of a digest, until f returns
// false. A signature that cannot be fetched is an error, after the others.
func (r *registryClient) signatures(ctx context.Context, digest v1.Hash, f func(candidate) bool) error {
	room := int64(maxSignatures)
	var errs []error
	read := func(ref name.Reference) bool {
		more, err := r.manifest(ctx, ref, &room, f)
		if err != nil && !absent(err) {
			errs = append(errs, brief(err))
		}
		return more
	}
	referrers, err := r.referrers(ctx, digest)
	if err != nil {
		errs = append(errs, brief(err))
	}
	for _, d := range referrers {
		if !read(r.repo.Digest(d.Digest.String())) {
			return nil
		}
	}
	base := strings.Replace(digest.String(), ":", "-", 1)
	for _, suffix := range []string{".sig", ".att"} {
		if !read(r.repo.Tag(base + suffix)) {
			return nil
		}
	}
	return errors.Join(errs...)
}

// referrers are the manifests that refer to a digest and may be signatures (OCI
// distribution 1.1, also by the tag of registries without that API). They are fetched once
// and not followed, so that referrers of referrers do not matter.
func (r *registryClient) referrers(ctx context.Context, digest v1.Hash) ([]v1.Descriptor, error) {
	index, err := remote.Referrers(r.repo.Digest(digest.String()), r.with(ctx)...)
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	var all []v1.Descriptor
	for _, d := range manifest.Manifests {
		// Registries without the API may leave the type out, or take that of the configuration.
		if a := d.ArtifactType; a == "" || a == emptyType || a == cosignArtifact || strings.HasPrefix(a, bundleType) {
			all = append(all, d)
		}
	}
	if len(all) > maxReferrers {
		// Which of them counts is not decided by the order of a registry.
		return nil, fmt.Errorf("the registry lists %d signatures of one image; up to %d are checked", len(all), maxReferrers)
	}
	return all, nil
}

// manifest calls f with the signatures in a manifest.
func (r *registryClient) manifest(ctx context.Context, ref name.Reference, room *int64, f func(candidate) bool) (more bool, err error) {
	d, err := remote.Get(ref, r.with(ctx)...)
	if err != nil {
		return true, err
	}
	if d.MediaType != types.OCIManifestSchema1 && d.MediaType != types.DockerManifestSchema2 {
		return true, nil // no signature
	}
	image, err := d.Image()
	if err != nil {
		return true, err
	}
	m, err := image.Manifest()
	if err != nil {
		return true, fmt.Errorf("the manifest of a signature cannot be read: %w", err)
	}
	if len(m.Layers) > maxLayers {
		return true, fmt.Errorf("a manifest has %d signatures; up to %d are checked", len(m.Layers), maxLayers)
	}
	for _, layer := range m.Layers {
		kind := string(layer.MediaType)
		if !strings.HasPrefix(kind, bundleType) && kind != simpleSigningType && kind != envelopeType {
			continue
		}
		content, err := r.blob(ctx, layer, room)
		if err != nil {
			return true, err
		}
		if !f(candidate{kind: kind, content: content, annotations: layer.Annotations}) {
			return false, nil
		}
	}
	return true, nil
}

// blob reads a layer and checks its digest.
func (r *registryClient) blob(ctx context.Context, d v1.Descriptor, room *int64) ([]byte, error) {
	if d.Size > maxResponse || d.Size > *room {
		return nil, fmt.Errorf("a signature of %d bytes: %w", d.Size, netguard.ErrTooLarge)
	}
	layer, err := remote.Layer(r.repo.Digest(d.Digest.String()), r.with(ctx)...)
	if err != nil {
		return nil, err
	}
	body, err := layer.Compressed() // as it is; it verifies the digest
	if err != nil {
		return nil, err
	}
	defer body.Close()
	content, err := netguard.ReadBounded(body, min(maxResponse, *room))
	*room -= int64(len(content))
	return content, err
}

// absent reports whether the registry has no such manifest.
func absent(err error) bool {
	var status *transport.Error
	return errors.As(err, &status) && status.StatusCode == http.StatusNotFound
}

// brief is an error of the registry client without its URL and request.
func brief(err error) error {
	var status *transport.Error
	if errors.As(err, &status) {
		switch status.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden:
			return errors.New("the registry does not let you read it; log in with `docker login`")
		case http.StatusNotFound:
			return errors.New("the registry has no such image")
		}
		return fmt.Errorf("the registry answers with the status %d", status.StatusCode)
	}
	var failed *net.OpError
	if errors.As(err, &failed) && failed.Op == "dial" {
		return failed
	}
	return err
}
