package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
)

// renewal measures how many token requests 200 concurrent calls cause when the access token
// has expired: they are sent to three workloads, which are processes of their own and share
// one login. The authorization server rotates refresh tokens and counts a second use of one.
func (b *bench) renewal(ctx context.Context) ([]result, error) {
	const calls = 200
	address, end, err := daemon(ctx, b.probe, "-json", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer end()
	g := newGuarded(address)
	defer g.Close()
	var urls []string
	for _, name := range []string{"first", "second", "third"} { // the first one logs in
		workload, err := b.logIn(ctx, "run", g.URL+"/mcp", "--name", name, "--remote-auth-callback-port", "8676")
		if err != nil {
			return nil, err
		}
		urls = append(urls, workload)
	}
	// Until now each token had expired when it was issued. The next one lasts an hour.
	before := g.last()
	faults := make(chan error, calls)
	for i := range calls {
		go func() {
			s, err := openModern(ctx, newHTTPClient(), urls[i%len(urls)])
			if err == nil {
				err = s.call(ctx)
			}
			faults <- err
		}()
	}
	for range calls {
		err = errors.Join(err, <-faults)
	}
	if err != nil {
		return nil, err
	}
	requests, reused := g.counts()
	if _, err := b.thv(ctx, "rm", "--all"); err != nil {
		return nil, err
	}
	return []result{
		atMost(itself(fmt.Sprintf("token requests for %d calls at expiry in three processes", calls), "", float64(requests-before)), 1, "one"),
		atMost(itself("refresh tokens that were sent twice", "", float64(reused)), 0, "none"),
	}, nil
}

// logIn runs thv, and opens the address that it shows, if it shows one, as a browser whose
// user consents at once. It returns the last line of output.
func (b *bench) logIn(ctx context.Context, args ...string) (string, error) {
	cmd := b.command(ctx, args...)
	cmd.Env = append(cmd.Env, "PATH=/nowhere") // it finds no browser
	var out, shown strings.Builder
	cmd.Stdout = &out
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		shown.WriteString(lines.Text() + "\n")
		if address, ok := strings.CutPrefix(lines.Text(), "  http"); ok {
			resp, err := newHTTPClient().Get("http" + address)
			if err != nil {
				return "", err
			}
			resp.Body.Close()
		}
	}
	if err := cmd.Wait(); err != nil {
		return "", fmt.Errorf("thv %s: %w: %s", strings.Join(args, " "), err, shown.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	return lines[len(lines)-1], nil
}

// guarded is a server that requires access tokens, and its authorization server, which
// accepts each refresh token once (RFC 9700 section 4.14.2).
type guarded struct {
	*httptest.Server
	mu       sync.Mutex
	access   map[string]bool
	refresh  map[string]bool // false: it was used
	requests int             // of tokens
	reused   int
	lifetime int // of the next access token, in seconds
}

// newGuarded returns a guarded server before the one at an address.
func newGuarded(address string) *guarded {
	g := &guarded{access: map[string]bool{}, refresh: map[string]bool{}, lifetime: 1}
	backend := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
	mux := http.NewServeMux()
	g.Server = httptest.NewServer(mux)
	answer := func(w http.ResponseWriter, status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("/.well-known/oauth-protected-resource/mcp", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, map[string]any{"resource": g.URL + "/mcp", "authorization_servers": []string{g.URL}})
	})
	mux.HandleFunc("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, map[string]any{"issuer": g.URL, "authorization_endpoint": g.URL + "/authorize", "token_endpoint": g.URL + "/token",
			"registration_endpoint": g.URL + "/register", "response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"}})
	})
	mux.HandleFunc("/register", func(w http.ResponseWriter, r *http.Request) {
		client := map[string]any{}
		_ = json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&client)
		client["client_id"] = "bench"
		answer(w, 201, client)
	})
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {"code"}, "state": {q.Get("state")}}.Encode(), http.StatusSeeOther)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		status, tokens := g.issue(r.PostFormValue("refresh_token"))
		answer(w, status, tokens)
	})
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		ok := g.access[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
		g.mu.Unlock()
		if !ok {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer resource_metadata=%q", g.URL+"/.well-known/oauth-protected-resource/mcp"))
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	})
	return g
}

// issue returns new tokens for a refresh token, or for a code if there is none.
func (g *guarded) issue(spent string) (int, map[string]any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests++
	if spent != "" && !g.refresh[spent] {
		g.reused++
		return 400, map[string]any{"error": "invalid_grant"}
	}
	access, refresh := rand.Text(), rand.Text()
	g.refresh[spent] = false
	g.access[access], g.refresh[refresh] = true, true
	return 200, map[string]any{"access_token": access, "token_type": "Bearer", "refresh_token": refresh, "expires_in": g.lifetime}
}

// last lets the tokens that are issued from now on last, and returns the number of token
// requests before.
func (g *guarded) last() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lifetime = 3600
	return g.requests
}

func (g *guarded) counts() (requests, reused int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.requests, g.reused
}
