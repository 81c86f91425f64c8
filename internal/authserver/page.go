package authserver

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"net/http"

	"github.com/toolhaven/toolhaven/internal/plaintext"
)

// style is the style sheet of all pages, for phones and for the dark too.
const style = `
:root{color-scheme:light dark;--ink:#1c2128;--soft:#57606a;--back:#f4f5f7;--card:#fff;--line:#d5d9de;--go:#0b5cad;--warn:#8a4b00}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ed;--soft:#a3acb6;--back:#14171b;--card:#1d2127;--line:#3a414a;--go:#5ea8f2;--warn:#f0b35e}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--ink);font:16px/1.5 system-ui,sans-serif;display:grid;min-height:100vh;place-items:center;padding:1rem}
main{background:var(--card);border:1px solid var(--line);border-radius:12px;max-width:30rem;width:100%;padding:1.75rem;overflow-wrap:anywhere}
h1{font-size:1.3rem;line-height:1.3;margin:0 0 1rem}
dl{margin:0 0 1rem}dt{color:var(--soft);font-size:.875rem}dd{margin:0 0 .6rem;font-weight:600}
ul{margin:.2rem 0 0;padding-left:1.2rem;font-weight:400}
.warn{border-left:4px solid var(--warn);padding:.2rem 0 .2rem .8rem;margin:0 0 1rem}
.soft{color:var(--soft);font-size:.875rem;margin:1rem 0 0}
.row{display:flex;flex-wrap:wrap;gap:.75rem;margin-top:1.25rem}
button{font:inherit;font-weight:600;padding:.65rem 1.2rem;border-radius:8px;border:1px solid var(--line);background:transparent;color:var(--ink);cursor:pointer;flex:1 1 8rem;min-height:44px}
button.go{background:var(--go);border-color:var(--go);color:var(--card)}
button:focus-visible{outline:3px solid var(--go);outline-offset:2px}
`

// The pages work without JavaScript. What a client chose, such as its name, is text only.
var pages = template.Must(template.New("").Parse(`
{{define "top"}}<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><meta name="robots" content="noindex"><title>{{.}}</title><style>` + style + `</style></head><body><main>{{end}}
{{define "end"}}</main></body></html>{{end}}

{{define "consent"}}{{template "top" "Allow access?"}}
<h1>Allow “{{.Client}}” to use {{.Resource}}?</h1>
<dl>
<dt>You</dt><dd>{{.Person}}</dd>
<dt>The application returns to</dt><dd>{{.Redirect}}</dd>
<dt>It asks for</dt><dd><ul>{{range .Scopes}}<li>{{.}}</li>{{end}}</ul></dd>
</dl>
{{if .Here}}<p class="warn">The application says that it runs on this computer. Allow it only if you have just started the login in a program that you trust.</p>{{end}}
{{if .Unnamed}}<p class="warn">The application gave no name.</p>{{end}}
<p class="soft">{{with .Voucher}}{{.}} confirms the name and where the application returns to.{{else}}The name is the application's own and is not verified.{{end}} It gets access in your name to this server only, not your password.</p>
<form method="post" action="{{.Action}}"><input type="hidden" name="login" value="{{.Login}}">
<div class="row"><button class="go" name="decision" value="allow">Allow</button><button name="decision" value="deny">Deny</button></div></form>
{{template "end"}}{{end}}

{{define "connect"}}{{template "top" "Sign in to more accounts"}}
<h1>Sign in to more accounts</h1>
{{with .Notice}}<p class="warn" role="alert">{{.}}</p>{{end}}
<p>{{.Resource}} also uses these accounts. You are signed in as {{.Person}}.</p>
<form method="post" action="{{.Action}}"><input type="hidden" name="login" value="{{.Login}}">
<div class="row">{{range .Providers}}<button class="go" name="provider" value="{{.}}">Sign in at {{.}}</button>{{end}}</div>
<div class="row"><button name="provider" value="">Continue without</button></div></form>
<p class="soft">Without an account, what needs it fails; all else works.</p>
{{template "end"}}{{end}}

{{define "error"}}{{template "top" "The login cannot go on"}}
<h1>The login cannot go on</h1>
<p role="alert">{{.Sentence}}</p>
<p class="soft">For the operator: {{.ID}}</p>
{{template "end"}}{{end}}
`))

// pagePolicy permits the style sheet and nothing else. It has no form-action: browsers apply
// that to the redirect to the client as well.
var pagePolicy = func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; frame-ancestors 'none'"
}()

func (s *core) page(w http.ResponseWriter, status int, name string, data any) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, data); err != nil {
		s.cfg.Log.Error("a page cannot be made", "page", name, "error", err)
		http.Error(w, "the page cannot be made", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Frame-Options", "DENY")
	// With no-referrer, browsers send "Origin: null" with the page's own form (Fetch
	// standard, append a request Origin header).
	h.Set("Referrer-Policy", "same-origin")
	if status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "5")
	}
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the browser left
}

// errorPage shows a sentence and an id, under which the reason is in the log.
func (s *core) errorPage(w http.ResponseWriter, r *http.Request, status int, sentence string, err error) {
	id := random()[:8]
	s.cfg.Log.Warn("a login cannot go on", "id", id, "path", r.URL.Path, "reason", plaintext.Excerpt(err.Error(), 300))
	s.page(w, status, "error", map[string]string{"Sentence": sentence, "ID": id})
}

// askConsent shows what the client asks for.
func (s *logins) askConsent(w http.ResponseWriter, r *http.Request, l *login) {
	handle, err := s.next(r.Context(), l, stepConsent)
	if err != nil {
		s.errorPage(w, r, http.StatusServiceUnavailable, "The login is not available now. Start it again in a minute.", err)
		return
	}
	name := l.Name
	if name == "" {
		name = "an application without a name"
	}
	s.page(w, http.StatusOK, "consent", map[string]any{
		"Client": name, "Unnamed": l.Name == "", "Resource": s.cfg.Resource, "Person": l.shown(),
		"Redirect": shownRedirect(l.Redirect), "Here": redirectsHere(l.Redirect), "Scopes": l.Scopes,
		"Voucher": l.Voucher, "Login": handle, "Action": s.browserBase + pathConsent,
	})
}

// askConnect shows the providers where the person may sign in too.
func (s *logins) askConnect(w http.ResponseWriter, r *http.Request, l *login, missing []string, notice string) {
	handle, err := s.next(r.Context(), l, stepConnect)
	if err != nil {
		s.errorPage(w, r, http.StatusServiceUnavailable, "The login is not available now. Start it again in a minute.", err)
		return
	}
	s.page(w, http.StatusOK, "connect", map[string]any{
		"Resource": s.cfg.Resource, "Person": l.shown(), "Providers": missing, "Notice": plaintext.Line(notice),
		"Login": handle, "Action": s.browserBase + pathConnect,
	})
}

// shown is the person's name, address or subject.
func (p *person) shown() string {
	for _, text := range []string{p.Email, p.Full, p.Subject} {
		if text = plaintext.Line(text); text != "" {
			return text
		}
	}
	return "signed in"
}
