package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Bounds on the responses of a registry server.
const (
	pageSize     = 100 // the official API's most
	maxPage      = 16 << 20
	maxPages     = 500
	officialMeta = "io.modelcontextprotocol.registry/official"
)

// apiCatalog queries a server of the official registry API v0.1.
type apiCatalog struct {
	location string
	base     string // without a slash at its end
	fetch    *fetcher
}

func (c *apiCatalog) Location() string { return c.location }

func (c *apiCatalog) Get(ctx context.Context, name string) (*Entry, error) {
	e, err := c.get(ctx, name)
	return e, c.named(err)
}

func (c *apiCatalog) List(ctx context.Context) (List, error) { return c.Search(ctx, "") }

func (c *apiCatalog) Search(ctx context.Context, query string) (List, error) {
	all, leftOut, err := c.list(ctx, query)
	if err == nil {
		err = leftOut.Unusable(len(all))
	}
	if err != nil {
		return List{}, c.named(err)
	}
	// Another registry may search more of an entry than SearchText has. What it
	// finds there is at the end of the list.
	list := newList(all, query, leftOut)
	for _, e := range newList(all, "", leftOut).Entries {
		if query != "" && !slices.Contains(list.Entries, e) {
			list.Entries = append(list.Entries, e)
		}
	}
	return list, nil
}

// named adds the registry to an error.
func (c *apiCatalog) named(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("registry %s: %w", c.location, err)
}

func (c *apiCatalog) get(ctx context.Context, name string) (*Entry, error) {
	bare, version := SplitVersion(name)
	if !ValidName(bare) {
		return nil, fmt.Errorf("%w: %.100q cannot be a server's name", ErrNotFound, bare)
	}
	if strings.Contains(bare, "/") {
		return c.version(ctx, bare, version)
	}
	// The API has full names only; a short one is found by searching.
	all, leftOut, err := c.list(ctx, bare)
	if err != nil {
		return nil, err
	}
	found := newList(all, "", leftOut).Entries
	full, err := resolveName(found, bare)
	if err != nil {
		return nil, leftOut.explain(err)
	}
	if i := slices.IndexFunc(found, func(e *Entry) bool { return e.Name == full }); version == "" || version == found[i].Version {
		return found[i], nil
	}
	return c.version(ctx, full, version)
}

// version fetches one version of one server; "" is the latest. In the path, the
// slash of a name is percent-encoded (registry API v0.1).
func (c *apiCatalog) version(ctx context.Context, name, version string) (*Entry, error) {
	if version == "" {
		version = "latest"
	}
	target := c.base + "/v0.1/servers/" + url.PathEscape(name) + "/versions/" + url.PathEscape(version)
	resp, err := c.fetch.get(ctx, target, maxPage)
	if err != nil {
		return nil, err
	}
	switch {
	case resp.status == http.StatusNotFound:
		// A registry's 404 is JSON. Any other may mean that there is no registry.
		if !resp.isJSON {
			if _, err := c.page(ctx, url.Values{"limit": {"1"}}); err != nil {
				return nil, err
			}
		}
		if version != "latest" {
			return nil, fmt.Errorf("%w: %q in version %s", ErrNotFound, name, version)
		}
		return nil, fmt.Errorf("%w: %q", ErrNotFound, name)
	case resp.status != http.StatusOK:
		return nil, resp.refusal()
	}
	doc, err := parseDocument(resp.body)
	if err != nil {
		return nil, c.malformed(target, err)
	}
	e, err := parseListed(doc)
	if err != nil {
		return nil, c.malformed(target, err)
	}
	if e.Name != name || version != "latest" && e.Version != version {
		return nil, c.malformed(target, fmt.Errorf("it returned %s %s", e.Name, e.Version))
	}
	return e, nil
}

