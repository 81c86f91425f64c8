// Package entrypoint finds the program that an image runs, in the configuration of the image at
// its registry.
//
// The operator does it without passwords: it has no right to read Secrets. The requests go to
// addresses that users name, and so to public ones only, unless the operator's own
// administrator permits others. An image with pull secrets is looked up in the pod itself,
// which has them as files ([Options].PullSecrets).
package entrypoint

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/toolhaven/toolhaven/internal/netguard"
)

// Options of a Registry.
type Options struct {
	// AllowPrivate permits registries at private addresses, and AllowLoopback those of this
	// machine.
	AllowPrivate, AllowLoopback bool
	// PullSecrets is a directory with the passwords of registries, "" for none: each of its
	// directories has the files of one Secret of type kubernetes.io/dockerconfigjson or
	// kubernetes.io/dockercfg.
	PullSecrets string
	// CAFiles are authorities that are trusted beside the system's.
	CAFiles []string
}

// Registry looks programs of images up. It may be used concurrently.
type Registry struct {
	transport http.RoundTripper
	secrets   string // directory
	mu        sync.Mutex
	known     map[string]result
	now       func() time.Time
}

type result struct {
	program []string
	err     error
	until   time.Time
}

// How long a result is used again. A tag may be moved to an image with another program.
const (
	keep       = time.Hour
	keepError  = time.Minute
	maxResults = 10000
	timeout    = 20 * time.Second
)

// New returns a Registry.
func New(opt Options) (*Registry, error) {
	t, err := netguard.Transport(netguard.Options{AllowPrivate: opt.AllowPrivate, AllowLoopback: opt.AllowLoopback, CAFiles: opt.CAFiles})
	if err != nil {
		return nil, fmt.Errorf("connect to registries: %w", err)
	}
	return &Registry{transport: t, secrets: opt.PullSecrets, known: map[string]result{}, now: time.Now}, nil
}

// ErrNoProgram is returned for an image whose configuration names no program.
var ErrNoProgram = errors.New("its configuration names no program")

// EntryPoint returns the entry point of an image followed by its default arguments, unless
// hasArgs: arguments of one's own replace those. A result is kept for an hour, an error for a
// minute.
func (r *Registry) EntryPoint(ctx context.Context, image string, hasArgs bool) ([]string, error) {
	key := fmt.Sprintf("%t %s", hasArgs, image)
	r.mu.Lock()
	got, ok := r.known[key]
	r.mu.Unlock()
	if ok && r.now().Before(got.until) {
		return slices.Clone(got.program), got.err
	}
	got = result{until: r.now().Add(keep)}
	got.program, got.err = r.lookUp(ctx, image, hasArgs)
	if got.err != nil {
		got.until = r.now().Add(keepError)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= maxResults {
		clear(r.known)
	}
	r.known[key] = got
	return slices.Clone(got.program), got.err
}

func (r *Registry) lookUp(ctx context.Context, image string, hasArgs bool) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ref, err := name.ParseReference(image)
	if err != nil {
		return nil, fmt.Errorf("%.200q is not the reference of an image", image)
	}
	logins, err := loginsFor(r.secrets, ref)
	if err != nil {
		return nil, err
	}
	var config *v1.ConfigFile
	for _, login := range append(logins, authn.Anonymous) {
		config, err = r.config(ctx, ref, login)
		if !refusesLogin(err) {
			break
		}
	}
	if err != nil {
		return nil, explain(ref, err, len(logins) > 0)
	}
	program := slices.Clone(config.Config.Entrypoint)
	if !hasArgs || len(program) == 0 {
		program = append(program, config.Config.Cmd...)
	}
	if len(program) == 0 {
		return nil, ErrNoProgram
	}
	return program, nil
}

// config is the configuration of an image. Of an index, it is that for this machine.
func (r *Registry) config(ctx context.Context, ref name.Reference, login authn.Authenticator) (*v1.ConfigFile, error) {
	img, err := remote.Image(ref, remote.WithContext(ctx), remote.WithTransport(r.transport), remote.WithAuth(login),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}), remote.WithRetryBackoff(remote.Backoff{Steps: 1}))
	if err != nil {
		return nil, err
	}
	return img.ConfigFile()
}

// refusesLogin reports whether another login may succeed.
func refusesLogin(err error) bool {
	var answer *transport.Error
	return errors.As(err, &answer) && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden)
}

// explain does not repeat what a registry answered: it is text of a stranger.
func explain(ref name.Reference, err error, loggedIn bool) error {
	registry := ref.Context().RegistryStr()
	var answer *transport.Error
	switch {
	case refusesLogin(err) && loggedIn:
		return fmt.Errorf("the registry %s refuses the passwords of imagePullSecrets, or has no such image", registry)
	case refusesLogin(err):
		return fmt.Errorf("the registry %s requires a login or has no such image", registry)
	case errors.As(err, &answer):
		return fmt.Errorf("the registry %s responds with status %d", registry, answer.StatusCode)
	case errors.Is(err, netguard.ErrForbidden):
		return fmt.Errorf("the registry %s is at a private address, which the operator does not connect to (--allow-private-registries)", registry)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the registry %s does not respond", registry)
	}
	return fmt.Errorf("the image cannot be read from the registry %s", registry)
}
