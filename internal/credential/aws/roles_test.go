package aws

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/externalauth"
)

func claimsOf(t testing.TB, text string) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var claims map[string]any
	if err := d.Decode(&claims); err != nil {
		t.Fatal(err)
	}
	return claims
}

func arn(name string) string { return "arn:aws:iam::123456789012:role/" + name }

func priority(n int32) *int32 { return &n }

func compile(t testing.TB, spec *externalauth.AWSSTS) *Roles {
	t.Helper()
	roles, err := Compile(spec)
	if err != nil {
		t.Fatal(err)
	}
	return roles
}

// The mapping of the lowest priority counts; without priorities the first; else the fallback.
func TestRoles_Choose(t *testing.T) {
	t.Parallel()
	roles := compile(t, &externalauth.AWSSTS{FallbackRoleARN: arn("reader"), RoleMappings: []externalauth.RoleMapping{
		{RoleARN: arn("late"), Claim: "staff"},
		{RoleARN: arn("later"), Claim: "staff"},
		{RoleARN: arn("second"), Claim: "admins", Priority: priority(5)},
		{RoleARN: arn("first"), Matcher: `claims.sub == "root"`, Priority: priority(0)},
		{RoleARN: arn("third"), Claim: "admins", Priority: priority(5)},
	}})
	for claims, want := range map[string]string{
		`{"groups":["staff","admins"]}`:              "second",
		`{"groups":["staff","admins"],"sub":"root"}`: "first",
		`{"groups":["staff"]}`:                       "late",
		`{"groups":{"staff":true}}`:                  "late",
		`{"groups":["Staff"]}`:                       "reader",
		`{"groups":"staff"}`:                         "reader", // not a list: see member
		`{"groups":[["staff"]]}`:                     "reader",
		`{"groups":null}`:                            "reader",
		`{}`:                                         "reader",
	} {
		if got := roles.Choose(claimsOf(t, claims)); got != arn(want) {
			t.Errorf("%s: %s, want %s", claims, got, want)
		}
	}
	if got := roles.Choose(nil); got != arn("reader") {
		t.Errorf("no claims: %s", got)
	}
}

// Without a fallback and a match there is no role.
func TestRoles_None(t *testing.T) {
	t.Parallel()
	roles := compile(t, &externalauth.AWSSTS{RoleClaim: "roles", RoleMappings: []externalauth.RoleMapping{{RoleARN: arn("a"), Claim: "x"}}})
	if got := roles.Choose(claimsOf(t, `{"groups":["x"]}`)); got != "" {
		t.Error(got)
	}
	if got := roles.Choose(claimsOf(t, `{"roles":["x"]}`)); got != arn("a") {
		t.Error(got)
	}
}

// Expressions over claims. One that fails does not match.
func TestMatcher(t *testing.T) {
	t.Parallel()
	claims := claimsOf(t, `{
		"sub": "jo", "email": "jo@example.com", "email_verified": true, "level": 7, "ratio": 0.5, "big": 1e400, "nothing": null,
		"groups": ["a", "b"], "address": {"country": "DE"}, "https://example.com/dept": "ops"}`)
	for expression, want := range map[string]bool{
		`claims.sub == "jo"`:                                             true,
		`claims["sub"] == "jo"`:                                          true,
		`"a" in claims["groups"] && !("c" in claims.groups)`:             true,
		`claims.groups.exists(g, g.startsWith("b"))`:                     true,
		`claims.groups.exists_one(g, g == "z")`:                          false,
		`claims.email.endsWith("@example.com") && claims.email_verified`: true,
		`claims.email_verified`:                                          true,
		`claims.email.matches("^[a-z]+@")`:                               true,
		`claims.level >= 5`:                                              true,
		`claims.level > 6.5`:                                             true,
		`claims.level == 7.0`:                                            true,
		`claims.ratio < 1`:                                               true,
		`claims.address.country == "DE"`:                                 true,
		`claims["https://example.com/dept"] == "ops"`:                    true,
		`has(claims.tenant) && claims.tenant == "x"`:                     false,
		`claims.nothing == null`:                                         true,
		`size(claims.groups) == 2`:                                       true,
		`true`:                                                           true,
		// These fail.
		`claims.tenant == "x"`:       false,
		`claims.sub`:                 false,
		`claims.groups`:              false,
		`"jo" in claims.sub`:         false,
		`claims.level == "7"`:        false,
		`claims.big > 1`:             false,
		`claims.sub.country == "DE"`: false,
	} {
		m, err := compileMatcher(expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		if got, _ := m.evaluate(claims); got != want {
			t.Errorf("%s: %v", expression, got)
		}
		if got, _ := m.evaluate(nil); got && expression != "true" {
			t.Errorf("%s matches without claims", expression)
		}
	}
}

// An expression that is none, or whose result is no boolean, is a fault of the configuration,
// with its field.
func TestCompile_Faults(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		`claims.sub ==`:           "line 1, column 14",
		`"a"`:                     "its result is string",
		`size(claims.groups)`:     "its result is int",
		`user.sub == "jo"`:        "undeclared reference to 'user'",
		`claims.sub.matches("(")`: "",
		`env("HOME") == ""`:       "undeclared reference to 'env'",
		strings.Repeat("a", 5000): "",
		strings.Repeat("(", 4000): "",
		`[1].all(a, [1].all(b, [1].all(c, [1].all(d, true))))`: "",
	} {
		_, err := Compile(&externalauth.AWSSTS{FallbackRoleARN: arn("a"), RoleMappings: []externalauth.RoleMapping{
			{RoleARN: arn("a"), Claim: "x"}, {RoleARN: arn("a"), Matcher: expression},
		}})
		if err == nil || !strings.HasPrefix(err.Error(), "spec.awsSts.roleMappings[1].matcher: ") || !strings.Contains(err.Error(), want) || len(err.Error()) > 1000 {
			t.Errorf("%.40s: %v", expression, err)
		}
	}
}

