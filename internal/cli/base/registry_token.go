package base

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/oauthclient"
	"github.com/toolhaven/toolhaven/internal/registry"
)

// The environment variables with a token for the registry, or the file that holds one.
const (
	EnvRegistryToken     = "THV_REGISTRY_TOKEN"
	EnvRegistryTokenFile = "THV_REGISTRY_TOKEN_FILE"
)

// registryTokens provides the token for the registry: that of the environment, else of
// the file it names, else of the sign-in, else none.
type registryTokens struct {
	env    func(string) string
	signIn *oauthclient.Source // nil for a registry without sign-in
}

// newRegistryTokens returns the tokens for the registry at a location; nil for one that is
// not read over HTTP.
func newRegistryTokens(a *App, location string) (registry.TokenSource, error) {
	target, _, err := registry.Protected(location)
	if err != nil || target == "" {
		return nil, err
	}
	store, err := a.SignIns()
	if err != nil {
		return nil, err
	}
	t := &registryTokens{env: a.Env}
	// A registry without sign-in (plain HTTP) can be read without a token.
	if source, err := store.Source(target); err == nil {
		t.signIn = source
	}
	return t, nil
}

const loginHint = "run `thv registry login`"

// given returns the token of the environment, and the variable or file that holds it.
func (t *registryTokens) given() (token, from string, err error) {
	if token := strings.TrimSpace(t.env(EnvRegistryToken)); token != "" {
		if !oauthclient.ValidToken(token) {
			return "", "", fmt.Errorf("%s does not hold an access token", EnvRegistryToken)
		}
		return token, EnvRegistryToken, nil
	}
	file := t.env(EnvRegistryTokenFile)
	if file == "" {
		return "", "", nil
	}
	f, err := os.Open(file)
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", EnvRegistryTokenFile, err)
	}
	defer f.Close()
	b, err := netguard.ReadBounded(f, 64<<10)
	if err != nil {
		return "", "", fmt.Errorf("%s: %s: %w", EnvRegistryTokenFile, file, err)
	}
	if token = strings.TrimSpace(string(b)); !oauthclient.ValidToken(token) {
		return "", "", fmt.Errorf("%s: %s does not hold an access token", EnvRegistryTokenFile, file)
	}
	return token, file, nil
}

// Token implements registry.TokenSource.
func (t *registryTokens) Token(ctx context.Context) (string, error) {
	token, _, err := t.given()
	if err != nil || token != "" || t.signIn == nil {
		return token, err
	}
	token, err = t.signIn.Token(ctx)
	return token, hinted(err)
}

// Renew implements registry.Renewer.
func (t *registryTokens) Renew(ctx context.Context, refused string) (string, error) {
	token, from, err := t.given()
	switch {
	case err != nil:
		return "", err
	case token != "" && token != refused: // the file's was replaced meanwhile
		return token, nil
	case token != "":
		return "", fmt.Errorf("%w: it does not accept the token in %s", registry.ErrUnauthorized, from)
	case t.signIn == nil || refused == "":
		return "", fmt.Errorf("%w; %s", registry.ErrUnauthorized, loginHint)
	}
	token, err = t.signIn.Renew(ctx, refused)
	return token, hinted(err)
}

// hinted adds the command to sign in.
func hinted(err error) error {
	if errors.Is(err, oauthclient.ErrSignIn) {
		return fmt.Errorf("%w; %s", err, loginHint)
	}
	return err
}
