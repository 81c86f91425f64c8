package oauthclient

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// RFC 9110 section 11.6.1 and RFC 6750 section 3.
func TestParseChallenges(t *testing.T) {
	bearerWith := func(pairs ...string) Challenge {
		c := Challenge{Scheme: "bearer", Params: map[string]string{}}
		for i := 0; i < len(pairs); i += 2 {
			c.Params[pairs[i]] = pairs[i+1]
		}
		return c
	}
	for name, c := range map[string]struct {
		fields []string
		want   []Challenge
	}{
		"none":                                 {nil, nil},
		"empty":                                {[]string{"", " , ,\t"}, nil},
		"a scheme alone":                       {[]string{"Bearer"}, []Challenge{{Scheme: "bearer"}}},
		"two schemes alone":                    {[]string{"Negotiate, BEARER"}, []Challenge{{Scheme: "negotiate"}, {Scheme: "bearer"}}},
		"a parameter":                          {[]string{`Bearer realm="x"`}, []Challenge{bearerWith("realm", "x")}},
		"a parameter that is a word":           {[]string{`Bearer error=invalid_token`}, []Challenge{bearerWith("error", "invalid_token")}},
		"names without regard to case":         {[]string{`bEARER Realm="x", SCOPE="a b"`}, []Challenge{bearerWith("realm", "x", "scope", "a b")}},
		"escapes, commas and equals in quotes": {[]string{`Bearer realm="a\"b\\c, d=e", scope="s"`}, []Challenge{bearerWith("realm", `a"b\c, d=e`, "scope", "s")}},
		"an empty value":                       {[]string{`Bearer realm=""`}, []Challenge{bearerWith("realm", "")}},
		"space around equals":                  {[]string{`Bearer realm = "x" , scope= y`}, []Challenge{bearerWith("realm", "x", "scope", "y")}},
		"empty elements of the list":           {[]string{`, Bearer realm="x",, ,scope="y",`}, []Challenge{bearerWith("realm", "x", "scope", "y")}},
		"several in one field": {[]string{`Basic realm="simple", Bearer realm="x", error="invalid_token", Negotiate YWJj==, DPoP algs="ES256"`}, []Challenge{
			{Scheme: "basic", Params: map[string]string{"realm": "simple"}}, bearerWith("realm", "x", "error", "invalid_token"),
			{Scheme: "negotiate", Token68: "YWJj=="}, {Scheme: "dpop", Params: map[string]string{"algs": "ES256"}},
		}},
		"several fields": {[]string{`Basic realm="simple"`, `Bearer realm="x"`}, []Challenge{
			{Scheme: "basic", Params: map[string]string{"realm": "simple"}}, bearerWith("realm", "x"),
		}},
		"the example of RFC 9110": {[]string{`Basic realm="simple", Newauth realm="apps", type=1, title="Login to \"apps\""`}, []Challenge{
			{Scheme: "basic", Params: map[string]string{"realm": "simple"}},
			{Scheme: "newauth", Params: map[string]string{"realm": "apps", "type": "1", "title": `Login to "apps"`}},
		}},
		"of our own registry": {[]string{`Bearer realm="mcp-registry", resource_metadata="https://r.example/.well-known/oauth-protected-resource"`},
			[]Challenge{bearerWith("realm", "mcp-registry", "resource_metadata", "https://r.example/.well-known/oauth-protected-resource")}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseChallenges(c.fields)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseChallenges_Malformed(t *testing.T) {
	for name, field := range map[string]string{
		"a quote that is not closed":   `Bearer realm="x`,
		"an escape at the end":         `Bearer realm="x\`,
		"a parameter without a scheme": `="x"`,
		"no scheme":                    `"x"`,
		"a parameter twice":            `Bearer scope="a", Scope="b"`,
		"no comma between parameters":  `Bearer a="b" c="d"`,
		"no comma between challenges":  `Bearer a="b" Basic`,
		"two words":                    `Bearer Basic realm="x"`,
		"a value is missing":           `Bearer realm=, scope="x", x==`,
		"a control character":          "Bearer realm=\"a\x1b[31m\"",
		"a line break":                 "Bearer realm=\"a\r\nX: y\"",
		"a token68 with parameters":    `Negotiate abc==, realm="x"`,
		"too many parameters":          "Bearer " + manyParams(maxParams+1),
		"too many challenges":          strings.Repeat("Bearer,", maxChallenges+1),
		"too long":                     `Bearer realm="` + strings.Repeat("x", maxChallengeBytes) + `"`,
		"a scheme that is not a word":  `Bea(rer realm="x"`,
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseChallenges([]string{`Basic realm="first"`, field})
			if err == nil {
				t.Fatalf("read as %+v", got)
			}
			if len(got) != 1 || got[0].Scheme != "basic" {
				t.Errorf("the well-formed field became %+v", got)
			}
			if strings.ContainsAny(err.Error(), "\x1b\r\n") {
				t.Errorf("the error repeats what the server said: %q", err)
			}
		})
	}
}

func manyParams(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat("p", i+1) + "=v,")
	}
	return b.String()
}

func TestBearer(t *testing.T) {
	all, err := ParseChallenges([]string{`Basic resource_metadata="https://a/"`, `Bearer realm="x"`, `Bearer resource_metadata="https://b/"`})
	if err != nil {
		t.Fatal(err)
	}
	if c, ok := bearer(all, "resource_metadata"); !ok || c.Params["resource_metadata"] != "https://b/" {
		t.Errorf("got %+v", c)
	}
	if c, ok := bearer(all, "scope"); !ok || c.Params["realm"] != "x" {
		t.Errorf("got %+v", c)
	}
	if _, ok := bearer(all[:1], "realm"); ok {
		t.Error("Basic was taken for Bearer")
	}
}

func FuzzParseChallenges(f *testing.F) {
	for _, s := range []string{
		`Bearer realm="x", scope="a b"`, `Basic realm="simple", Newauth realm="apps", type=1, title="Login to \"apps\""`,
		`Negotiate YWJj==, Bearer`, `Bearer a = b,,c="\\"`, "Bearer =", `"`, "\x00", `Bearer a="b" c`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, field string) {
		all, err := ParseChallenges([]string{field})
		if err != nil && all != nil {
			t.Errorf("a malformed field yields %+v", all)
		}
		if len(all) > maxChallenges {
			t.Errorf("%d challenges", len(all))
		}
		for _, c := range all {
			if c.Scheme == "" || c.Scheme != strings.ToLower(c.Scheme) || len(c.Params) > maxParams || c.Token68 != "" && c.Params != nil {
				t.Errorf("%+v", c)
			}
			for name, value := range c.Params {
				if name == "" || strings.ContainsAny(value, "\r\n\x00\x1b\x7f") {
					t.Errorf("%q = %q", name, value)
				}
			}
		}
	})
}

func TestOffersBearer(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]bool{
		"": false, "Bearer": true, `bearer scope="a"`: true, `Basic realm="a", Bearer error="invalid_token"`: true,
		`Basic realm="Bearer"`: false, `DPoP algs="ES256"`: false, `Bearer "`: false,
	} {
		if got := OffersBearer(http.Header{"Www-Authenticate": {field}}); got != want {
			t.Errorf("%q: %t, want %t", field, got, want)
		}
	}
}
