package web

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/registry/catalog"
	"github.com/toolhaven/toolhaven/internal/registry/runline"
	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// serverPage is one version of a server, with the others.
type serverPage struct {
	Registry, CatalogURL     string
	Name, Title, Description string
	Version, Status, Message string
	Tier                     string
	Kinds, Tags, Tools       []string
	Links                    []namedLink
	Icon                     string
	SetRegistry, SignIn      string // commands
	Run                      runline.Command
	Unreadable               bool // the document cannot be read
	Ways                     []way
	Versions                 []versionItem
	MoreVersions, MoreTools  int
	OldVersion               bool
	LatestURL                string
	Published, Updated       stamp
}

type namedLink struct {
	Name string
	*link
}

// stamp is a time as text and as RFC 3339.
type stamp struct{ Text, Machine string }

func newStamp(t time.Time) stamp {
	if t.IsZero() {
		return stamp{}
	}
	t = t.UTC()
	return stamp{t.Format("2 Jan 2006"), t.Format(time.RFC3339)}
}

type versionItem struct {
	Version, URL, Status string
	Latest, Shown        bool
	Published            stamp
}

// maxVersions bounds the listed versions; the API lists all.
const maxVersions = 100

// server shows the latest or the requested version of a server.
func (b *browser) server(w http.ResponseWriter, r *http.Request, v visitor) {
	reg, name := b.find(v, r.PathValue("registry")), r.PathValue("name")
	if reg == nil {
		b.pages.missing(w, r, v, "There is no such registry, or you may not read it.", b.at.prefix+"/")
		return
	}
	if !registry.ValidName(name) {
		b.pages.missing(w, r, v, "There is no such server in this registry.", b.at.catalog(reg))
		return
	}
	versions, err := reg.Versions(r.Context(), name, false)
	if errors.Is(err, store.ErrNotFound) {
		b.pages.missing(w, r, v, "There is no such server in this registry.", b.at.catalog(reg))
		return
	}
	if err != nil {
		b.pages.unavailable(w, r, err)
		return
	}
	wanted := r.URL.Query().Get("version")
	shown := -1
	for i := range versions {
		if wanted == "" && versions[i].IsLatest || wanted != "" && versions[i].Version.Version == wanted {
			shown = i
			break
		}
	}
	if shown < 0 && wanted != "" {
		b.pages.missing(w, r, v, "The server has no such version.", b.at.server(reg, name))
		return
	}
	page := b.newServerPage(r, reg, versions, max(shown, 0))
	b.pages.show(w, r, http.StatusOK, "server", v, page.Title, page)
}

func (b *browser) newServerPage(r *http.Request, reg catalog.Registry, versions []catalog.Server, shown int) serverPage {
	server := versions[shown]
	p := serverPage{
		Registry: clean(reg.Name(), maxLabel), CatalogURL: b.at.catalog(reg),
		Name: clean(server.Name, maxLabel), Title: shortName(clean(server.Name, maxLabel)), Version: clean(server.Version.Version, maxLabel),
		Status: status(server), Message: clean(server.StatusMessage, maxShown),
		Published: newStamp(server.PublishedAt), Updated: newStamp(server.UpdatedAt),
		OldVersion: !server.IsLatest, LatestURL: b.at.server(reg, server.Name),
	}
	listed, more := runline.Some(versions, maxVersions)
	p.MoreVersions = more
	for i, v := range listed {
		p.Versions = append(p.Versions, versionItem{
			Version: clean(v.Version.Version, maxLabel), Status: status(v), Latest: v.IsLatest, Shown: i == shown, Published: newStamp(v.PublishedAt),
			URL: b.at.server(reg, v.Name) + "?" + url.Values{"version": {v.Version.Version}}.Encode(),
		})
	}
	entry, err := registry.ParseServer(server.Document)
	if err != nil {
		b.opt.Log.Warn("a document of the catalog cannot be shown", "registry", reg.Name(), "server", server.Name, "version", server.Version.Version, "error", err)
		p.Unreadable = true
		return p
	}
	p.describe(entry)
	argument := server.Name
	if !server.IsLatest {
		argument += "@" + server.Version.Version
	}
	p.Run = runline.For(entry, argument)
	p.SetRegistry, _ = runline.Quote([]string{"thv", "config", "set-registry", b.api(r, reg)})
	if b.opt.Login != nil {
		p.SignIn = "thv registry login"
	}
	return p
}

func (p *serverPage) describe(e *registry.Entry) {
	if title := clean(e.Title, maxTitle); title != "" {
		p.Title = title
	}
	p.Description = clean(e.Description, maxProse)
	p.Tier = clean(e.Tier, 40)
	p.Kinds, p.Tags = kinds(e), labels(e.Tags)
	p.Tools = labels(e.Tools)
	if l := linkTo(e.Repository); l != nil {
		p.Links = append(p.Links, namedLink{"Repository", l})
	}
	if l := linkTo(e.WebsiteURL); l != nil {
		p.Links = append(p.Links, namedLink{"Website", l})
	}
	p.Ways = ways(e)
}

// api is the URL of a registry for thv.
func (b *browser) api(r *http.Request, reg catalog.Registry) string {
	base := b.at.base
	if base == "" {
		base = "http://"
		if secureRequest(r) {
			base = "https://"
		}
		base += b.host(r)
	}
	return base + "/registry/" + url.PathEscape(reg.Name())
}

// host is the server's host in commands.
func (b *browser) host(r *http.Request) string {
	if b.opt.Host != "" {
		return b.opt.Host
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return "localhost"
	}
	return local.String()
}
