package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Bounds on what a registry server answers.
const (
	pageSize     = 100 // the official API's most
	maxPage      = 16 << 20
	maxPages     = 500
	officialMeta = "io.modelcontextprotocol.registry/official"
)

// apiCatalog asks a server of the official registry API v0.1.
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

func (c *apiCatalog) List(ctx context.Context) ([]*Entry, error) {
	all, err := c.list(ctx, "")
	return all, c.named(err)
}

func (c *apiCatalog) Search(ctx context.Context, query string) ([]*Entry, error) {
	all, err := c.list(ctx, query)
	return all, c.named(err)
}

// named says of which registry an error speaks.
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
	// The API knows full names only; a short one is found by searching.
	found, err := c.list(ctx, bare)
	if err != nil {
		return nil, err
	}
	full, err := resolveName(found, bare)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(found, func(e *Entry) bool { return e.Name == full }); version == "" || version == found[i].Version {
		return found[i], nil
	}
	return c.version(ctx, full, version)
}

// version asks for one version of one server; "" is the latest. In the path, the
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
		// "No such server" and "no such page": only a registry says the first.
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
	e, err := parseAnswer(doc)
	if err != nil {
		return nil, c.malformed(target, err)
	}
	if e.Name != name || version != "latest" && e.Version != version {
		return nil, c.malformed(target, fmt.Errorf("it answers with %s %s", e.Name, e.Version))
	}
	return e, nil
}

// list follows the pages of a list of latest versions. search "" is everything.
func (c *apiCatalog) list(ctx context.Context, search string) ([]*Entry, error) {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}, "version": {"latest"}}
	if search != "" {
		query.Set("search", search)
	}
	var all []*Entry
	cursors := map[string]bool{}
	for range maxPages {
		page, err := c.page(ctx, query)
		if err != nil {
			return nil, err
		}
		all = append(all, page.entries...)
		if len(all) > maxEntries {
			return nil, fmt.Errorf("%w: it lists more than %d servers", ErrMalformed, maxEntries)
		}
		if page.next == "" {
			// A registry that does not know version=latest lists every version.
			newest := slices.Collect(maps.Values(latest(all)))
			newest = slices.DeleteFunc(newest, func(e *Entry) bool { return e.Status == Deleted })
			sortByName(newest)
			return newest, nil
		}
		if cursors[page.next] {
			return nil, fmt.Errorf("%w: its list of servers goes round in circles (cursor %.100q)", ErrMalformed, page.next)
		}
		cursors[page.next] = true
		query.Set("cursor", page.next)
	}
	return nil, fmt.Errorf("%w: its list of servers has more than %d pages; search for a name instead", ErrMalformed, maxPages)
}

type page struct {
	entries []*Entry
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
	members, err := doc.members("the answer")
	if err != nil {
		return nil, err
	}
	p := &page{}
	listed := false
	for _, m := range members {
		switch m.key {
		case "servers":
			if listed = true; m.value.isNull() { // an empty list, as Go writes it by default
				continue
			}
			items, err := m.value.elements("servers")
			if err != nil {
				return nil, err
			}
			for _, item := range items {
				e, err := parseAnswer(item)
				if err != nil {
					return nil, err
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
		return nil, errors.New("the answer has no \"servers\"")
	}
	return p, nil
}

// parseAnswer reads {server: server.json, _meta}. The _meta beside the server is
// the registry's word on it; the one inside is the publisher's.
func parseAnswer(n node) (*Entry, error) {
	members, err := n.members("a server's answer")
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
		return nil, n.fault("the answer has no \"server\"")
	}
	if official.Status != "" {
		e.Status, e.StatusMessage = official.Status, official.Message
		if err := e.check(); err != nil {
			return nil, n.fault("server %s: %w", e.Name, err)
		}
	}
	return e, nil
}
