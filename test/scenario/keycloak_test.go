//go:build integration && keycloak

package scenario

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/toolhaven/toolhaven/test/keycloak"
)

// The scripts that need Keycloak, which takes longer to install and to start than the other
// scripts together: make keycloak-test.
func TestKeycloak(t *testing.T) {
	cmds := commands()
	cmds["keycloak"] = startKeycloak
	testscript.Run(t, testscript.Params{
		Dir: "testdata/keycloak",
		Setup: func(env *testscript.Env) error {
			t, err := testOf(env)
			if err != nil {
				return err
			}
			return setup(env, t, "")
		},
		Cmds:                cmds,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// startKeycloak is the command keycloak NAME: it starts Keycloak, and sets NAME to its issuer,
// NAME_TOKEN_URL to its token endpoint, and NAME_TOKEN to an access token.
func startKeycloak(ts *testscript.TestScript, _ bool, args []string) {
	t := ts.Value(testKey{}).(testing.TB)
	provider := keycloak.Start(t, "http://127.0.0.1/not-used").Exchange(t)
	here(ts).approve = func(t testing.TB, authorize, _ string) string { return provider.SignIn(t, authorize) }
	token := provider.Token(t)
	ts.Setenv(args[0], provider.Issuer)
	ts.Setenv(args[0]+"_TOKEN_URL", provider.TokenURL())
	ts.Setenv(args[0]+"_TOKEN", token)
	here(ts).secrets.add(token, keycloak.ExchangerSecret)
}
