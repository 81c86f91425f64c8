package authserver

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/authserver/upstream"
)

// issuing is a provider that issues software statements, each named by its text.
type issuing struct {
	*provider
	statements map[string]map[string]any
}

func (p issuing) Statement(_ context.Context, token, audience string) (map[string]any, bool, error) {
	switch token {
	case "unavailable":
		return nil, true, upstream.ErrUnavailable
	case "forged":
		return nil, true, errors.New("the signature is not valid")
	}
	claims := p.statements[token]
	return claims, claims != nil && audience != "", nil
}

// RFC 7591 sections 2.3, 3.1.1 and 3.2.
func TestRegister_Statement(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) {
		c.Upstreams = []Upstream{c.Upstreams[0], issuing{&provider{name: "company"}, map[string]map[string]any{
			"good":    {"iss": "x", "software_id": "1", "client_name": "Approved", "redirect_uris": []any{"http://127.0.0.1/approved"}},
			"no name": {"redirect_uris": []any{"https://a.example/"}},
			"nowhere": {"client_name": "Approved"},
			"broken":  {"client_name": "Approved", "redirect_uris": 7},
			"hostile": {"client_name": "Approved", "redirect_uris": []any{"javascript:1"}},
		}}}
	})
	register := func(statement string) *answer {
		return f.registering(`{"client_name":"Own","redirect_uris":["https://own.example/","https://two.example/"],"software_statement":"` + statement + `"}`)
	}
	for _, c := range []struct {
		rule, statement string
		status          int
		fault           string
	}{
		{"3.2.2: not valid", "forged", 400, "invalid_software_statement"},
		{"2.3: it must confirm what the person sees", "no name", 400, "invalid_software_statement"},
		{"2.3: it must confirm what the person sees", "nowhere", 400, "invalid_software_statement"},
		{"2: metadata of another type", "broken", 400, "invalid_software_statement"},
		{"5: what is confirmed is checked too", "hostile", 400, "invalid_redirect_uri"},
		{"too long", strings.Repeat("a", maxStatement+1), 400, "invalid_software_statement"},
		{"keys that cannot be fetched", "unavailable", 503, "temporarily_unavailable"},
	} {
		a := register(c.statement)
		if f.refuses(a, c.fault); a.StatusCode != c.status {
			t.Errorf("%s: %d", c.rule, a.StatusCode)
		}
	}
	ignored := register("of another issuer").json(t)
	if diff := cmp.Diff([]any{"Own", nil}, []any{ignored["client_name"], ignored["software_statement"]}); diff != "" {
		t.Error("3.1.1: a statement of another issuer is ignored: " + diff)
	}
	got := register("good").json(t) // it has precedence, and is returned
	if diff := cmp.Diff([]any{"Approved", "good", []any{"http://127.0.0.1/approved"}}, []any{got["client_name"], got["software_statement"], got["redirect_uris"]}); diff != "" {
		t.Fatal(diff)
	}
	confirmed := func(client any, redirect string) bool {
		f.client = client.(string)
		offered := f.toConsent("redirect_uri", redirect) // the second provider's page
		a := f.post(f.browser, pathConnect, url.Values{"login": {f.handle(offered)}, "provider": {""}})
		if a.StatusCode != http.StatusOK {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
		return strings.Contains(a.body, "company confirms the name")
	}
	if !confirmed(got["client_id"], "http://127.0.0.1:7/approved") || confirmed(ignored["client_id"], "https://own.example/") {
		t.Error("the page of consent does not show which name is confirmed")
	}
}
