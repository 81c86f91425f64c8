package tokens

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

// Row is a credential that must be refused with 401.
type Row struct {
	Rule, Name string
	Header     http.Header
	// Code is the error of RFC 6750 section 3.1, "" where no bearer credential was sent.
	Code string
	// Why is a part of the reason in the log.
	Why string
}

// Errors of RFC 6750 section 3.1.
const (
	InvalidToken   = "invalid_token"
	InvalidRequest = "invalid_request"
)

// Bearer is the header with a token.
func Bearer(token string) http.Header {
	return http.Header{"Authorization": {"Bearer " + token}}
}

// Refused are all rows. trap is the URL of a server that must receive no request.
func Refused(t testing.TB, i Issuer, trap string) []Row {
	t.Helper()
	mallory := NewKey(t, i.Key.KeyID)
	return slices.Concat(InvalidClaims(t, i), Forged(t, i, mallory, trap), Malformed(i.Token(t, nil), i.Token(t, nil), i.Long(t, 13<<10)))
}

// Forged are tokens that the issuer has not signed, or not so. mallory is another key of the
// same id, which is at trap.
func Forged(t testing.TB, i Issuer, mallory jose.JSONWebKey, trap string) []Row {
	t.Helper()
	good := i.Claims(nil)
	root := func() string { return i.Claims(map[string]any{"sub": "root", "scope": "mcp-registry:write"}) }
	parts := strings.Split(Mint(t, i.Key, good), ".")
	public, err := x509.MarshalPKIXPublicKey(i.Key.Public().Key)
	if err != nil {
		t.Fatal(err)
	}
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	id := i.Key.KeyID
	keyed := func(secret []byte) string {
		input := B64(fmt.Sprintf(`{"alg":"HS256","kid":%q,"typ":"at+jwt"}`, id)) + "." + B64(root())
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(input))
		return input + "." + B64(string(mac.Sum(nil)))
	}
	const notAccepted, notValid = "the signature algorithm is not accepted", "its signature is not valid"
	noKey := notValid // of a key of another type
	if i.Key.Algorithm != mallory.Algorithm {
		noKey = "no key of the provider fits"
	}
	head := func(more string) string {
		return fmt.Sprintf(`{"alg":%q,"kid":%q%s}`, mallory.Algorithm, id, more)
	}
	return tokenRows([]tokenRow{
		{"RFC 8725 3.1", "alg none, without a signature", B64(`{"alg":"none","typ":"at+jwt"}`) + "." + B64(root()) + ".", notAccepted},
		{"RFC 8725 2.1", "HS256 with the public key as PEM", keyed(publicPEM), notAccepted},
		{"RFC 8725 2.1", "HS256 with the public key as PEM, without the last line break", keyed(publicPEM[:len(publicPEM)-1]), notAccepted},
		{"RFC 8725 2.1", "HS256 with the public key as DER", keyed(public), notAccepted},
		{"RFC 7515 5.2", "claims changed", parts[0] + "." + B64(root()) + "." + parts[2], notValid},
		{"RFC 7515 5.2", "another's key under the same id", Mint(t, mallory, root()), noKey},
		{"RFC 8725 3.10", "jku: a place of keys in the header", Forge(t, mallory, head(`,"jku":"`+trap+`/jwks"`), root()), noKey},
		{"RFC 8725 3.10", "jku without a key id", Forge(t, mallory, fmt.Sprintf(`{"alg":%q,"jku":"`+trap+`/jwks"}`, mallory.Algorithm), root()), noKey},
		{"RFC 8725 3.10", "x5u: a place of certificates in the header", Forge(t, mallory, head(`,"x5u":"`+trap+`/jwks"`), root()), noKey},
		{"RFC 8725 3.10", "the forger's place as the issuer", Mint(t, mallory, Issuer{URL: trap, Audience: i.Audience}.Claims(nil)), "another issuer"},
		{"RFC 7515 4.1.4", "a key id that is SQL", Forge(t, i.Key, fmt.Sprintf(`{"alg":%q,"kid":"' OR 1=1 --"}`, i.Key.Algorithm), good), "no key of the provider has the token's key id"},
		{"RFC 7515 7.2", "the JSON serialization", B64(`{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`), ""},
	})
}

