package oauthclient

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// keyed is a request as `thv run URL` makes it.
func (f *fake) keyed() Request {
	return Request{
		Target: f.url, Keyed: true, Bodies: [][]byte{[]byte(`{"method":"ping"}`), []byte(`{"method":"initialize"}`)},
		Patience: time.Minute, Show: func(address string) { go f.browse(address) },
	}
}

func (f *fake) mustSignInKeyed(s *Store, change func(*Request)) *Login {
	f.t.Helper()
	r := f.keyed()
	if change != nil {
		change(&r)
	}
	login, err := s.SignIn(f.t.Context(), r)
	if err != nil {
		f.t.Fatal(err)
	}
	return login
}

func mustKeyed(t *testing.T, s *Store, key, target string) *KeyedSource {
	t.Helper()
	source, err := s.Keyed(key, target)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// A key from elsewhere gives no token for another server.
func TestKeyed_TokensAreForTheTarget(t *testing.T) {
	t.Parallel()
	f, s := newFake(t), testStore(t)
	login := f.mustSignInKeyed(s, nil)
	if token, err := mustKeyed(t, s, login.Key, f.url).Token(t.Context()); err != nil || !f.access[token] {
		t.Fatalf("%q, %v", token, err)
	}
	for name, c := range map[string][2]string{
		"another target": {login.Key, f.url + "/x"}, "another host": {login.Key, "https://example.com/mcp"},
		"another key": {strings.Repeat("a", 32), f.url}, "a path as key": {"../logins/" + login.Key, f.url}, "no key": {"", f.url},
	} {
		if token, err := mustKeyed(t, s, c[0], c[1]).Token(t.Context()); !errors.Is(err, ErrSignIn) || token != "" {
			t.Errorf("%s: %q, %v", name, token, err)
		}
	}
}

// A sign-in for the same server and client is used again, without the person.
func TestKeyed_Reused(t *testing.T) {
	t.Parallel()
	f, s := newFake(t), testStore(t)
	first := f.mustSignInKeyed(s, nil)
	again := f.mustSignInKeyed(s, func(r *Request) { r.Show = func(string) { t.Error("the person was asked") } })
	if !again.Reused || again.Key != first.Key {
		t.Errorf("%+v", again)
	}
	fresh := f.mustSignInKeyed(s, func(r *Request) { r.Fresh = true })
	if fresh.Reused || fresh.Key != first.Key || len(f.registrations) != 1 {
		t.Errorf("%+v, %d registrations", fresh, len(f.registrations))
	}
	f.with(func() { clear(f.access); clear(f.refresh) })
	if login := f.mustSignInKeyed(s, nil); login.Reused {
		t.Error("a grant that ended was used again")
	}
	if login := f.mustSignInKeyed(s, func(r *Request) { r.Scopes = []string{"write"} }); login.Reused {
		t.Error("a grant of other scopes was used")
	}
	if out, err := mustKeyed(t, s, first.Key, f.url).SignOut(t.Context()); err != nil || !out.Revoked || len(f.revoked) != 2 {
		t.Errorf("%+v, %v", out, err)
	}
}

// The resource indicator is sent byte for byte on every leg, or on none.
func TestKeyed_Indicator(t *testing.T) {
	t.Parallel()
	odd, none := "https://Example.COM:443/%7Ex/", ""
	for name, c := range map[string]struct {
		indicator *string
		want      string
	}{"that of the metadata": {nil, "the resource"}, "given": {&odd, odd}, "off": {&none, ""}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, s := newFake(t), testStore(t)
			if c.indicator == nil {
				c.want = f.url
			}
			login := f.mustSignInKeyed(s, func(r *Request) { r.Indicator = c.indicator })
			if _, err := mustKeyed(t, later(s, time.Hour), login.Key, f.url).Token(t.Context()); err != nil {
				t.Fatal(err)
			}
			for i, form := range append(slices.Clone(f.authorized), f.forms...) {
				if form.Get("resource") != c.want || form.Has("resource") != (c.want != "") {
					t.Errorf("leg %d: %v", i, form["resource"])
				}
			}
			if len(f.forms) != 2 {
				t.Errorf("%d token requests", len(f.forms))
			}
		})
	}
}

