//go:build integration

package registry

import (
	"compress/gzip"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/toolhaven/toolhaven/test/idp"
	"github.com/toolhaven/toolhaven/test/tokens"
)

// Identity providers that are out of order, or worse: all of them are configured
// at once, beside one that is well, whose tokens must not notice.

// outOfOrder is a provider of one program: what is at its place of keys, or, with
// discovery, in its metadata.
type outOfOrder struct {
	rule, name string
	discovery  bool
	answer     http.HandlerFunc
	why        string // in the log
}

func text(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		fmt.Fprint(w, body)
	}
}

func asJSON(body string) http.HandlerFunc { return text("application/json", body) }

func status(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
}

func redirect(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
}

// endless repeats a text until the other side has had enough.
func endless(start, again string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, start)
		chunk := strings.Repeat(again, 32<<10/len(again))
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
	}
}

// hang accepts the request and sends nothing.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// drip sends a few bytes at a time.
func drip(w http.ResponseWriter, r *http.Request) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for r.Context().Err() == nil {
		<-tick.C
		if _, err := io.WriteString(w, " "); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
	}
}

func bomb(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Encoding", "gzip")
	w.Header().Set("Content-Type", "application/json")
	z := gzip.NewWriter(w)
	for range 64 {
		if _, err := z.Write(make([]byte, 1<<20)); err != nil {
			return
		}
	}
	z.Close()
}

// rawly writes bytes for an answer.
func rawly(answer string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, answer)
	}
}

