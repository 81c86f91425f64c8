package source

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/transport"

	"github.com/toolhaven/toolhaven/internal/registry/config"
)

// Bounds on what a repository sends.
const (
	maxRefs = 16 << 20  // bytes of its list of references
	maxPack = 100 << 20 // bytes of the objects, compressed
	gitTime = 2 * time.Minute
)

// gitSource is a registry file in a git repository. The repository's references are
// listed first. A commit is fetched only if it is not applied yet, and without its
// history if the server supports that.
type gitSource struct {
	config.Git
	access Access
}

// Fetch reads the file at the branch, tag or commit.
func (s *gitSource) Fetch(ctx context.Context, previous string) (Fetched, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, gitTime, fmt.Errorf("it was not fetched after %s", gitTime))
	defer cancel()
	r := &repository{Git: s.Git, access: s.access}
	fetched, err := r.fetch(ctx, previous)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		err = fmt.Errorf("repository %s: %w", location(s.Repository), err)
		return Fetched{}, redact(err, r.secrets()...)
	}
	redactReasons(&fetched.LeftOut, r.secrets()...)
	return fetched, nil
}

// repository is one fetch from a repository.
type repository struct {
	config.Git
	access   Access
	url      *url.URL
	password string
}

// secrets must not be in errors. HTTP sends them joined (RFC 7617).
func (r *repository) secrets() []string {
	if r.password == "" {
		return nil
	}
	return []string{r.username() + ":" + r.password, r.password}
}

func (r *repository) fetch(ctx context.Context, previous string) (Fetched, error) {
	if r.Commit != "" {
		if !plumbing.IsHash(r.Commit) || len(r.Commit) != 40 {
			return Fetched{}, fmt.Errorf("the commit %.70q is not a whole SHA-1 commit id; those of SHA-256 repositories are not supported", r.Commit)
		}
		if r.Commit == previous { // a commit does not change
			return Fetched{Digest: previous, Unchanged: true}, nil
		}
	}
	var err error
	if r.url, err = url.Parse(r.Repository); err != nil {
		return Fetched{}, errors.New("it is not a URL")
	}
	if r.PasswordFile != "" {
		if r.password, err = readSecret("passwordFile", r.PasswordFile); err != nil {
			return Fetched{}, err
		}
	}
	switch r.url.Scheme {
	case "file":
		return r.local(previous)
	case "https", "http", "ssh":
		return r.remote(ctx, previous)
	}
	return Fetched{}, fmt.Errorf("its scheme %q is none of https, ssh and file", r.url.Scheme)
}

// local reads a repository of this machine in place.
func (r *repository) local(previous string) (Fetched, error) {
	repo, err := git.PlainOpen(filepath.FromSlash(r.url.Path))
	if err != nil {
		return Fetched{}, inWords(err)
	}
	want := plumbing.NewHash(r.Commit)
	if r.Commit == "" {
		ref, err := repo.Reference(r.reference(), true)
		if err != nil {
			return Fetched{}, r.missing()
		}
		want = ref.Hash()
	}
	return r.read(previous, want, func(h plumbing.Hash) (plumbing.EncodedObject, error) {
		// The size is known without the content.
		if size, err := repo.Storer.EncodedObjectSize(h); err == nil && size > maxObject {
			return nil, errors.New("an object on the way to the file is too large")
		}
		return repo.Storer.EncodedObject(plumbing.AnyObject, h)
	})
}

// remote fetches from another machine.
func (r *repository) remote(ctx context.Context, previous string) (Fetched, error) {
	session, err := r.open(ctx)
	if err != nil {
		return Fetched{}, err
	}
	defer session.Close()
	refs, err := session.AdvertisedReferencesContext(ctx)
	if err != nil {
		return Fetched{}, inWords(err)
	}
	want, err := r.choose(refs)
	if err != nil {
		return Fetched{}, err
	}
	if want.String() == previous {
		return Fetched{Digest: previous, Unchanged: true}, nil
	}
	file, err := os.CreateTemp(r.access.TempDir, "registry-git-*.pack")
	if err != nil {
		return Fetched{}, fmt.Errorf("a place for what it sends: %w", err)
	}
	defer func() {
		file.Close()
		os.Remove(file.Name())
	}()
	if err := download(ctx, session, refs, want, file); err != nil {
		return Fetched{}, inWords(err)
	}
	get, err := openPack(ctx, file)
	if err != nil {
		return Fetched{}, inWords(err)
	}
	return r.read(previous, want, get)
}

// read reads the file in the commit of the hash, which may be that of a tag.
func (r *repository) read(previous string, want plumbing.Hash, get objects) (Fetched, error) {
	if want.String() == previous {
		return Fetched{Digest: previous, Unchanged: true}, nil
	}
	name := r.Path
	if name == "" {
		name = "registry.json"
	}
	content, err := get.file(want, path.Clean(filepath.ToSlash(name)))
	if err != nil {
		return Fetched{}, fmt.Errorf("%s in commit %.12s: %w", name, want.String(), err)
	}
	fetched, err := fromFile(content, "")
	if err != nil {
		return Fetched{}, fmt.Errorf("%s in commit %.12s: %w", name, want.String(), err)
	}
	fetched.Digest = want.String()
	return fetched, nil
}

// reference is the full name of the configured reference.
func (r *repository) reference() plumbing.ReferenceName {
	switch {
	case r.Branch != "":
		return plumbing.NewBranchReferenceName(r.Branch)
	case r.Tag != "":
		return plumbing.NewTagReferenceName(r.Tag)
	}
	return plumbing.HEAD
}

func (r *repository) missing() error {
	switch {
	case r.Branch != "":
		return fmt.Errorf("it has no branch %.200q", r.Branch)
	case r.Tag != "":
		return fmt.Errorf("it has no tag %.200q", r.Tag)
	case r.Commit != "":
		return fmt.Errorf("it has no commit %.12s, or does not give it out", r.Commit)
	}
	return errors.New("it has no default branch; set branch, tag or commit")
}

// inWords explains an error of the git library.
func inWords(err error) error {
	for known, text := range map[error]string{
		git.ErrRepositoryNotExists:          "there is no git repository",
		transport.ErrRepositoryNotFound:     "there is no git repository, or it is not shown to this user",
		transport.ErrEmptyRemoteRepository:  "it is empty",
		transport.ErrAuthenticationRequired: "the username and password (passwordFile) are missing or not accepted",
		transport.ErrAuthorizationFailed:    "this user may not read it",
	} {
		if errors.Is(err, known) {
			return errors.New(text)
		}
	}
	err = innermost(err)
	// The library repeats the prefix of unexpected errors.
	if text := strings.TrimPrefix(err.Error(), "unexpected client error: "); text != err.Error() {
		return fmt.Errorf("%s%w", text, hidden{err})
	}
	return err
}

// hidden wraps an error for errors.Is and has no text.
type hidden struct{ err error }

func (h hidden) Error() string { return "" }
func (h hidden) Unwrap() error { return h.err }