// A server that refuses the indicator gets none, from then on.
func TestKeyed_IndicatorRefused(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"authorize", "token"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			f, s := newFake(t), testStore(t)
			if where == "authorize" {
				f.redirect = func(back url.Values) {
					if f.authorized[len(f.authorized)-1].Has("resource") {
						back.Del("code")
						back.Set("error", "invalid_target")
					}
				}
			} else {
				f.token = func(w http.ResponseWriter, form url.Values) bool {
					if form.Has("resource") {
						refuse(400, "invalid_target", "")(w, nil)
					}
					return form.Has("resource")
				}
			}
			login := f.mustSignInKeyed(s, nil)
			if _, err := mustKeyed(t, later(s, time.Hour), login.Key, f.url).Token(t.Context()); err != nil {
				t.Fatal(err)
			}
			if last := f.forms[len(f.forms)-1]; last.Has("resource") || last.Get("grant_type") != "refresh_token" {
				t.Errorf("%v", last)
			}
		})
	}
}

// A client that the server has forgotten registers again in the same sign-in.
func TestKeyed_ClientForgotten(t *testing.T) {
	t.Parallel()
	f, s := newFake(t), testStore(t)
	first := f.mustSignInKeyed(s, nil)
	f.with(func() {
		f.token = func(w http.ResponseWriter, form url.Values) bool {
			if form.Get("client_id") == "client-1" {
				refuse(401, "invalid_client", "")(w, nil)
				return true
			}
			return false
		}
	})
	login := f.mustSignInKeyed(s, func(r *Request) { r.Fresh = true })
	if login.ClientID != "client-2" || login.Key != first.Key {
		t.Errorf("%+v", login)
	}
}

// The URL of a client id metadata document is the client where the server reads such
// documents, and a registered one where it refuses it.
func TestKeyed_MetadataDocument(t *testing.T) {
	t.Parallel()
	const document = "https://client.example/thv.json"
	for name, c := range map[string]struct {
		supported, refused bool
		want               string
	}{"supported": {true, false, document}, "not supported": {false, false, "client-1"}, "refused": {true, true, "client-1"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, s := newFake(t), testStore(t)
			f.metadata["client_id_metadata_document_supported"] = c.supported
			f.redirect = func(back url.Values) {
				if c.refused && f.authorized[len(f.authorized)-1].Get("client_id") == document {
					back.Del("code")
					back.Set("error", "unauthorized_client")
				}
			}
			if login := f.mustSignInKeyed(s, func(r *Request) { r.Client.MetadataURL = document }); login.ClientID != c.want {
				t.Errorf("%+v", login)
			}
		})
	}
}

// A server without RFC 9728 metadata may be its own issuer (MCP 2025-03-26), or the person
// names the issuer or the endpoints.
func TestKeyed_WithoutResourceMetadata(t *testing.T) {
	t.Parallel()
	newBare := func(t *testing.T) *fake {
		f := newFake(t)
		f.challenge = "Bearer"
		f.rsPath["/.well-known/oauth-protected-resource/registry/default"] = http.NotFound
		return f
	}
	t.Run("its own issuer", func(t *testing.T) {
		t.Parallel()
		f := newBare(t)
		f.rsPath["/.well-known/oauth-authorization-server"] = func(w http.ResponseWriter, _ *http.Request) {
			f.metadata["issuer"] = f.rs.URL
			writeJSON(w, 200, f.metadata)
		}
		f.redirect = func(back url.Values) { back.Set("iss", f.rs.URL) }
		if login := f.mustSignInKeyed(testStore(t), nil); login.Issuer != f.rs.URL || login.Resource != f.url {
			t.Errorf("%+v", login)
		}
	})
	t.Run("a named issuer", func(t *testing.T) {
		t.Parallel()
		f := newBare(t)
		if login := f.mustSignInKeyed(testStore(t), func(r *Request) { r.Issuer = f.issuer }); login.Issuer != f.issuer || login.Resource != f.url {
			t.Errorf("%+v", login)
		}
	})
	t.Run("named endpoints", func(t *testing.T) {
		t.Parallel()
		f := newBare(t)
		f.asPath["/.well-known/oauth-authorization-server"] = http.NotFound
		f.mustSignInKeyed(testStore(t), func(r *Request) {
			r.AuthorizeURL, r.TokenURL, r.Client.ID, r.Scopes, r.ScopeParam = f.issuer+"/authorize", f.issuer+"/token", "mine", []string{"a", "b"}, "user_scope"
		})
		if q := f.authorized[0]; q.Get("user_scope") != "a b" || q.Has("scope") || q.Get("client_id") != "mine" || q.Get("code_challenge_method") != "S256" {
			t.Errorf("%v", q)
		}
	})
	t.Run("none of them", func(t *testing.T) {
		t.Parallel()
		f := newBare(t)
		_, err := testStore(t).SignIn(t.Context(), f.keyed())
		if err == nil || !strings.Contains(err.Error(), "does not say where to sign in") {
			t.Error(err)
		}
	})
}

