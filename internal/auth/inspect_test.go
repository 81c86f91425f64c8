package auth

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
)

// Inspect sends no request: its providers do not exist.
func TestInspect(t *testing.T) {
	s := newSigner(t, jose.ES256, "k1")
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	providers := []Provider{
		{Name: "main", IssuerURL: "https://issuer.example", Audience: "registry"},
		{Name: "other", IssuerURL: "https://issuer.example/", Audience: "registry"},
		{Name: "asks", IssuerURL: "https://issuer.example", Audience: "gateway", IntrospectionURL: "https://issuer.example/introspect"},
	}
	good := map[string]any{"iss": "https://issuer.example", "aud": "registry", "sub": "jo", "exp": now.Add(time.Hour).Unix(), "scope": "a b"}
	changed := func(name string, v any) map[string]any {
		c := map[string]any{}
		for k, old := range good {
			c[k] = old
		}
		c[name] = v
		return c
	}
	for name, c := range map[string]struct {
		token    string
		outcomes map[string]string
		says     []string
		possible bool
	}{
		"a good token": {s.sign(t, "at+jwt", good),
			map[string]string{"main": Unproven, "other": NotTried, "asks": Unproven},
			[]string{
				"form: jwt\n",
				"provider main: unproven (everything but the signature holds)\n",
				`  issuer     ok          expected "https://issuer.example", got "https://issuer.example"`,
				`  audience   ok          expected "registry", got "registry"`,
				`  expiry     ok          got "2026-01-02T04:04:05Z"`,
				`  type       ok          expected "at+jwt, JWT or none", got "at+jwt"`,
				`  algorithm  ok          expected "RS, PS, ES or EdDSA", got "ES256"`,
				`  signature  not checked got "kid k1": offline: the provider's keys are not available`,
				"provider other: not tried (the token names another issuer)\n",
				`  issuer     mismatch    expected "https://issuer.example/", got "https://issuer.example": the issuer does not match`,
				"provider asks: unproven (refused as a JWT; https://issuer.example/introspect decides)\n",
				`  audience   mismatch    expected "gateway", got "registry": the audience does not match`,
			}, true},
		"expired": {s.sign(t, "", changed("exp", now.Add(-time.Hour).Unix())),
			map[string]string{"main": Refused}, []string{`expiry     mismatch    expected "after 2026-01-02T03:04:05Z", got "2026-01-02T02:04:05Z": it has expired`}, true},
		"not valid yet": {s.sign(t, "", changed("nbf", now.Add(time.Hour).Unix())),
			map[string]string{"main": Refused}, []string{"not before mismatch"}, true},
		"an ID token": {s.sign(t, "id_token", good),
			map[string]string{"main": Refused}, []string{`problem: it is a token of another type (expected "at+jwt, JWT or none", got "id_token")`}, true},
		"not signed": {b64(`{"alg":"none"}`) + "." + b64(`{"iss":"https://issuer.example"}`) + ".",
			map[string]string{"main": Refused}, []string{`got "none"`, "signature  not checked"}, true},
		"of nobody": {s.sign(t, "", changed("iss", "https://x.example")),
			map[string]string{"main": NotTried, "asks": NotTried}, nil, false},
		"claims that cannot be read": {s.raw(t, `{"alg":"ES256","kid":"k1"}`, `{"iss":"a","iss":"b"}`),
			map[string]string{"main": NotTried}, []string{"problem: its claims cannot be read: it has two members of one name"}, false},
		"opaque": {"opaque",
			map[string]string{"main": NotTried, "asks": Unproven}, []string{"form: opaque", "https://issuer.example/introspect decides"}, true},
		"nothing": {"", nil, []string{"form: unusable", "problem: it is empty"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			report := inspect(c.token, providers, 0, now)
			text := report.String()
			for _, want := range c.says {
				if !strings.Contains(text, want) {
					t.Errorf("does not say %q:\n%s", want, text)
				}
			}
			for _, p := range report.Providers {
				if want, ok := c.outcomes[p.Provider]; ok && p.Outcome != want {
					t.Errorf("%s: %s, want %s\n%s", p.Provider, p.Outcome, want, text)
				}
			}
			if report.Possible() != c.possible {
				t.Errorf("possible: %v\n%s", report.Possible(), text)
			}
			encoded, err := json.Marshal(report)
			if err != nil {
				t.Fatal(err)
			}
			var again Report
			if err := json.Unmarshal(encoded, &again); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(*report, again); diff != "" {
				t.Error(diff)
			}
			for _, part := range strings.Split(c.token, ".") {
				if len(part) > 8 && strings.Contains(text+string(encoded), part) {
					t.Errorf("the token is in the report:\n%s", text)
				}
			}
		})
	}
}

// Inspect and a Validator that has the keys agree, but for the signature.
func TestInspect_AgreesWithValidator(t *testing.T) {
	p := newIssuer(t)
	s := newSigner(t, jose.ES256, "k1")
	p.publish(s)
	v := newValidator(t, p.provider("main"))
	for name, token := range map[string]string{
		"good":           s.sign(t, "", p.claims(nil)),
		"other audience": s.sign(t, "", p.claims(map[string]any{"aud": "x"})),
		"expired":        s.sign(t, "", p.claims(map[string]any{"exp": 1})),
		"ID token":       s.sign(t, "id_token", p.claims(nil)),
		"bad subject":    s.sign(t, "", p.claims(map[string]any{"sub": 1})),
		"other issuer":   s.sign(t, "", p.claims(map[string]any{"iss": "https://x"})),
	} {
		_, err := v.Validate(t.Context(), token)
		report := Inspect(token, []Provider{p.provider("main")}, 0)
		if (err == nil) != (report.Providers[0].Outcome == Unproven) {
			t.Errorf("%s: %s, but\n%s", name, reasons(err), report)
		}
	}
}
