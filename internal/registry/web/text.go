package web

import (
	"net/url"
	"strings"

	"github.com/toolhaven/toolhaven/internal/registry/runline"
)

// Bounds on the shown text of an entry, in characters.
const (
	maxLabel  = 200
	maxTitle  = 100 // the bound of server.json
	maxLink   = 80
	maxShown  = 300
	maxProse  = 2000
	maxListed = 200 // entries of any list
)

func clean(text string, most int) string { return runline.Clean(text, most) }

// link is a URL that a page may link to.
type link struct{ URL, Text string }

// linkTo returns a link for an http or https URL of an entry, or nil. Other schemes can
// run code (javascript:, data:) or open another program.
func linkTo(raw string) *link {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Opaque != "" || strings.ContainsFunc(raw, runline.Steers) {
		return nil
	}
	return &link{u.String(), clean(u.Host+strings.TrimSuffix(u.EscapedPath(), "/"), maxLink)}
}
