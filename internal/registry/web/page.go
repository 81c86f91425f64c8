package web

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
)

//go:embed templates/*.html
var templateFiles embed.FS

// templates are the templates by name: each is one file inside layout.html.
type templates map[string]*template.Template

func parseTemplates() (templates, error) {
	all := templates{}
	shared, err := template.New("layout.html").Funcs(template.FuncMap{"command": newCommandLine}).ParseFS(templateFiles, "templates/layout.html")
	if err != nil {
		return nil, fmt.Errorf("web: %w", err)
	}
	for _, name := range []string{"registries", "catalog", "server", "sign-in", "login-missing", "sign-in-failed", "problem"} {
		t, err := shared.Clone()
		if err == nil {
			t, err = t.ParseFS(templateFiles, "templates/"+name+".html")
		}
		if err != nil {
			return nil, fmt.Errorf("web: %w", err)
		}
		all[name] = t
	}
	return all, nil
}

// commandLine is a command on a page. Lines break between its words.
type commandLine struct {
	ID, Label string
	Words     []string
}

func newCommandLine(id, label, text string) commandLine {
	return commandLine{id, label, strings.Split(text, " ")}
}

// frame is the data of the layout of every page.
type frame struct {
	Title               string
	Home, Logout        string // URLs; Logout is "" for visitors who are not signed in
	Style, Script, Icon string
	Subject             string
	Page                any
}

// renderer responds with pages.
type renderer struct {
	opt       *Options
	at        location
	assets    *assets
	templates templates
}

// show responds with a page, which is rendered before the first byte is sent.
func (p *renderer) show(w http.ResponseWriter, r *http.Request, status int, name string, v visitor, title string, page any) {
	f := frame{
		Title: title, Home: p.at.prefix + "/", Page: page,
		Style: p.assets.url("style.css"), Script: p.assets.url("copy.js"), Icon: p.assets.url("icon.svg"),
	}
	if v.id != nil {
		f.Subject, f.Logout = clean(v.id.Subject, maxLabel), p.at.prefix+"/logout"
	}
	var b bytes.Buffer
	if err := p.templates[name].Execute(&b, f); err != nil {
		p.opt.Log.Error("a page cannot be rendered", "page", name, "path", r.URL.Path, "error", err)
		http.Error(w, "the registry failed; see its log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // fails when the client has disconnected
}

// problem is a page with a fault and a link to continue.
type problem struct{ Message, Link, LinkText string }

func (p *renderer) fail(w http.ResponseWriter, r *http.Request, status int, title, message string) {
	p.failFor(w, r, visitor{}, status, title, problem{message, p.at.prefix + "/", "To the start"})
}

func (p *renderer) failFor(w http.ResponseWriter, r *http.Request, v visitor, status int, title string, fault problem) {
	p.show(w, r, status, "problem", v, title, fault)
}

// refuse responds with 401 (RFC 9110 section 15.5.2).
func (p *renderer) refuse(w http.ResponseWriter, r *http.Request, page string, data any) {
	w.Header().Set("WWW-Authenticate", p.opt.Challenge)
	p.show(w, r, http.StatusUnauthorized, page, visitor{}, "Sign in", data)
}

// unavailable responds with 503 while the store or the key fails.
func (p *renderer) unavailable(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		p.opt.Log.Debug("a browser disconnected before its page was complete", "path", r.URL.Path)
	} else {
		p.opt.Log.Error("a page cannot be shown", "path", r.URL.Path, "error", err)
	}
	w.Header().Set("Retry-After", "5")
	p.fail(w, r, http.StatusServiceUnavailable, "Not available now", "The registry cannot be read at this moment. The reason is in its log. Try again later.")
}

// missing responds to a request for something that does not exist, or that the
// visitor may not read.
func (p *renderer) missing(w http.ResponseWriter, r *http.Request, v visitor, message, link string) {
	p.failFor(w, r, v, http.StatusNotFound, "Not found", problem{message, link, "See what there is"})
}
