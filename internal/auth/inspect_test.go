package auth

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
)

// Inspect asks nobody: its providers do not exist.
func TestInspectSaysWhatMatchesAndWhatDoesNot(t *testing.T) {
	s := newSigner(t, jose.ES256, "k1")
	set := []byte(`{"keys":[` + jwkText(t, s.public(), nil) + `]}`)
	otherSet := []byte(`{"keys":[` + jwkText(t, newSigner(t, jose.ES256, "k2").public(), nil) + `]}`)
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
		opt      InspectOptions
		outcomes map[string]string
		says     []string
		possible bool
	}{
		"a good token": {s.sign(t, "at+jwt", good), InspectOptions{},
			map[string]string{"main": Unproven, "other": NotTried, "asks": Unproven},
			[]string{
				"form: jwt\n",
				"provider main: unproven (everything but the signature holds)\n",
				`  issuer     ok          expected "https://issuer.example", got "https://issuer.example"`,
				`  audience   ok          expected "registry", got "registry"`,
				`  expiry     ok          got "2026-01-02T04:04:05Z"`,
				`  type       ok          expected "at+jwt, JWT or none", got "at+jwt"`,
				`  algorithm  ok          expected "RS, PS, ES or EdDSA", got "ES256"`,
				`  signature  not checked got "kid k1": offline: the provider's keys are not at hand`,
				"provider other: not tried (the token names another issuer)\n",
				`  issuer     mismatch    expected "https://issuer.example/", got "https://issuer.example": the issuer does not match`,
				"provider asks: unproven (refused as a JWT; https://issuer.example/introspect is asked after that)\n",
				`  audience   mismatch    expected "gateway", got "registry": the audience does not match`,
			}, true},
		"with keys at hand": {s.sign(t, "", good), InspectOptions{KeySets: map[string][]byte{"main": set}, Scopes: []string{"a"}},
			map[string]string{"main": Accepted}, []string{"signature  ok", `scopes     ok          expected "a", got "a b"`}, true},
		"with other keys": {s.sign(t, "", good), InspectOptions{KeySets: map[string][]byte{"main": otherSet}},
			map[string]string{"main": Refused}, []string{`signature  mismatch    expected "kid k2", got "kid k1": no key`}, true},
		"with a key set that is none": {s.sign(t, "", good), InspectOptions{KeySets: map[string][]byte{"main": []byte("{}")}},
			map[string]string{"main": Unproven}, []string{"signature  not checked", "the key set cannot be used"}, true},
		"a scope that is missing": {s.sign(t, "", good), InspectOptions{Scopes: []string{"a", "write"}},
			map[string]string{"main": Unproven}, []string{`scopes     mismatch    expected "a write", got "a b": it lacks the scope write`}, true},
		"expired": {s.sign(t, "", changed("exp", now.Add(-time.Hour).Unix())), InspectOptions{},
			map[string]string{"main": Refused}, []string{`expiry     mismatch    expected "after 2026-01-02T03:04:05Z", got "2026-01-02T02:04:05Z": it has expired`}, true},
		"not valid yet": {s.sign(t, "", changed("nbf", now.Add(time.Hour).Unix())), InspectOptions{},
			map[string]string{"main": Refused}, []string{"not before mismatch"}, true},
		"an ID token": {s.sign(t, "id_token", good), InspectOptions{},
			map[string]string{"main": Refused}, []string{`problem: it is a token of another type (expected "at+jwt, JWT or none", got "id_token")`}, true},
		"not signed": {b64(`{"alg":"none"}`) + "." + b64(`{"iss":"https://issuer.example"}`) + ".", InspectOptions{},
			map[string]string{"main": Refused}, []string{`got "none"`, "signature  not checked"}, true},
		"of nobody": {s.sign(t, "", changed("iss", "https://x.example")), InspectOptions{},
			map[string]string{"main": NotTried, "asks": NotTried}, nil, false},
		"claims that cannot be read": {s.raw(t, `{"alg":"ES256","kid":"k1"}`, `{"iss":"a","iss":"b"}`), InspectOptions{},
			map[string]string{"main": NotTried}, []string{"problem: its claims cannot be read: it has two members of one name"}, false},
		"opaque": {"opaque", InspectOptions{},
			map[string]string{"main": NotTried, "asks": Unproven}, []string{"form: opaque", "only https://issuer.example/introspect can say"}, true},
		"nothing": {"", InspectOptions{}, nil, []string{"form: unusable", "problem: it is empty"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c.opt.Now = func() time.Time { return now }
			report := Inspect(c.token, providers, c.opt)
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

// Inspect and a Validator that has the keys come to the same end.
func TestInspectAgreesWithTheValidator(t *testing.T) {
	p := newIssuer(t)
	s, forger := newSigner(t, jose.ES256, "k1"), newSigner(t, jose.ES256, "k1")
	p.publish(s)
	v := newValidator(t, p.provider("main"))
	set := []byte(`{"keys":[` + jwkText(t, s.public(), nil) + `]}`)
	for name, token := range map[string]string{
		"good":           s.sign(t, "", p.claims(nil)),
		"forged":         forger.sign(t, "", p.claims(nil)),
		"other audience": s.sign(t, "", p.claims(map[string]any{"aud": "x"})),
		"expired":        s.sign(t, "", p.claims(map[string]any{"exp": 1})),
		"ID token":       s.sign(t, "id_token", p.claims(nil)),
		"bad subject":    s.sign(t, "", p.claims(map[string]any{"sub": 1})),
		"other issuer":   s.sign(t, "", p.claims(map[string]any{"iss": "https://x"})),
	} {
		_, err := v.Validate(t.Context(), token)
		report := Inspect(token, []Provider{p.provider("main")}, InspectOptions{KeySets: map[string][]byte{"main": set}})
		if (err == nil) != (report.Providers[0].Outcome == Accepted) {
			t.Errorf("%s: %s, but\n%s", name, reasons(err), report)
		}
	}
}
