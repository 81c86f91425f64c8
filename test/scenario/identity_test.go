//go:build integration

package scenario

import (
	"bufio"
	"net/http"
	"net/textproto"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/toolhaven/toolhaven/test/idp"
)

// identityProvider is the command idp NAME [OPAQUE-RESOURCE...]: it starts the identity
// provider of package idp, which ends with the script, and sets NAME to its issuer,
// NAME_INTROSPECTION to its introspection endpoint, and NAME_CLIENT and NAME_SECRET to the
// client that may introspect.
func identityProvider(ts *testscript.TestScript, _ bool, args []string) {
	provider := idp.Start(ts.Value(testKey{}).(testing.TB), idp.Options{Opaque: args[1:], Scopes: []string{"tools"}})
	here(ts).idp = provider
	ts.Setenv(args[0], provider.Issuer)
	ts.Setenv(args[0]+"_INTROSPECTION", provider.IntrospectionURL())
	ts.Setenv(args[0]+"_CLIENT", idp.IntrospectionClient)
	ts.Setenv(args[0]+"_SECRET", idp.IntrospectionSecret)
	here(ts).secrets.add(idp.IntrospectionSecret, idp.ServiceSecret)
}

// accessToken is the command token NAME USER RESOURCE: it logs a person in at the script's
// identity provider and sets NAME to the access token.
func accessToken(ts *testscript.TestScript, _ bool, args []string) {
	tokens := here(ts).idp.UserTokens(ts.Value(testKey{}).(testing.TB), args[1], args[2], "tools")
	ts.Setenv(args[0], tokens.AccessToken)
	here(ts).secrets.add(tokens.AccessToken)
	if tokens.RefreshToken != "" {
		here(ts).secrets.add(tokens.RefreshToken)
	}
}

// responseHeader is the command header NAME FIELD: it sets NAME to a field of the last
// response of http.
func responseHeader(ts *testscript.TestScript, _ bool, args []string) {
	head, err := textproto.NewReader(bufio.NewReader(strings.NewReader(ts.ReadFile("headers") + "\r\n"))).ReadMIMEHeader()
	ts.Check(err)
	ts.Setenv(args[0], http.Header(head).Get(args[1]))
}