func jwk(t *testing.T, key jose.JSONWebKey, change map[string]any) string {
	t.Helper()
	b, err := json.Marshal(key)
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(b, &members); err != nil {
		t.Fatal(err)
	}
	for name, v := range change {
		members[name] = v
		if v == nil {
			delete(members, name)
		}
	}
	if b, err = json.Marshal(members); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestProvider_Hostile(t *testing.T) {
	t.Parallel()
	key := tokens.NewKey(t, "k1")
	weakKey, err := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // that is the point
	if err != nil {
		t.Fatal(err)
	}
	weak := jose.JSONWebKey{Key: weakKey, KeyID: "k1", Algorithm: "RS256", Use: "sig"}
	healthy := idp.Start(t, idp.Options{})
	trap, bad := newRogue(t), newRogue(t)
	trap.says("/jwks", keySet(key))
	public := jwk(t, key.Public(), nil)
	set := `{"keys":[` + public + `]}`
	const noKey, notList = "it has no public key that can be used", "it has no list of keys"
	meta := func(issuer, jwks string) string { return fmt.Sprintf(`{"issuer":%s,"jwks_uri":%s}`, issuer, jwks) }
	own := `"` + bad.URL + `/%s"` // the row's own issuer
	jwksURI := `"` + trap.URL + `/jwks"`

	rows := []outOfOrder{
		{"RFC 9110 15.4", "keys redirected", false, redirect(trap.URL + "/jwks"), "a redirect, which is not followed"},
		{"RFC 9110 15.4", "keys redirected in a circle", false, redirect("?"), "a redirect, which is not followed"},
		{"bounds", "keys without end", false, endless(`{"keys":[`, "{},"), "larger than"},
		{"bounds", "blanks without end", false, endless("", " "), "larger than"},
		{"bounds", "keys of more than 1 MiB", false, asJSON(set + strings.Repeat(" ", 1<<20)), "larger than"},
		{"bounds", "a gzip bomb", false, bomb, "larger than"},
		{"bounds", "a header without end", false, rawly("HTTP/1.1 200 OK\r\n" + strings.Repeat("X: "+strings.Repeat("x", 1000)+"\r\n", 500)), "header"},
		{"bounds", "101 keys", false, asJSON(`{"keys":[` + strings.Repeat(public+",", 100) + public + `]}`), "more than 100 keys"},
		{"bounds", "keys nested deeply", false, asJSON(`{"keys":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`), "nested too deeply"},
		{"bounds", "keys that hang", false, hang, "no whole answer in time"},
		{"bounds", "keys that drip", false, drip, "no whole answer in time"},
		{"RFC 9110 15", "keys with 500", false, status(500, set), "answered 500"},
		{"RFC 9110 15", "keys with 404", false, status(404, set), "answered 404"},
		{"RFC 9110 15", "keys with 206", false, status(206, set), "answered 206"},
		{"RFC 9110 15", "keys with 204", false, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, "answered 204"},
		{"RFC 9110 2", "something that is no HTTP", false, rawly("SSH-2.0-OpenSSH_9.2\r\n"), "malformed HTTP"},
		{"RFC 9110 8.6", "keys cut short", false, rawly("HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n{"), "unexpected EOF"},
		{"RFC 7517 5", "a web page", false, text("text/html; charset=utf-8", set), "answered a web page"},
		{"RFC 7517 5", "a web page that says it is JSON", false, asJSON("<html>"), "not a JSON object"},
		{"RFC 7517 5", "nothing", false, asJSON(""), "not a JSON object"},
		{"RFC 7517 5", "null", false, asJSON("null"), "not a JSON object"},
		{"RFC 7517 5", "a list of keys", false, asJSON(`[` + public + `]`), "not a JSON object"},
		{"RFC 7517 5.1", "keys that are an object", false, asJSON(`{"keys":{"k1":` + public + `}}`), notList},
		{"RFC 7517 5.1", "keys that are null", false, asJSON(`{"keys":null}`), notList},
		{"RFC 7517 5.1", "no keys", false, asJSON(`{"keys":[]}`), noKey},
		{"RFC 7517 4", "keys twice", false, asJSON(`{"keys":[],"keys":[` + public + `]}`), "two members of one name"},
		{"RFC 7517 4.2", "a key for encryption", false, asJSON(`{"keys":[` + jwk(t, key.Public(), map[string]any{"use": "enc"}) + `]}`), noKey},
		{"RFC 7517 4.3", "a key for signing alone", false, asJSON(`{"keys":[` + jwk(t, key.Public(), map[string]any{"key_ops": []string{"sign"}}) + `]}`), noKey},
		{"RFC 7517 9.2", "a private key", false, asJSON(`{"keys":[` + jwk(t, key, nil) + `]}`), noKey},
		{"RFC 8725 3.2", "a symmetric key", false, asJSON(`{"keys":[{"kty":"oct","kid":"k1","k":"` + base64.RawURLEncoding.EncodeToString(make([]byte, 32)) + `"}]}`), noKey},
		{"RFC 7518 3.3", "an RSA key of 1024 bits", false, asJSON(`{"keys":[` + jwk(t, weak.Public(), nil) + `]}`), noKey},

		{"OIDC Discovery 4.3", "metadata of another issuer", true, asJSON(meta(`"https://issuer.example"`, jwksURI)), "it is the metadata of another issuer"},
		{"OIDC Discovery 4.3", "metadata of the healthy provider", true, asJSON(meta(`"`+healthy.Issuer+`"`, `"`+healthy.JWKSURL()+`"`)), "it is the metadata of another issuer"},
		{"OIDC Discovery 4.3", "metadata with a slash behind the issuer", true, asJSON(meta(strings.Replace(own, `%s"`, `%s/"`, 1), jwksURI)), "it is the metadata of another issuer"},
		{"OIDC Discovery 4.3", "metadata without an issuer", true, asJSON(`{"jwks_uri":` + jwksURI + `}`), "it is the metadata of another issuer"},
		{"OIDC Discovery 4.3", "metadata of an issuer that is a list", true, asJSON(meta(`[`+own+`]`, jwksURI)), "is not of the type string"},
		{"RFC 8259 4", "metadata of two issuers", true, asJSON(`{"issuer":"https://x.example","issuer":` + own + `,"jwks_uri":` + jwksURI + `}`), "two members of one name"},
		{"OIDC Discovery 3", "metadata without jwks_uri", true, asJSON(`{"issuer":` + own + `}`), "jwks_uri: "},
		{"OIDC Discovery 3", "jwks_uri that is a number", true, asJSON(meta(own, "7")), "is not of the type string"},
		{"OIDC Discovery 3", "jwks_uri that is a path", true, asJSON(meta(own, `"/jwks"`)), "jwks_uri: "},
		{"OIDC Discovery 3", "jwks_uri that is a file", true, asJSON(meta(own, `"file:///etc/passwd"`)), "jwks_uri: "},
		{"OIDC Discovery 3", "jwks_uri without TLS", true, asJSON(meta(own, `"http://192.0.2.1/jwks"`)), "must be HTTPS"},
		{"OIDC Discovery 3", "jwks_uri with a password", true, asJSON(meta(own, `"https://user:password@issuer.example/jwks"`)), "must not have user information"},
		{"spec 2.1", "jwks_uri on a private address", true, asJSON(meta(own, `"https://10.0.0.1/jwks"`)), "the address is not a public one"},
		{"spec 2.1", "jwks_uri of the cloud's metadata", true, asJSON(meta(own, `"https://169.254.169.254/jwks"`)), "the address is not a public one"},
		{"spec 2.1", "jwks_uri on a private address as IPv6", true, asJSON(meta(own, `"https://[::ffff:10.0.0.1]/jwks"`)), "the address is not a public one"},
		{"RFC 9110 15.4", "metadata redirected", true, redirect(trap.URL + "/jwks"), "a redirect, which is not followed"},
		{"OIDC Discovery 4.2", "metadata that is a web page", true, text("text/html", "<html>"), "answered a web page"},
		{"bounds", "metadata without end", true, endless(`{"x":"`, "x"), "larger than"},
		{"bounds", "metadata that hangs", true, hang, "no whole answer in time"},
	}

	var healed atomic.Bool
	config := oauthConfig(t, "", healthy)
	for i, row := range rows {
		id := fmt.Sprintf("r%d", i)
		issuer := bad.URL + "/" + id
		own := func(handler http.HandlerFunc, well string) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				if healed.Load() {
					asJSON(well)(w, r)
					return
				}
				handler(&naming{w, id}, r)
			}
		}
		config += fmt.Sprintf("      - {name: %s, issuerUrl: %q, audience: %q", id, issuer, resource)
		if row.discovery {
			bad.serve("/"+id+discoveryPath, own(row.answer, meta(`"`+issuer+`"`, `"`+issuer+`/jwks"`)))
			bad.says("/"+id+"/jwks", set)
		} else {
			config += fmt.Sprintf(", jwksUrl: %q", issuer+"/jwks")
			bad.serve("/"+id+"/jwks", own(row.answer, set))
		}
		config += "}\n"
	}
	c := calls(t, serve(t, config))
	beside := besides(t, c, func() string { return tokens.Mint(t, healthy.SigningKey(), claims(healthy.Issuer, nil)) })

	t.Run("rows", func(t *testing.T) {
		for i, row := range rows {
			t.Run(row.rule+"/"+row.name, func(t *testing.T) {
				t.Parallel()
				issuer := fmt.Sprintf("%s/r%d", bad.URL, i)
				signer := key
				if strings.Contains(row.name, "1024") {
					signer = weak
				}
				refused(t, c.with(t, tokens.Mint(t, signer, claims(issuer, nil))), invalid)
				from := issuer + "/jwks"
				if row.discovery {
					from = issuer + discoveryPath
					if strings.HasPrefix(row.why, "the address") {
						from = "jwks" // the failing URL is that one
					}
				}
				// One line has the provider, the failing URL and the cause.
				eventually(t, "the log says "+row.why, func() error {
					lines := ""
					for line := range strings.Lines(c.log.String()) {
						if !strings.Contains(line, "cannot fetch keys") || !strings.Contains(line, fmt.Sprintf(`"provider":"r%d"`, i)) {
							continue
						}
						if strings.Contains(line, row.why) && strings.Contains(line, from) {
							return nil
						}
						lines += line
					}
					return fmt.Errorf("the log of this provider:\n%s", lines)
				})
			})
		}
	})
	if n := trap.hits.Load(); n != 0 {
		t.Errorf("where redirects and metadata of others lead was asked %d times", n)
	}
	// All providers work again; the program is not restarted.
	healed.Store(true)
	for i, row := range rows {
		issuer := fmt.Sprintf("%s/r%d", bad.URL, i)
		eventually(t, row.name+" is forgiven", func() error {
			if a := c.with(t, tokens.Mint(t, key, claims(issuer, nil))); a.status != http.StatusOK {
				return fmt.Errorf("%s", a)
			}
			return nil
		})
	}
	beside.stop(t)
}

