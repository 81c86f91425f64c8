package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/registry/config"
)

// Bounds on the responses of another registry server.
const (
	pageSize      = 100 // the official API's most
	maxPage       = 16 << 20
	maxWalk       = 512 << 20 // bytes of all pages
	maxPages      = 20_000
	maxEmptyPages = 10 // in a row, each with a cursor of the next
	pageTime      = time.Minute
	walkTime      = 30 * time.Minute
)

// apiSource reads another server of the official registry API v0.1.
type apiSource struct {
	config.API
	base   *url.URL
	access Access
	bounds bounds
}

// bounds are fields so that tests can lower them.
type bounds struct {
	pages, page, walk  int64
	pageTime, walkTime time.Duration
}

func newAPI(cfg config.API, access Access) (*apiSource, error) {
	base, err := url.Parse(strings.TrimRight(cfg.Endpoint, "/"))
	if err != nil {
		return nil, errors.New("the endpoint is not a URL")
	}
	return &apiSource{API: cfg, base: base, access: access, bounds: bounds{maxPages, maxPage, maxWalk, pageTime, walkTime}}, nil
}

// Fetch reads all pages: every version of every server, with deleted ones if the
// other server lists them.
func (s *apiSource) Fetch(ctx context.Context, previous string) (Fetched, error) {
	fetched, secret, err := s.fetch(ctx, previous)
	if err != nil {
		return Fetched{}, redact(fmt.Errorf("registry %s: %w", location(s.Endpoint), err), secret)
	}
	redactReasons(&fetched.LeftOut, secret)
	return fetched, nil
}

func (s *apiSource) fetch(ctx context.Context, previous string) (Fetched, string, error) {
	secret := ""
	if s.TokenFile != "" {
		var err error
		if secret, err = readSecret("tokenFile", s.TokenFile); err != nil {
			return Fetched{}, "", err
		}
	}
	// A new client each time, because the file of CA certificates may have changed.
	opt := netguard.Options{
		AllowPrivate: s.AllowPrivateIP, AllowLoopback: s.AllowPrivateIP || onThisMachine(s.base), Redirects: 3, Timeout: s.bounds.pageTime,
	}
	if s.CACertPath != "" {
		opt.CAFiles = []string{s.CACertPath}
	}
	client, err := s.access.client(opt)
	if err != nil {
		return Fetched{}, secret, err
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeoutCause(ctx, s.bounds.walkTime, fmt.Errorf("its list did not end within %s", s.bounds.walkTime))
	defer cancel()
	w := &walk{source: s, client: client, secret: secret, sum: sha256.New()}
	err = w.run(ctx, true)
	var refused *refusal
	if errors.As(err, &refused) && refused.mayBeTheQuery && w.pages == 0 {
		// It may reject include_deleted as unknown.
		w = &walk{source: s, client: client, secret: secret, sum: sha256.New()}
		err = w.run(ctx, false)
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return Fetched{}, secret, err
	}
	digest := hex.EncodeToString(w.sum.Sum(nil))
	if digest == previous {
		return Fetched{Digest: digest, Unchanged: true}, secret, nil
	}
	return Fetched{Digest: digest, Entries: w.entries, LeftOut: w.leftOut}, secret, nil
}

// walk reads all pages once.
type walk struct {
	source  *apiSource
	client  *http.Client
	secret  string
	entries []Entry
	leftOut registry.LeftOut
	pages   int64
	bytes   int64
	sum     hash.Hash
}

func (w *walk) run(ctx context.Context, deleted bool) error {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	if deleted {
		query.Set("include_deleted", "true")
	}
	cursors := map[string]bool{}
	empty := 0
	for w.pages < w.source.bounds.pages {
		body, err := w.get(ctx, query)
		if err != nil {
			return err
		}
		w.pages++
		if w.bytes += int64(len(body)); w.bytes > w.source.bounds.walk {
			return fmt.Errorf("its list is larger than %d bytes", w.source.bounds.walk)
		}
		entries, leftOut, next, err := parsePage(body)
		if err != nil {
			return fmt.Errorf("page %d: %w", w.pages, err)
		}
		if err := w.add(entries, leftOut); err != nil {
			return err
		}
		if next == "" {
			return nil
		}
		if cursors[next] {
			return fmt.Errorf("its list repeats itself (cursor %.100q)", next)
		}
		if empty++; len(entries)+leftOut.Malformed > 0 {
			empty = 0
		}
		if empty > maxEmptyPages {
			return fmt.Errorf("%d pages in a row were empty, and each named another", empty)
		}
		cursors[next] = true
		query.Set("cursor", next)
	}
	return fmt.Errorf("its list has more than %d pages", w.source.bounds.pages)
}

func (w *walk) add(entries []Entry, leftOut registry.LeftOut) error {
	if len(w.entries)+len(entries) > maxVersions {
		return fmt.Errorf("it lists more than %d versions", maxVersions)
	}
	w.entries = append(w.entries, entries...)
	for _, reason := range leftOut.Reasons {
		w.leftOut.Add(fmt.Errorf("page %d: %s", w.pages, reason))
	}
	w.leftOut.Malformed += leftOut.Malformed - len(leftOut.Reasons)
	fmt.Fprintf(w.sum, "%d:%s", leftOut.Malformed, leftOut.Why())
	for _, e := range entries {
		// The digest covers what the store compares. Lengths separate the parts.
		for _, part := range []string{string(e.Raw), e.Status, e.StatusMessage} {
			fmt.Fprintf(w.sum, "%d:%s", len(part), part)
		}
	}
	return nil
}

// refusal is a response that is not a list.
type refusal struct {
	status        int
	mayBeTheQuery bool
}

func (r *refusal) Error() string {
	text := fmt.Sprintf("it returns %d %s", r.status, http.StatusText(r.status))
	switch {
	case r.status == http.StatusUnauthorized, r.status == http.StatusForbidden:
		return text + ": the token (tokenFile) is missing or not accepted"
	case r.status == http.StatusNotFound:
		return text + ": there is no /v0.1/servers under this endpoint"
	case r.status >= 300 && r.status < 400:
		return text + ": redirects are followed on the same host only, and few of them"
	}
	return text
}

func (w *walk) get(ctx context.Context, query url.Values) ([]byte, error) {
	target := w.source.base.JoinPath("v0.1", "servers")
	target.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, innermost(err)
	}
	req.Header.Set("Accept", "application/json")
	if w.secret != "" {
		// Redirects stay on this host, so the token does.
		req.Header.Set("Authorization", "Bearer "+w.secret)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return nil, innermost(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, &refusal{resp.StatusCode, resp.StatusCode == http.StatusBadRequest || resp.StatusCode == http.StatusUnprocessableEntity}
	}
	body, err := netguard.ReadBounded(resp.Body, w.source.bounds.page)
	if err != nil {
		return nil, fmt.Errorf("page %d: %w", w.pages+1, innermost(err))
	}
	return body, nil
}
