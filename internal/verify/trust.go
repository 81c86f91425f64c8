package verify

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/tuf"
	"github.com/theupdateframework/go-tuf/v2/metadata"

	"github.com/toolhaven/toolhaven/internal/netguard"
)

// maxRoot bounds a trusted root's file, in bytes.
const maxRoot = 4 << 20

// cacheDays is for how long the public instance's root is used without a look at what is
// new. With an instance that does not answer it is used until it expires.
const cacheDays = 1

// tufInstance is a sigstore instance whose root is distributed by TUF.
type tufInstance struct {
	url  string
	root []byte // root.json, the anchor of trust
	http *http.Client
}

// trustedRoot loads the authorities and logs that are trusted, once.
func (c *checker) trustedRoot(ctx context.Context) (*root.TrustedRoot, error) {
	if c.root == nil && c.rootErr == nil {
		c.root, c.rootErr = c.verifier.loadRoot(ctx, c.req)
	}
	return c.root, c.rootErr
}

func (v *Verifier) loadRoot(ctx context.Context, req *Requirement) (*root.TrustedRoot, error) {
	if req.TrustedRoot != "" {
		return readRoot(req.TrustedRoot)
	}
	if req.Instance != "" {
		return nil, fmt.Errorf("%s names the sigstore instance %.100q, whose root is not known here; give its trusted_root.json as trustedRoot in %s", req.Origin, req.Instance, FileName)
	}
	trusted, err := v.fetchRoot(ctx)
	if err != nil {
		return nil, fmt.Errorf("fetch the trusted root of sigstore's public instance: %w; without a connection to it, give a trusted_root.json as trustedRoot in %s", err, FileName)
	}
	return trusted, nil
}

func readRoot(path string) (*root.TrustedRoot, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the trusted root: %w", err)
	}
	defer f.Close()
	content, err := netguard.ReadBounded(f, maxRoot)
	if err != nil {
		return nil, fmt.Errorf("read the trusted root %s: %w", path, err)
	}
	trusted, err := root.NewTrustedRootFromJSON(content)
	if err != nil {
		return nil, fmt.Errorf("the trusted root %s cannot be read: %w", path, err)
	}
	return trusted, nil
}

// fetchRoot fetches the root of the public instance, by TUF and through netguard. The
// anchor of trust is built into sigstore-go.
func (v *Verifier) fetchRoot(ctx context.Context) (*root.TrustedRoot, error) {
	instance := v.instance
	if instance == nil {
		client, err := netguard.Client(netguard.Options{CAFiles: v.CAFiles})
		if err != nil {
			return nil, err
		}
		instance = &tufInstance{url: tuf.DefaultMirror, root: tuf.DefaultRoot(), http: client}
	}
	options := func() *tuf.Options {
		return &tuf.Options{
			Root: instance.root, RepositoryBaseURL: instance.url, CachePath: filepath.Join(v.CacheDir, "tuf"),
			CacheValidity: cacheDays, Fetcher: fetcher{ctx, instance.http}, Context: ctx,
		}
	}
	trusted, err := root.FetchTrustedRootWithOptions(options())
	if err == nil {
		return trusted, nil
	}
	if cached, again := root.FetchTrustedRootWithOptions(options().WithForceCache()); again == nil {
		return cached, nil
	}
	return nil, err
}

// fetcher downloads TUF's files.
type fetcher struct {
	ctx  context.Context
	http *http.Client
}

// DownloadFile implements the library's fetcher.
func (f fetcher) DownloadFile(url string, maxLength int64, _ time.Duration) ([]byte, error) {
	req, err := http.NewRequestWithContext(f.ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := f.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, &metadata.ErrDownloadHTTP{StatusCode: resp.StatusCode, URL: url} // it decides on 404
	}
	return netguard.ReadBounded(resp.Body, maxLength)
}
