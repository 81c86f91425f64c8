package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"

	"github.com/toolhaven/toolhaven/internal/netguard"
)

// gitSession is a session with git-upload-pack (gitprotocol-pack(5)). The library's
// fetch uses an HTTP client from a table that the whole program shares; this session
// has its own.
type gitSession interface {
	AdvertisedReferencesContext(ctx context.Context) (*packp.AdvRefs, error)
	UploadPack(ctx context.Context, req *packp.UploadPackRequest) (*packp.UploadPackResponse, error)
	io.Closer
}

func (r *repository) open(ctx context.Context) (gitSession, error) {
	if r.url.Scheme == "ssh" {
		return r.openSSH(ctx)
	}
	opt := netguard.Options{
		AllowPrivate: r.AllowPrivateIP, AllowLoopback: r.AllowPrivateIP || onThisMachine(r.url), Redirects: 3, Timeout: gitTime,
	}
	if r.CACertPath != "" {
		opt.CAFiles = []string{r.CACertPath}
	}
	client, err := r.access.client(opt)
	if err != nil {
		return nil, err
	}
	// Redirects are followed only for the first request, as git does, and only on
	// the same host, by the rule of the guarded client.
	bounded := &boundedAnswers{next: client.Transport, budget: budget{maxRefs, errTooManyRefs}}
	carrier := githttp.NewClient(&http.Client{Transport: bounded, CheckRedirect: client.CheckRedirect, Timeout: client.Timeout})
	// Errors would contain the user of the URL.
	plain := *r.url
	plain.User = nil
	endpoint, err := transport.NewEndpoint(plain.String())
	if err != nil {
		return nil, errors.New("it is not a URL that git understands")
	}
	var auth transport.AuthMethod
	if name := r.username(); name != "" || r.password != "" {
		auth = &githttp.BasicAuth{Username: name, Password: r.password}
	}
	session, err := carrier.NewUploadPackSession(endpoint, auth)
	if err != nil {
		return nil, inWords(err)
	}
	return &httpSession{session, client, bounded}, nil
}

// username is the configured one, or that of the URL.
func (r *repository) username() string {
	if r.Username != "" {
		return r.Username
	}
	return r.url.User.Username()
}

type httpSession struct {
	transport.UploadPackSession
	client  *http.Client
	bounded *boundedAnswers
}

func (s *httpSession) UploadPack(ctx context.Context, req *packp.UploadPackRequest) (*packp.UploadPackResponse, error) {
	s.bounded.budget = packBudget
	return s.UploadPackSession.UploadPack(ctx, req)
}

func (s *httpSession) Close() error {
	err := s.UploadPackSession.Close()
	s.client.CloseIdleConnections()
	return err
}

// budget is the number of bytes that may still be read, and the error beyond it.
type budget struct {
	left    int64
	exceeds error
}

var (
	errTooLarge    = fmt.Errorf("it sends more than %d MiB for one commit; keep the registry in a repository of its own", maxPack>>20)
	errTooManyRefs = fmt.Errorf("its list of branches and tags is larger than %d MiB", maxRefs>>20)
	// The frames around the pack are not part of its size.
	packBudget = budget{maxPack + maxPack/100, errTooLarge}
)

func (b *budget) take(n int, err error) (int, error) {
	if b.left -= int64(n); b.left < 0 {
		return 0, b.exceeds
	}
	return n, err
}

// boundedAnswers bounds the bodies of a session's responses, including those of error
// responses, which the library reads whole.
type boundedAnswers struct {
	next http.RoundTripper
	budget
}

const maxRefusal = 4 << 10

func (b *boundedAnswers) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxRefusal), resp.Body}
		return resp, nil
	}
	resp.Body = &countedBody{resp.Body, b}
	return resp, nil
}

type countedBody struct {
	io.ReadCloser
	of *boundedAnswers
}

func (c *countedBody) Read(p []byte) (int, error) { return c.of.take(c.ReadCloser.Read(p)) }

// choose selects what to fetch from the references of the server.
func (r *repository) choose(refs *packp.AdvRefs) (plumbing.Hash, error) {
	if r.Commit != "" {
		return plumbing.NewHash(r.Commit), nil
	}
	name := r.reference()
	if name == plumbing.HEAD {
		if refs.Head != nil {
			return *refs.Head, nil
		}
	} else if hash, ok := refs.References[name.String()]; ok {
		return hash, nil
	}
	return plumbing.ZeroHash, r.missing()
}

// download writes the pack with the objects of want to file.
func download(ctx context.Context, session gitSession, refs *packp.AdvRefs, want plumbing.Hash, file *os.File) error {
	req := packp.NewUploadPackRequestFromCapabilities(refs.Capabilities)
	if refs.Capabilities.Supports(capability.NoProgress) {
		if err := req.Capabilities.Set(capability.NoProgress); err != nil {
			return err
		}
	}
	if offered(refs, want) {
		req.Wants = []plumbing.Hash{want}
		if refs.Capabilities.Supports(capability.Shallow) {
			req.Depth = packp.DepthCommits(1)
			if err := req.Capabilities.Set(capability.Shallow); err != nil {
				return err
			}
		}
	} else {
		// A commit that cannot be requested by its hash is looked up in the history
		// of the branches and tags.
		req.Wants = tips(refs)
	}
	resp, err := session.UploadPack(ctx, req)
	if err != nil {
		return err
	}
	defer resp.Close()
	var pack io.Reader = resp
	switch {
	case req.Capabilities.Supports(capability.Sideband64k):
		pack = sideband.NewDemuxer(sideband.Sideband64k, resp)
	case req.Capabilities.Supports(capability.Sideband):
		pack = sideband.NewDemuxer(sideband.Sideband, resp)
	}
	n, err := io.Copy(file, io.LimitReader(pack, maxPack+1))
	switch {
	case err != nil:
		return fmt.Errorf("what it sends breaks off: %w", err)
	case n > maxPack:
		return errTooLarge
	case n == 0:
		return errors.New("it sends nothing")
	}
	return nil
}

// offered reports whether want can be requested by its hash.
func offered(refs *packp.AdvRefs, want plumbing.Hash) bool {
	for _, c := range []capability.Capability{capability.AllowReachableSHA1InWant, "allow-any-sha1-in-want"} {
		if refs.Capabilities.Supports(c) {
			return true
		}
	}
	if refs.Head != nil && *refs.Head == want {
		return true
	}
	for _, h := range refs.References {
		if h == want {
			return true
		}
	}
	return false
}

// tips are the branches and tags.
func tips(refs *packp.AdvRefs) []plumbing.Hash {
	var out []plumbing.Hash
	seen := map[plumbing.Hash]bool{}
	for name, h := range refs.References {
		if (strings.HasPrefix(name, "refs/heads/") || strings.HasPrefix(name, "refs/tags/")) && !seen[h] {
			seen[h] = true
			out = append(out, h)
		}
	}
	return out
}