// list follows the pages of a list of latest versions, and of all versions where
// a registry does not support version=latest. search "" is everything.
func (c *apiCatalog) list(ctx context.Context, search string) ([]*Entry, LeftOut, error) {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}, "version": {"latest"}}
	if search != "" {
		query.Set("search", search)
	}
	var all []*Entry
	var leftOut LeftOut
	cursors := map[string]bool{}
	for range maxPages {
		page, err := c.page(ctx, query)
		if err != nil {
			return nil, leftOut, err
		}
		all = append(all, page.entries...)
		leftOut.Join(page.leftOut)
		switch {
		case len(all) > maxEntries:
			return nil, leftOut, fmt.Errorf("%w: it lists more than %d servers", ErrMalformed, maxEntries)
		case page.next == "":
			return all, leftOut, nil
		case cursors[page.next]:
			return nil, leftOut, fmt.Errorf("%w: its list of servers repeats itself (cursor %.100q)", ErrMalformed, page.next)
		}
		cursors[page.next] = true
		query.Set("cursor", page.next)
	}
	return nil, leftOut, fmt.Errorf("%w: its list of servers has more than %d pages; search for a name instead", ErrMalformed, maxPages)
}

type page struct {
	entries []*Entry
	leftOut LeftOut
	next    string // cursor of the page after; "" at the end
}

func (c *apiCatalog) page(ctx context.Context, query url.Values) (*page, error) {
	target := c.base + "/v0.1/servers?" + query.Encode()
	resp, err := c.fetch.get(ctx, target, maxPage)
	if err != nil {
		return nil, err
	}
	if resp.status == http.StatusNotFound {
		return nil, fmt.Errorf("%w: it has no page /v0.1/servers, so it is not a server of the registry API v0.1; the URL of a registry file ends in .json", ErrMalformed)
	}
	if resp.status != http.StatusOK {
		return nil, resp.refusal()
	}
	p, err := parsePage(resp.body)
	if err != nil {
		return nil, c.malformed(target, err)
	}
	return p, nil
}

func (c *apiCatalog) malformed(target string, err error) error {
	return fmt.Errorf("%w: GET %s: %w", ErrMalformed, strings.TrimPrefix(target, c.base), err)
}

// parsePage reads {servers: [{server, _meta}], metadata: {nextCursor, count}}.
func parsePage(body []byte) (*page, error) {
	doc, err := parseDocument(body)
	if err != nil {
		return nil, err
	}
	members, err := doc.members("the response")
	if err != nil {
		return nil, err
	}
	p := &page{}
	listed := false
	for _, m := range members {
		switch m.key {
		case "servers":
			if listed = true; m.value.isNull() { // Go encodes an empty list as null by default
				continue
			}
			items, err := m.value.elements("servers")
			if err != nil {
				return nil, err
			}
			for _, item := range items {
				e, err := parseListed(item)
				if err != nil {
					p.leftOut.Add(err)
					continue
				}
				p.entries = append(p.entries, e)
			}
		case "metadata":
			var meta struct {
				Next string `json:"nextCursor"`
			}
			if err := m.value.decode("metadata", &meta); err != nil {
				return nil, err
			}
			p.next = meta.Next
		}
	}
	if !listed {
		return nil, errors.New("the response has no \"servers\"")
	}
	return p, nil
}

// parseListed reads {server: server.json, _meta}. The _meta beside the server is
// the registry's; the one inside is the publisher's.
func parseListed(n node) (*Entry, error) {
	members, err := n.members("an item of the list")
	if err != nil {
		return nil, err
	}
	var e *Entry
	var official struct {
		Status  string `json:"status"`
		Message string `json:"statusMessage"`
	}
	for _, m := range members {
		switch m.key {
		case "server":
			if e, err = parseServer(m.value); err != nil {
				return nil, err
			}
		case "_meta":
			var meta map[string]json.RawMessage
			if err := m.value.decode("_meta", &meta); err != nil {
				return nil, err
			}
			if raw := meta[officialMeta]; len(raw) > 0 {
				if err := json.Unmarshal(raw, &official); err != nil {
					return nil, m.value.fault("_meta: %s: %w", officialMeta, err)
				}
			}
		}
	}
	if e == nil {
		return nil, n.fault("an item has no \"server\"")
	}
	if official.Status != "" {
		e.Status, e.StatusMessage = official.Status, official.Message
		if err := e.check(); err != nil {
			return nil, n.fault("server %s: %w", e.Name, err)
		}
	}
	return e, nil
}
