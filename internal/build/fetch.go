package build

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/netguard"
)

// maxListing bounds a registry's response for one package, in bytes. A package
// with thousands of versions takes about 10 MB.
const maxListing = 64 << 20

// errAbsent is the error for a package that a registry does not have.
var errAbsent = errors.New("the registry does not have it")

// registryURL reads a registry's address from the environment. The text ends up
// in a build command, so it must be a URL and nothing else.
func registryURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("the registry %q is not an http or https URL", redacted(text))
	}
	return u, nil
}

// redacted returns a URL without its password.
func redacted(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "(unreadable)"
	}
	return u.Redacted()
}

// query is a request to a registry.
type query struct {
	address       *url.URL
	accept        string
	authorization string // header; "" when there is none
}

// getJSON requests one JSON document from a registry. errAbsent for the status 404 or 410.
func getJSON(ctx context.Context, r Request, q query, into any) error {
	address := q.address
	opt := netguard.Options{
		// The user configures the registry, which may be in a private network.
		AllowPrivate: true, AllowLoopback: true, AllowHTTP: address.Scheme == "http",
		Redirects: 3, Timeout: time.Minute,
	}
	if r.CACert != "" {
		opt.CAFiles = []string{r.CACert}
	}
	client, err := netguard.Client(opt)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return fmt.Errorf("request %s: %w", address.Redacted(), err)
	}
	req.Header.Set("Accept", q.accept)
	if q.authorization != "" {
		req.Header.Set("Authorization", q.authorization)
	}
	req.Header.Set("User-Agent", "toolhaven")
	resp, err := client.Do(req)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err // the address may hold a password, and is added below without it
		}
		return fmt.Errorf("request to the registry at %s: %w", address.Redacted(), err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone:
		_, _ = io.CopyN(io.Discard, resp.Body, 1<<16)
		return errAbsent
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("the registry at %s responded with %s", address.Redacted(), resp.Status)
	}
	if kind := resp.Header.Get("Content-Type"); !strings.Contains(kind, "json") {
		return fmt.Errorf("the registry at %s responded in %.100q, not in JSON", address.Redacted(), kind)
	}
	text, err := netguard.ReadBounded(resp.Body, maxListing)
	if err != nil {
		return fmt.Errorf("read the response of %s: %w", address.Redacted(), err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("the response of %s cannot be read: %w", address.Redacted(), err)
	}
	return nil
}

// notFound is the error for a package or version that a registry does not have.
func notFound(r Request, place string, newest string) error {
	if r.Version == "" || newest == "" {
		return fmt.Errorf("%w: %s has no package %s", ErrNotFound, place, r.Name)
	}
	return fmt.Errorf("%w: %s has %s, but not version %s (the newest is %s)", ErrNotFound, place, r.Name, r.Version, newest)
}