// InvalidClaims are tokens that the issuer has signed.
func InvalidClaims(t testing.TB, i Issuer) []Row {
	t.Helper()
	with := func(name string, value any) string { return i.Token(t, map[string]any{name: value}) }
	raw := func(name, value string) string { return with(name, json.RawMessage(value)) }
	text := func(claims string) string { return Mint(t, i.Key, claims) }
	at := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	const noExpiry, expired, early, audience = "it has no expiry that can be read", "it has expired", "it is not valid yet", "the audience does not match"
	iss := fmt.Sprintf(`"iss":%q`, i.URL)
	return tokenRows([]tokenRow{
		// It is accepted when it is 10 s old: it comes first.
		{"RFC 7519 4.1.5", "nbf beyond the leeway: our clock is behind", with("nbf", at(40*time.Second)), early},
		{"RFC 7519 4.1.4", "expired just beyond the leeway: our clock is ahead", with("exp", at(-31*time.Second)), expired},
		{"RFC 7519 4.1.4", "no expiry", with("exp", nil), noExpiry},
		{"RFC 7519 4.1.4", "exp 0", with("exp", 0), expired},
		{"RFC 7519 4.1.4", "exp an object", with("exp", map[string]int64{"exp": at(time.Hour)}), noExpiry},
		{"RFC 8259 6", "exp NaN", text(`{` + iss + `,"exp":NaN}`), "not JSON"},
		{"RFC 7519 4.1.5", "nbf null", raw("nbf", "null"), "its nbf cannot be read"},
		{"RFC 7519 4.1.3", "no audience", with("aud", nil), audience},
		{"RFC 7519 4.1.3", "another audience", with("aud", "https://other.example"), audience},
		{"RFC 7519 4.1.3", "ours with a slash behind it", with("aud", i.Audience+"/"), audience},
		{"RFC 7519 4.1.3", "ours in a list in a list", with("aud", []any{[]string{i.Audience}}), audience},
		{"RFC 7519 4.1.3", "a wildcard", with("aud", "*"), audience},
		{"RFC 7519 4.1.3", "null", raw("aud", "null"), audience},
		{"RFC 7519 4.1.1", "an issuer that is not configured", with("iss", "https://issuer.example"), "another issuer"},
		{"RFC 7519 4.1.1", "the issuer with a slash behind it", with("iss", i.URL+"/"), "another issuer"},
		{"RFC 7519 4.1.1", "no issuer", with("iss", nil), "another issuer"},
		{"RFC 7519 4", "claims named in capitals", text(fmt.Sprintf(`{"ISS":%q,"EXP":%d,"AUD":%q}`, i.URL, at(time.Hour), i.Audience)), "another issuer"},
		{"RFC 8725 3.11", "an ID token by its use", with("typ", "ID"), ""},
	})
}

// Long is a good token with a claim of n bytes.
func (i Issuer) Long(t testing.TB, n int) string {
	t.Helper()
	return i.Token(t, map[string]any{"pad": strings.Repeat("x", n)})
}

// Malformed are credentials whose form is wrong. good and other are accepted otherwise; long
// is a token of more than 16 KiB.
func Malformed(good, other, long string) []Row {
	authorization := func(values ...string) http.Header { return http.Header{"Authorization": values} }
	const more, form, tooLong = "more than one Authorization header", "not of the form", "the access token is too long"
	return []Row{
		{"RFC 6750 3.1", "nothing", nil, "", ""},
		{"RFC 6750 3.1", "another scheme", authorization("Basic " + good), "", ""},
		{"RFC 6750 3.1", "another scheme with bearer in its name", authorization("BearerX " + good), "", ""},
		{"RFC 6750 3.1", "the token alone", authorization(good), "", ""},
		{"RFC 9110 11.7.1", "for a proxy", http.Header{"Proxy-Authorization": {"Bearer " + good}}, "", ""},
		{"RFC 6750 2", "in a cookie", http.Header{"Cookie": {"access_token=" + good + "; Authorization=Bearer " + good}}, "", ""},
		{"RFC 6750 2", "in a header of our own invention", http.Header{"X-Access-Token": {good}, "X-Forwarded-Access-Token": {good}, "X-Forwarded-User": {"root"}}, "", ""},
		{"RFC 6750 2", "two Authorization headers, the same", authorization("Bearer "+good, "Bearer "+good), InvalidRequest, more},
		{"RFC 6750 2", "two Authorization headers, of two callers", authorization("Bearer "+good, "Bearer "+other), InvalidRequest, more},
		{"RFC 6750 2", "two Authorization headers, one of another scheme", authorization("Basic eDp5", "Bearer "+good), InvalidRequest, more},
		{"RFC 9110 11.6.2", "two credentials in one header", authorization("Bearer " + good + ", Bearer " + other), InvalidRequest, form},
		{"RFC 6750 2.1", "two blanks", authorization("Bearer  " + good), InvalidRequest, form},
		{"RFC 6750 2.1", "a tab for the blank", authorization("Bearer\t" + good), "", ""},
		{"RFC 6750 2.1", "a tab within", authorization("Bearer " + good[:40] + "\t" + good[40:]), InvalidRequest, form},
		{"RFC 6750 2.1", "quotes", authorization(`Bearer "` + good + `"`), InvalidRequest, form},
		{"RFC 6750 2.1", "a parameter", authorization(`Bearer token="` + good + `"`), InvalidRequest, form},
		{"RFC 6750 2.1", "no token", authorization("Bearer"), InvalidRequest, form},
		{"RFC 6750 2.1", "letters that no token has", authorization("Bearer t\xf6k\xe9n"), InvalidRequest, form},
		{"bounds", "a token of more than 16 KiB, signed and all", Bearer(long), InvalidRequest, tooLong},
		{"bounds", "a token of 30 KiB", Bearer(strings.Repeat("a", 30<<10)), InvalidRequest, tooLong},
	}
}

type tokenRow struct{ rule, name, token, why string }

func tokenRows(rows []tokenRow) []Row {
	out := make([]Row, 0, len(rows))
	for _, r := range rows {
		out = append(out, Row{r.rule, r.name, Bearer(r.token), InvalidToken, r.why})
	}
	return out
}