// A resource that requires more scopes of a new token gets them requested, once.
func TestKeyed_StepUp(t *testing.T) {
	t.Parallel()
	f, s := newFake(t), testStore(t)
	insufficient := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer resource_metadata="%s/.well-known/oauth-protected-resource/registry/default", scope="read"`, f.rs.URL))
			w.WriteHeader(401)
			return
		}
		w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="admin"`)
		w.WriteHeader(403)
	}
	f.rsPath["/registry/default"] = insufficient
	login := f.mustSignInKeyed(s, nil)
	if len(f.authorized) != 2 || f.authorized[0].Get("scope") != "read offline_access" || f.authorized[1].Get("scope") != "read admin offline_access" {
		t.Errorf("%v", f.authorized)
	}
	source := mustKeyed(t, s, login.Key, f.url)
	for range 2 {
		if missing, err := source.Require(t.Context(), []string{"read", "more"}); err != nil || !slices.Equal(missing, []string{"more"}) {
			t.Errorf("%v, %v", missing, err)
		}
	}
	if wanted := source.Wanted(t.Context()); !slices.Equal(wanted, []string{"read", "more"}) {
		t.Errorf("%v", wanted)
	}
}

// Without a 401 there is no sign-in, unless it is forced.
func TestKeyed_OpenServer(t *testing.T) {
	t.Parallel()
	f, s := newFake(t), testStore(t)
	f.acceptsAll = true
	if _, err := s.SignIn(t.Context(), f.keyed()); !errors.Is(err, ErrOpen) {
		t.Errorf("%v", err)
	}
	if s.Protected(t.Context(), f.keyed()) {
		t.Error("it is protected")
	}
	f.mustSignInKeyed(s, func(r *Request) { r.Force = true })
	f.acceptsAll = false
	if !s.Protected(t.Context(), f.keyed()) {
		t.Error("it is not protected")
	}
}

// callers is the test program as a process of many callers: it writes a line when they
// start, and one with the tokens that they got.
func callers(dir string, key, target string, n int) error {
	source, err := openIn(dir, os.Getenv).Keyed(key, target)
	if err != nil {
		return err
	}
	fmt.Println("started")
	var all sync.WaitGroup
	tokens := make(chan string, n)
	for range n {
		all.Go(func() {
			token, err := source.Token(context.Background())
			if err != nil {
				token = err.Error()
			}
			tokens <- token
		})
	}
	all.Wait()
	close(tokens)
	different := map[string]bool{}
	for token := range tokens {
		different[token] = true
	}
	for token := range different {
		fmt.Println(token)
	}
	return nil
}

// process is a process of callers.
type process struct {
	*exec.Cmd
	out *bufio.Reader
}

func startCallers(t *testing.T, s *Store, key, target string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], key, target, "70")
	cmd.Env = append(os.Environ(), asProcess+"="+s.records.dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	p := &process{cmd, bufio.NewReader(out)}
	if line, err := p.out.ReadString('\n'); line != "started\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return p
}