// naming writes the row's name where its answer has %s.
type naming struct {
	http.ResponseWriter
	id string
}

func (n *naming) Write(b []byte) (int, error) {
	if _, err := io.WriteString(n.ResponseWriter, strings.ReplaceAll(string(b), "%s", n.id)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Unwrap lets http.ResponseController find what is underneath.
func (n *naming) Unwrap() http.ResponseWriter { return n.ResponseWriter }

// Samples of internal/auth's tables of introspection, and answers that these do not
// have.
func TestIntrospection_Hostile(t *testing.T) {
	t.Parallel()
	bad, trap := newRogue(t), newRogue(t)
	trap.says("/introspect", map[string]any{"active": true, "aud": resource})
	answers := map[string]http.HandlerFunc{}
	bad.serve("/introspect", func(w http.ResponseWriter, r *http.Request) {
		if handler := answers[r.FormValue("token")]; handler != nil {
			handler(w, r)
			return
		}
		asJSON(`{"active":false}`)(w, r)
	})
	good := fmt.Sprintf(`"aud":%q,"sub":"jo"`, resource)
	active := func(more string) http.HandlerFunc { return asJSON(`{"active":true,` + good + more + `}`) }
	now := time.Now().Unix()
	const notSaid = "it does not say whether the token is active"
	rows := []struct {
		rule, name string
		answer     http.HandlerFunc
		why        string // "" is accepted
	}{
		{"RFC 7662 2.2", "active", active(""), ""},
		{"RFC 7662 2.2", "active, with more", active(fmt.Sprintf(`,"iss":%q,"exp":%d,"token_type":"Bearer","scope":"a b"`, bad.URL, now+300)), ""},
		{"RFC 7662 2.2", "active as a list", asJSON(`{"active":[true],` + good + `}`), notSaid},
		{"RFC 7662 2.2", "nbf as text", active(`,"nbf":"1"`), "its nbf cannot be read"},
		{"RFC 9701 5", "a signed answer nobody asked for", text("application/token-introspection+jwt", "e30.e30.AAAA"), "not a JSON object"},
		{"RFC 9110 15.4", "a redirect that would carry the token along", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, trap.URL+"/introspect", http.StatusTemporaryRedirect)
		}, "a redirect, which is not followed"},
		{"RFC 9110 15", "500", status(500, `{"active":true,`+good+`}`), "answered 500"},
		{"bounds", "nested deeply", active(`,"x":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000)), "nested too deeply"},
		{"bounds", "hanging", hang, "no whole answer in time"},
	}
	tokens := make([]string, len(rows))
	for i, row := range rows {
		tokens[i] = rand.Text() + rand.Text()
		answers[tokens[i]] = row.answer
	}
	c := calls(t, serve(t, oauthHead+fmt.Sprintf("      - {name: asked, issuerUrl: %q, audience: %q, introspectionUrl: %q, jwksUrl: %q}\n", bad.URL, resource, bad.URL+"/introspect", bad.URL+"/jwks")))
	for i, row := range rows {
		t.Run(row.rule+"/"+row.name, func(t *testing.T) {
			since := c.mark()
			a := c.with(t, tokens[i])
			if row.why == "" {
				accepted(t, a)
				return
			}
			refused(t, a, invalid)
			c.said(t, since, "token refused", "asked: ", row.why)
			switch {
			case strings.Contains(row.why, "match"), strings.HasPrefix(row.why, "it"): // a token's fault, not a failing URL's
			default:
				c.said(t, since, bad.URL+"/introspect")
			}
		})
	}
	if n := trap.hits.Load(); n != 0 {
		t.Errorf("tokens were carried elsewhere %d times", n)
	}
}
