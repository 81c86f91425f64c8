package oauthclient

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/oauth"
)

// callbackPath is the path of the redirect URI.
const callbackPath = "/callback"

// attempt is the authorization request of a sign-in.
type attempt struct{ *oauth.Authorization }

// name is the authorization server, for messages.
func (a *attempt) name() string { return cmp.Or(a.Issuer, "the authorization server") }

// outcome is the checked authorization response.
type outcome struct {
	code string
	err  error
}

// errStray: the pasted text is no response to this request.
var errStray = errors.New("this does not belong to the sign-in that is under way")

// judge checks an authorization response. One that is not for this request does not
// end it: anyone can send such a response.
func (a *attempt) judge(q url.Values) (o outcome, ours bool) {
	code, err := a.Code(q)
	if errors.Is(err, oauth.ErrRepeated) || errors.Is(err, oauth.ErrState) {
		return outcome{}, false
	}
	return outcome{code, err}, true
}

// listen opens the port of the redirect URI. A chosen port must be free; otherwise
// any port is used when the preferred one is taken.
func listen(ctx context.Context, chosen, preferred int) (net.Listener, error) {
	var lc net.ListenConfig
	on := func(port int) (net.Listener, error) {
		return lc.Listen(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	}
	if chosen != 0 {
		l, err := on(chosen)
		if err != nil {
			return nil, fmt.Errorf("the browser could not come back to port %d of this machine: %w", chosen, err)
		}
		return l, nil
	}
	if preferred != 0 {
		if l, err := on(preferred); err == nil {
			return l, nil
		}
	}
	l, err := on(0)
	if err != nil {
		return nil, fmt.Errorf("the browser could not come back to this machine: %w", err)
	}
	return l, nil
}

// serve handles the browser's request until stop is called, which waits for the page
// to be sent.
func (a *attempt) serve(l net.Listener, outcomes chan<- outcome) (stop func()) {
	server := &http.Server{
		Handler:           a.handler(l.Addr().String(), outcomes),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second, IdleTimeout: 5 * time.Second,
		MaxHeaderBytes: 32 << 10,
		ErrorLog:       slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // its messages quote requests
	}
	go func() { _ = server.Serve(l) }() // until it is closed
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			server.Close()
		}
	}
}

func (a *attempt) handler(address string, outcomes chan<- outcome) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer") // the address holds the code
		h.Set("Cache-Control", "no-store")
		// The Host header shows a DNS name that was made to resolve to this machine.
		if r.Host != address || r.URL.Path != callbackPath {
			page(w, http.StatusNotFound, "There is nothing here.")
			return
		}
		if r.Method != http.MethodGet {
			h.Set("Allow", http.MethodGet)
			page(w, http.StatusMethodNotAllowed, "There is nothing here.")
			return
		}
		result, ours := a.judge(r.URL.Query())
		if !ours {
			page(w, http.StatusBadRequest, "This answer does not belong to the sign-in that is under way.")
			return
		}
		select {
		case outcomes <- result:
		default: // a response was received already
			page(w, http.StatusConflict, "This sign-in has been answered already.")
			return
		}
		if result.err != nil {
			page(w, http.StatusBadRequest, "You are not signed in; the reason is in the terminal. You can close this window.")
			return
		}
		page(w, http.StatusOK, "The terminal has what it needs and says how the sign-in ended. You can close this window.")
	})
}

// page writes a page; text is never from outside.
func page(w http.ResponseWriter, status int, text string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>Toolhaven</title></head>\n<body><h1>Toolhaven</h1><p>%s</p></body>\n</html>\n", text)
}

// Bounds on what is pasted.
const (
	maxPaste  = 16 << 10 // bytes of a line
	maxPastes = 10       // lines that are no response
)

// paste reads lines until one is the response: the address that the browser was
// redirected to, or the code alone.
func (a *attempt) paste(from io.Reader, outcomes chan<- outcome, complain func(string)) {
	deliver := func(o outcome) {
		select {
		case outcomes <- o:
		default:
		}
	}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxPaste)
	for tries := 0; tries < maxPastes && lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			continue
		}
		result, err := a.judgePasted(line)
		if err == nil {
			deliver(result)
			return
		}
		tries++
		complain(err.Error() + "; paste the whole address that the browser ended at")
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		deliver(outcome{err: fmt.Errorf("what was pasted is longer than %d bytes", maxPaste)})
	case err != nil:
		deliver(outcome{err: fmt.Errorf("read what is pasted: %w", err)})
	default:
		deliver(outcome{err: errors.New("no address was pasted that the browser ended at")})
	}
}

func (a *attempt) pasted(q url.Values) (outcome, error) {
	if o, ours := a.judge(q); ours {
		return o, nil
	}
	return outcome{}, errStray
}

func (a *attempt) judgePasted(line string) (outcome, error) {
	if strings.Contains(line, "://") || strings.HasPrefix(line, "/") {
		u, err := url.Parse(line)
		if err != nil || u.Path != callbackPath {
			return outcome{}, fmt.Errorf("this is not an address that begins with %s", a.Redirect)
		}
		return a.pasted(u.Query())
	}
	if strings.Contains(line, "state=") || strings.Contains(line, "code=") || strings.Contains(line, "error=") {
		q, err := url.ParseQuery(strings.TrimPrefix(line, "?"))
		if err != nil {
			return outcome{}, errStray
		}
		return a.pasted(q)
	}
	// A code alone comes without state and issuer. PKCE binds it to this attempt.
	if strings.ContainsAny(line, " \t") {
		return outcome{}, errStray
	}
	if a.SendsIssuer {
		return outcome{}, errors.New("a code alone does not say which issuer it is of")
	}
	return outcome{code: line}, nil
}

// wait shows the address and waits for the code: from the browser, or pasted.
func (a *attempt) wait(ctx context.Context, l net.Listener, address string, r Request) (string, error) {
	patience := r.Patience
	if patience == 0 {
		patience = DefaultPatience
	}
	outcomes := make(chan outcome, 1)
	stop := a.serve(l, outcomes)
	defer stop()
	if r.Show != nil {
		r.Show(address)
	}
	if r.Paste != nil {
		complain := r.Complain
		if complain == nil {
			complain = func(string) {}
		}
		// It may continue to read after the browser's response; the program exits
		// then.
		go a.paste(r.Paste, outcomes, complain)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case o := <-outcomes:
		if o.err != nil {
			return "", fmt.Errorf("sign in at %s: %w", a.name(), o.err)
		}
		return o.code, nil
	case <-ctx.Done():
		return "", ctx.Err()
	case <-timer.C:
		return "", fmt.Errorf("no sign-in at %s within %s", a.name(), patience)
	}
}
