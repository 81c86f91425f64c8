package build

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/netguard"
)

// RegistryDigest returns the digest that an image reference has at its registry now. The
// engine looks it up where it can, because it knows the registries' certificates and
// mirrors; otherwise this process does, with the logins of `docker login`. The error wraps
// container.ErrNotFound when the registry has no such image.
func RegistryDigest(ctx context.Context, engine container.Engine, ref string) (string, error) {
	digest, err := engine.RegistryDigest(ctx, ref)
	if !errors.Is(err, container.ErrUnsupported) {
		return digest, err
	}
	named, err := name.ParseReference(ref)
	if err != nil {
		return "", fmt.Errorf("look up %.200s at its registry: %w", ref, err)
	}
	// The user names the registry, which may be in a private network.
	guarded, err := netguard.Transport(netguard.Options{AllowPrivate: true, AllowLoopback: true})
	if err != nil {
		return "", err
	}
	found, err := remote.Head(named, remote.WithContext(ctx), remote.WithTransport(guarded), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	var refused *transport.Error
	switch {
	case errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound:
		return "", fmt.Errorf("look up %s at its registry: %w: the registry has no such image", ref, container.ErrNotFound)
	case err != nil:
		return "", fmt.Errorf("look up %s at its registry: %w", ref, err)
	}
	return found.Digest.String(), nil
}
