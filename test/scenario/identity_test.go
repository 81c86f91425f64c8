//go:build integration

package scenario

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/textproto"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/toolhaven/toolhaven/test/dex"
	"github.com/toolhaven/toolhaven/test/idp"
)

// identityProvider is the command idp [-tls FILE] NAME [OPAQUE-RESOURCE...]: it starts the
// identity provider of package idp, which ends with the script, and sets NAME to its issuer,
// NAME_INTROSPECTION to its introspection endpoint, and NAME_CLIENT and NAME_SECRET to the
// client that may introspect. With -tls it listens with TLS, and FILE gets the authority's
// certificate.
func identityProvider(ts *testscript.TestScript, _ bool, args []string) {
	t := ts.Value(testKey{}).(testing.TB)
	options := idp.Options{Scopes: []string{"tools", "admin"}}
	if args[0] == "-tls" {
		authority := idp.NewAuthority(t)
		ts.Check(os.WriteFile(ts.MkAbs(args[1]), authority.PEM, 0o600))
		options.CertPEM, options.KeyPEM = authority.Certificate(t, "127.0.0.1")
		args = args[2:]
	}
	options.Opaque = args[1:]
	provider := idp.Start(t, options)
	here(ts).idp, here(ts).approve = provider, provider.SignIn
	ts.Setenv(args[0], provider.Issuer)
	ts.Setenv(args[0]+"_INTROSPECTION", provider.IntrospectionURL())
	ts.Setenv(args[0]+"_CLIENT", idp.IntrospectionClient)
	ts.Setenv(args[0]+"_SECRET", idp.IntrospectionSecret)
	here(ts).secrets.add(idp.IntrospectionSecret, idp.ServiceSecret)
}

// dexProvider is the command dex NAME [REDIRECT...]: it starts Dex, the identity provider of
// package dex, whose tokens last five seconds, and sets NAME to its issuer. Its client agent
// has the redirect URIs. It exchanges tokens of the script's identity provider, if there is
// one, at NAME_EXCHANGE.
func dexProvider(ts *testscript.TestScript, _ bool, args []string) {
	options := dex.Options{TokenLifetime: 5 * time.Second, Redirects: args[1:]}
	if upstream := here(ts).idp; upstream != nil {
		options.Upstream = upstream.Issuer
	}
	provider := dex.Start(ts.Value(testKey{}).(testing.TB), options)
	here(ts).approve = func(t testing.TB, authorize, _ string) string { return provider.SignIn(t, authorize) }
	ts.Setenv(args[0], provider.Issuer)
	ts.Setenv(args[0]+"_EXCHANGE", provider.ExchangeURL())
	here(ts).secrets.add(dex.AgentSecret)
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

// signIn is the command signin USER browser|chromium|paste ARGS...: it runs thv, opens the
// address that it shows, in Chromium or as a browser does, and logs in at the script's
// identity provider. The redirect comes back to thv, or is pasted into it. The files
// signin.out and signin.err have what it wrote.
func signIn(ts *testscript.TestScript, neg bool, args []string) {
	t := ts.Value(testKey{}).(testing.TB)
	p := here(ts)
	cmd := exec.Command("timeout", append([]string{"--kill-after=5", "120", thvPath()}, args[2:]...)...)
	cmd.Dir = ts.Getenv("WORK")
	cmd.Env = append(append(os.Environ(), p.vars()...), "PATH=/nowhere", "THV_CLIENT_METADATA_URL="+ts.Getenv("THV_CLIENT_METADATA_URL"))
	var out, errOut bytes.Buffer
	cmd.Stdout = &out
	stdin, err := cmd.StdinPipe()
	ts.Check(err)
	stderr, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		errOut.WriteString(lines.Text() + "\n")
		address, shown := strings.CutPrefix(lines.Text(), "  http")
		if !shown {
			continue
		}
		if args[1] == "chromium" {
			logInWithChromium(ts, "http"+address, args[0])
			continue
		}
		back := p.approve(t, "http"+address, args[0])
		if args[1] == "paste" {
			_, err = io.WriteString(stdin, back+"\n")
			ts.Check(err)
			continue
		}
		resp, err := http.Get(back)
		ts.Check(err)
		resp.Body.Close()
	}
	err = cmd.Wait()
	ts.Check(os.WriteFile(ts.MkAbs("signin.out"), out.Bytes(), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("signin.err"), errOut.Bytes(), 0o600))
	if (err == nil) == neg {
		ts.Fatalf("thv: %v\n%s", err, errOut.String())
	}
}

// responseHeader is the command header NAME FIELD: it sets NAME to a field of the last
// response of http.
func responseHeader(ts *testscript.TestScript, _ bool, args []string) {
	head, err := textproto.NewReader(bufio.NewReader(strings.NewReader(ts.ReadFile("headers") + "\r\n"))).ReadMIMEHeader()
	ts.Check(err)
	ts.Setenv(args[0], http.Header(head).Get(args[1]))
}