// 210 callers in three processes spend one refresh token once, also when a process that
// waits is killed. When the one that renews is killed before the server has seen its
// request, another one renews.
func TestKeyed_OneRenewalForThreeProcesses(t *testing.T) {
	t.Parallel()
	for _, killed := range []string{"none", "one that waits", "the one that renews"} {
		t.Run(killed, func(t *testing.T) {
			t.Parallel()
			f, s := newFake(t), testStore(t)
			f.lifetime = 1 // ended at once, by the leeway
			login := f.mustSignInKeyed(s, nil)
			f.lifetime = 300
			arrived, answer := make(chan struct{}, 10), make(chan struct{})
			f.with(func() {
				f.asPath["/token"] = func(w http.ResponseWriter, r *http.Request) {
					_ = r.ParseForm() // after that the end of the connection ends the context
					arrived <- struct{}{}
					select {
					case <-answer:
						f.forms = append(f.forms, r.PostForm)
						f.serveToken(w, r.PostForm)
					case <-r.Context().Done(): // its sender was killed, and the token is not spent
					}
				}
			})
			// The first process renews: it alone runs until its request has arrived.
			processes := []*process{startCallers(t, s, login.Key, f.url)}
			<-arrived
			processes = append(processes, startCallers(t, s, login.Key, f.url), startCallers(t, s, login.Key, f.url))
			switch killed {
			case "one that waits":
				_ = processes[2].Process.Kill()
				processes = processes[:2]
			case "the one that renews":
				_ = processes[0].Process.Kill()
				processes = processes[1:]
				<-arrived
			}
			close(answer)
			tokens := map[string]bool{}
			for _, p := range processes {
				out, err := io.ReadAll(p.out)
				if err != nil || p.Wait() != nil {
					t.Errorf("%v: %s", err, out)
				}
				for token := range strings.FieldsSeq(string(out)) {
					tokens[token] = true
				}
			}
			f.with(func() {
				if len(tokens) != 1 || len(f.forms) != 2 {
					t.Errorf("the tokens are %v, from %d token requests", tokens, len(f.forms))
				}
			})
		})
	}
}

func BenchmarkKeyed_Token(b *testing.B) {
	s := openIn(b.TempDir(), os.Getenv)
	key := strings.Repeat("a", 32)
	kept := &signIn{Version: storeVersion, Resource: "https://a.example/mcp", TokenEndpoint: "https://a.example/token", Target: "https://a.example/mcp",
		grant: grant{AccessToken: "x", Expires: time.Now().Add(time.Hour)}}
	if err := s.records.write(b.Context(), s.records.grant(key), kept); err != nil {
		b.Fatal(err)
	}
	source, err := s.Keyed(key, kept.Target)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := source.Token(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// A target's sign-ins end together: those of every issuer and client. Others are kept.
func TestSignOutAll(t *testing.T) {
	t.Parallel()
	f, s := newFake(t), testStore(t)
	first := f.mustSignInKeyed(s, nil)
	second := f.mustSignInKeyed(s, func(r *Request) { r.Client = Registered{ID: "mine"} })
	other := f.mustSignInKeyed(s, func(r *Request) { r.Target = f.url + "/below" })
	if first.Key == second.Key || first.Key == other.Key {
		t.Fatalf("keys %s, %s, %s", first.Key, second.Key, other.Key)
	}
	all, err := s.SignOutAll(t.Context(), f.url)
	if err != nil || len(all) != 2 {
		t.Fatalf("%d sign-ins ended, %v", len(all), err)
	}
	for _, key := range []string{first.Key, second.Key} {
		if _, err := mustKeyed(t, s, key, f.url).Token(t.Context()); !errors.Is(err, ErrSignIn) {
			t.Errorf("%s: %v", key, err)
		}
	}
	if _, err := mustKeyed(t, s, other.Key, f.url+"/below").Token(t.Context()); err != nil {
		t.Errorf("the sign-in for another URL: %v", err)
	}
	if all, err := s.SignOutAll(t.Context(), f.url); err != nil || len(all) != 0 {
		t.Errorf("a second time: %d, %v", len(all), err)
	}
}