// The work of an evaluation is bounded, whatever the claims are.
func TestMatcher_Cost(t *testing.T) {
	t.Parallel()
	m, err := compileMatcher(`claims.groups.all(a, claims.groups.all(b, a + b != "x"))`)
	if err != nil {
		t.Fatal(err)
	}
	groups := make([]any, 5000)
	for i := range groups {
		groups[i] = "group"
	}
	if matched, err := m.evaluate(map[string]any{"groups": groups}); matched || err == nil || !strings.Contains(err.Error(), "cost") {
		t.Errorf("%v, %v", matched, err)
	}
}

// An explanation has all mappings in their order, and why each matches or does not.
func TestExplain_Mappings(t *testing.T) {
	t.Parallel()
	roles := compile(t, &externalauth.AWSSTS{RoleMappings: []externalauth.RoleMapping{
		{RoleARN: arn("a"), Claim: "x"},
		{RoleARN: arn("b"), Matcher: `claims.tenant == "x"`, Priority: priority(1)},
		{RoleARN: arn("c"), Matcher: `true`},
		{RoleARN: arn("d"), Claim: "y", Priority: priority(0)},
	}})
	want := []struct {
		index   int
		matched bool
		reason  string
	}{
		{3, true, `the claim "groups" has "y"`},
		{1, false, "the expression fails: no such key: tenant"},
		{0, false, `the claim "groups" does not have "x"`},
		{2, true, "the expression is true"},
	}
	for i, got := range roles.explain(claimsOf(t, `{"groups":["y"]}`)) {
		if got.Index != want[i].index || got.Matched != want[i].matched || got.Reason != want[i].reason {
			t.Errorf("%d: %+v", i, got)
		}
	}
}

func TestSessionName(t *testing.T) {
	t.Parallel()
	for claims, want := range map[string]string{
		`{"sub":"jo"}`:                               "jo",
		`{"sub":"jo@example.com"}`:                   "jo@example.com",
		`{"sub":"auth0|5f7c8ec7c33c6c004bbafe82"}`:   "auth0-5f7c8ec7c33c6c004bbafe82",
		`{"sub":"a b/ü\u0000日"}`:                     "a-b----",
		`{"sub":"7"}`:                                "7-",
		`{"sub":42}`:                                 "42",
		`{"sub":"` + strings.Repeat("a", 100) + `"}`: strings.Repeat("a", 64),
		`{"sub":"` + strings.Repeat("日", 100) + `"}`: strings.Repeat("-", 64),
		`{"sub":"_+=,.@-"}`:                          "_+=,.@-",
		`{"sub":""}`:                                 "",
		`{"sub":["jo"]}`:                             "",
		`{"sub":true}`:                               "",
		`{"sub":null}`:                               "",
		`{}`:                                         "",
	} {
		got, err := sessionName("sub", claimsOf(t, claims))
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", claims, got, err, want)
		}
	}
}
