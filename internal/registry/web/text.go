package web

import (
	"net/url"
	"strings"

	"github.com/toolhaven/toolhaven/internal/registry/runline"
)

// How much text of an entry is shown, in characters.
const (
	maxLabel  = 200
	maxTitle  = 100 // as server.json has it
	maxLink   = 80
	maxShown  = 300
	maxProse  = 2000
	maxListed = 200 // entries of any list
)

func clean(text string, most int) string { return runline.Clean(text, most) }

// link is a URL that may be followed from a page.
type link struct{ URL, Text string }

// linkTo makes a link of an entry's URL, if it leads to a web page: anything
// but http and https could run something (javascript:, data:) or open another
// program.
func linkTo(raw string) *link {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Opaque != "" || strings.ContainsFunc(raw, runline.Steers) {
		return nil
	}
	return &link{u.String(), clean(u.Host+strings.TrimSuffix(u.EscapedPath(), "/"), maxLink)}
}
