//go:build integration

package scenario

import (
	"bufio"
	"bytes"
	"io/fs"
	"net/http"
	"net/textproto"
	"os"
	"path/filepath"
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
}

// accessToken is the command token NAME USER RESOURCE: it logs a person in at the script's
// identity provider and sets NAME to the access token.
func accessToken(ts *testscript.TestScript, _ bool, args []string) {
	tokens := here(ts).idp.UserTokens(ts.Value(testKey{}).(testing.TB), args[1], args[2], "tools")
	ts.Setenv(args[0], tokens.AccessToken)
}

// responseHeader is the command header NAME FIELD: it sets NAME to a field of the last
// response of http.
func responseHeader(ts *testscript.TestScript, _ bool, args []string) {
	head, err := textproto.NewReader(bufio.NewReader(strings.NewReader(ts.ReadFile("headers") + "\r\n"))).ReadMIMEHeader()
	ts.Check(err)
	ts.Setenv(args[0], http.Header(head).Get(args[1]))
}

// nowhere VALUE... checks that no file of the script's thv holds a value: not its state,
// not its logs. Of a JWT its claims and its signature count too.
func nowhere(ts *testscript.TestScript, _ bool, args []string) {
	var pieces []string
	for _, value := range args {
		pieces = append(pieces, value)
		if parts := strings.Split(value, "."); len(parts) == 3 {
			pieces = append(pieces, parts[1:]...)
		}
	}
	files := 0
	p := here(ts)
	for _, dir := range []string{p.state, p.runtime, p.config} {
		ts.Check(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			files++
			for _, piece := range pieces {
				if len(piece) > 10 && bytes.Contains(content, []byte(piece)) {
					ts.Fatalf("%s holds %.40s", path, piece)
				}
			}
			return nil
		}))
	}
	if files < 3 {
		ts.Fatalf("only %d files were read", files)
	}
}
