package oauthclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// RFC 9207 section 2.4, the four cases, and RFC 6749 section 4.1.2.1.
func TestAuthorizationResponse(t *testing.T) {
	for name, c := range map[string]struct {
		promised bool
		change   func(q url.Values)
		says     string // "" is a sign-in
	}{
		"iss promised and right":     {true, func(url.Values) {}, ""},
		"iss promised and missing":   {true, func(q url.Values) { q.Del("iss") }, "does not say which issuer"},
		"iss promised and wrong":     {true, func(q url.Values) { q.Set("iss", "https://evil.example") }, "another issuer"},
		"iss promised and empty":     {true, func(q url.Values) { q.Set("iss", "") }, "another issuer"},
		"iss not promised, missing":  {false, func(q url.Values) { q.Del("iss") }, ""},
		"iss not promised but right": {false, func(url.Values) {}, ""},
		"iss not promised but wrong": {false, func(q url.Values) { q.Set("iss", "https://evil.example") }, "another issuer"},
		"iss with a slash more":      {false, func(q url.Values) { q.Set("iss", q.Get("iss")+"/") }, "another issuer"},
		"an error": {true, func(q url.Values) {
			q.Del("code")
			q.Set("error", "access_denied")
			q.Set("error_description", "you\x1b[31m may not")
		}, "access_denied (you may not)"},
		"an error of another issuer is not shown": {true, func(q url.Values) {
			q.Set("error", "call-this-number")
			q.Set("iss", "https://evil.example")
		}, "another issuer"},
		"neither code nor error": {true, func(q url.Values) { q.Del("code") }, "neither a code nor an error"},
		"a code that is wrong":   {true, func(q url.Values) { q.Set("code", "other") }, "invalid_grant"},
	} {
		t.Run(name, func(t *testing.T) {
			f, s := newFake(t), testStore(t)
			f.metadata["authorization_response_iss_parameter_supported"] = c.promised
			f.redirect = c.change
			_, err := f.signIn(s)
			if c.says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "call-this-number") || strings.Contains(err.Error(), "\x1b") {
				t.Errorf("got %v", err)
			}
			f.mustKeepSecrets(err.Error())
			if source, _ := s.Source(f.url); source != nil {
				if token, err := source.Token(t.Context()); token != "" || err != nil {
					t.Errorf("somebody is signed in: %v", err)
				}
			}
		})
	}
}

func TestSignIn_StrayCallbackRequests(t *testing.T) {
	f, s := newFake(t), testStore(t)
	r := f.request()
	r.Show = func(address string) {
		redirect := mustURL(mustURL(address).Query().Get("redirect_uri"))
		state := mustURL(address).Query().Get("state")
		get := func(target string, change func(*http.Request)) *http.Response {
			req, err := http.NewRequest(http.MethodGet, target, nil)
			if err != nil {
				t.Fatal(err)
			}
			if change != nil {
				change(req)
			}
			resp, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			return resp
		}
		for target, status := range map[string]int{
			redirect.String(): 400, // no state
			redirect.String() + "?code=evil&state=guess":                        400,
			redirect.String() + "?code=evil&state=" + state + "&state=" + state: 400, // twice
			redirect.String() + "?error=evil":                                   400,
			"http://" + redirect.Host + "/":                                     404,
			"http://" + redirect.Host + "/callback/x?code=a&state=" + state:     404,
		} {
			resp := get(target, nil)
			body := readAll(t, resp.Body)
			resp.Body.Close()
			if resp.StatusCode != status || strings.Contains(body, "evil") || strings.Contains(body, state) {
				t.Errorf("%s: %d %s", target, resp.StatusCode, body)
			}
			for header, want := range map[string]string{"Content-Security-Policy": "default-src 'none'", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "X-Frame-Options": "DENY"} {
				if !strings.Contains(resp.Header.Get(header), want) {
					t.Errorf("%s is %q", header, resp.Header.Get(header))
				}
			}
		}
		// A name that points here (DNS rebinding), and another method.
		for status, change := range map[int]func(*http.Request){
			404: func(r *http.Request) { r.Host = "evil.example:" + redirect.Port() },
			405: func(r *http.Request) { r.Method = http.MethodPost },
		} {
			resp := get(redirect.String()+"?code=evil&state="+state, change)
			resp.Body.Close()
			if resp.StatusCode != status {
				t.Errorf("got %d, want %d", resp.StatusCode, status)
			}
		}
		resp, err := http.Get(address)
		if err != nil {
			t.Error(err)
			return
		}
		body := readAll(t, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 200 || !strings.Contains(body, "You can close this window") {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
		f.mustKeepSecrets(body)
	}
	if _, err := s.SignIn(t.Context(), r); err != nil {
		t.Error(err)
	}
}

func TestSignIn_Pasted(t *testing.T) {
	for name, c := range map[string]struct {
		promised bool
		paste    func(back *url.URL) string
		says     string // "" is a sign-in
		complain string
	}{
		"the whole address":    {true, func(u *url.URL) string { return u.String() + "\n" }, "", ""},
		"without a line break": {true, func(u *url.URL) string { return "  " + u.String() }, "", ""},
		"what follows the ?":   {true, func(u *url.URL) string { return u.RawQuery + "\r\n" }, "", ""},
		"with the ?":           {true, func(u *url.URL) string { return "?" + u.RawQuery + "\n" }, "", ""},
		"path and query":       {true, func(u *url.URL) string { return u.RequestURI() + "\n" }, "", ""},
		"the code alone":       {false, func(u *url.URL) string { return u.Query().Get("code") + "\n" }, "", ""},
		"the code alone, of a server that says who it is": {true, func(u *url.URL) string { return u.Query().Get("code") + "\n" }, "no address was pasted", "a code alone"},
		"after mistakes": {true, func(u *url.URL) string {
			return "\nhello there\nhttps://elsewhere.example/?code=a\n" + strings.Replace(u.String(), "state=", "state=x", 1) + "\n" + u.String() + "\n"
		}, "", "does not belong"},
		"nothing":     {true, func(*url.URL) string { return "" }, "no address was pasted", ""},
		"nonsense":    {true, func(*url.URL) string { return strings.Repeat("hello there\n", 100) }, "no address was pasted", "does not belong"},
		"without end": {true, func(*url.URL) string { return strings.Repeat("x", maxPaste+1) }, "longer than", ""},
		"of a mix-up": {true, func(u *url.URL) string {
			q := u.Query()
			q.Set("iss", "https://evil.example")
			u.RawQuery = q.Encode()
			return u.String() + "\n"
		}, "another issuer", ""},
		"of a refusal": {true, func(u *url.URL) string {
			q := u.Query()
			q.Del("code")
			q.Set("error", "access_denied")
			u.RawQuery = q.Encode()
			return u.String() + "\n"
		}, "access_denied", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f, s := newFake(t), testStore(t)
			f.metadata["authorization_response_iss_parameter_supported"] = c.promised
			in, out := io.Pipe()
			var complaints bytes.Buffer
			r := f.request()
			r.Paste, r.Complain = in, func(s string) { complaints.WriteString(s + "\n") }
			r.Show = func(address string) {
				go func() {
					// The browser is on another machine: the redirect is not followed.
					resp, err := http.DefaultTransport.RoundTrip(mustRequest(address))
					if err != nil {
						t.Error(err)
						return
					}
					resp.Body.Close()
					io.WriteString(out, c.paste(mustURL(resp.Header.Get("Location"))))
					out.Close()
				}()
			}
			_, err := s.SignIn(t.Context(), r)
			in.Close()
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("got %v, want %q", err, c.says)
			}
			if !strings.Contains(complaints.String(), c.complain) || c.complain == "" && complaints.Len() > 0 {
				t.Errorf("complaints %q, want %q", complaints.String(), c.complain)
			}
			f.mustKeepSecrets(fmt.Sprint(err), complaints.String())
		})
	}
}

