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

// pages are the templates by name: each is one file inside layout.html.
type pages map[string]*template.Template

func parsePages() (pages, error) {
	all := pages{}
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

// commandLine is a command on a page, to be copied: what is between its blanks,
// so that lines end there.
type commandLine struct {
	ID, Label string
	Words     []string
}

func newCommandLine(id, label, text string) commandLine {
	return commandLine{id, label, strings.Split(text, " ")}
}

// frame is what every page is made with.
type frame struct {
	Title               string
	Home, Logout        string // URLs; Logout is "" for visitors who are not signed in
	Style, Script, Icon string
	Subject             string
	Page                any
}

// show answers with a page. It is made whole before the first byte is sent.
func (s *Site) show(w http.ResponseWriter, r *http.Request, status int, name string, v visitor, title string, page any) {
	f := frame{
		Title: title, Home: s.prefix + "/", Page: page,
		Style: s.assetURL("style.css"), Script: s.assetURL("copy.js"), Icon: s.assetURL("icon.svg"),
	}
	if v.id != nil {
		f.Subject, f.Logout = clean(v.id.Subject, maxLabel), s.prefix+"/logout"
	}
	var b bytes.Buffer
	if err := s.pages[name].Execute(&b, f); err != nil {
		s.Log.Error("a page cannot be made", "page", name, "path", r.URL.Path, "error", err)
		http.Error(w, "the registry failed; its log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the caller went away
}

// problem is a page that names a fault, with a link to continue at.
type problem struct{ Message, Link, LinkText string }

func (s *Site) fail(w http.ResponseWriter, r *http.Request, status int, title, message string) {
	s.failFor(w, r, visitor{}, status, title, problem{message, s.prefix + "/", "To the start"})
}

func (s *Site) failFor(w http.ResponseWriter, r *http.Request, v visitor, status int, title string, p problem) {
	s.show(w, r, status, "problem", v, title, p)
}

// refuse answers a visitor who may see nothing (RFC 9110 section 15.5.2).
func (s *Site) refuse(w http.ResponseWriter, r *http.Request, page string, data any) {
	w.Header().Set("WWW-Authenticate", s.Challenge)
	s.show(w, r, http.StatusUnauthorized, page, visitor{}, "Sign in", data)
}

// unavailable answers while something that is needed does not work.
func (s *Site) unavailable(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		s.Log.Debug("a visitor did not wait", "path", r.URL.Path)
	} else {
		s.Log.Error("a page cannot be shown", "path", r.URL.Path, "error", err)
	}
	w.Header().Set("Retry-After", "5")
	s.fail(w, r, http.StatusServiceUnavailable, "Not available now", "The registry cannot be read at this moment. Its log says why; try again in a while.")
}