func mustRequest(target string) *http.Request {
	req, err := http.NewRequest(http.MethodGet, target, nil)
	if err != nil {
		panic(err)
	}
	return req
}

func TestSignIn_Timeout(t *testing.T) {
	f, s := newFake(t), testStore(t)
	r := f.request()
	r.Show, r.Patience = nil, 20*time.Millisecond
	if _, err := s.SignIn(t.Context(), r); err == nil || !strings.Contains(err.Error(), "no sign-in at") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.Patience, r.Show = time.Minute, func(string) { cancel() }
	if _, err := s.SignIn(ctx, r); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestSignIn_CallbackPortTaken(t *testing.T) {
	f := newFake(t)
	l, err := listen(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := f.request()
	r.CallbackPort = portOf("http://" + l.Addr().String())
	if _, err := testStore(t).SignIn(t.Context(), r); err == nil || !strings.Contains(err.Error(), fmt.Sprint(r.CallbackPort)) || len(f.registrations) > 0 {
		t.Errorf("got %v", err)
	}
}

func TestOpenBrowser_OnlyWebPages(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, address := range []string{"file:///etc/passwd", "javascript:alert(1)", "http://as.example/", "--help", "https:", "/etc/passwd", "https://as.example/\x00"} {
		if err := OpenBrowser(address); err == nil || strings.Contains(err.Error(), "no browser") {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := OpenBrowser("https://as.example/"); err == nil || !strings.Contains(err.Error(), "no browser can be opened") {
		t.Errorf("got %v", err)
	}
}

// The address is one argument of the program, and no shell reads it (MCP security best
// practices, "Authorization URL").
func TestOpenBrowser_NoShell(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the program is a script of this test only where it is xdg-open")
	}
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	script := "#!/bin/sh\nprintf '%s|' \"$#\" \"$@\" >" + log + ".new && mv " + log + ".new " + log + "\n"
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	made := filepath.Join(dir, "made")
	address := "https://as.example/a?b=$(touch " + made + ")&c=`touch " + made + "`;touch " + made + "|'x'%22&d=--help"
	if err := OpenBrowser(address); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for deadline := time.Now().Add(time.Minute); got == nil; {
		if time.Now().After(deadline) {
			t.Fatal("the browser was not started")
		}
		time.Sleep(10 * time.Millisecond)
		got, _ = os.ReadFile(log)
	}
	if want := "1|" + address + "|"; string(got) != want {
		t.Errorf("the program received %s, want %s", got, want)
	}
	if _, err := os.Stat(made); err == nil {
		t.Error("a shell read the address")
	}
}
