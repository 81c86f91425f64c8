package base

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/oauthclient"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// EnvClientMetadata is the environment variable with the URL of a client id metadata
// document for thv: docs/remote-servers.md has its content.
const EnvClientMetadata = "THV_CLIENT_METADATA_URL"

// probes are requests that a protected server answers with 401. The first one begins no
// session at a server that accepts it.
var probes = [][]byte{
	[]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`),
	[]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + string(mcp.LatestSession) + `","capabilities":{},"clientInfo":{"name":"thv","version":"1"}}}`),
}

// LoginRequest returns the sign-in at the remote server of a Spec.
func LoginRequest(a *App, s *workload.Spec) oauthclient.Request {
	auth := s.Remote.Auth
	if auth == nil {
		auth = &workload.RemoteAuth{}
	}
	r := oauthclient.Request{
		Target: s.Remote.URL, Bodies: probes, Keyed: true,
		Issuer: auth.Issuer, AuthorizeURL: auth.AuthorizeURL, TokenURL: auth.TokenURL,
		Scopes: auth.Scopes, ScopeParam: auth.ScopeParam, Indicator: auth.Resource,
		CallbackPort: auth.CallbackPort, PreferredPort: workload.DefaultCallbackPort,
		Patience: cmp.Or(time.Duration(auth.Timeout), workload.DefaultLoginTimeout),
		Client: oauthclient.Registered{
			ID: auth.ClientID, SecretRef: auth.ClientSecret, SecretFile: auth.ClientSecretFile, MetadataURL: a.Env(EnvClientMetadata),
		},
	}
	HowToSignIn(a, &r, "--remote-auth-skip-browser", auth.SkipBrowser)
	return r
}

// HowToSignIn sets how the address to sign in at is shown, and opens a browser. without is
// the flag or command for a machine that has none.
func HowToSignIn(a *App, r *oauthclient.Request, without string, skipBrowser bool) {
	if skipBrowser {
		r.Paste = a.In
		r.Complain = func(text string) { fmt.Fprintln(a.Err, plaintext.Line(text)) }
		r.Show = func(address string) {
			fmt.Fprintf(a.Err, "Open this address in a browser, on any machine:\n\n  %s\n\nThen paste the address that the browser ended at, even if it shows no page:\n", plaintext.Line(address))
		}
		return
	}
	r.Show = func(address string) {
		fmt.Fprintf(a.Err, "Sign in in the browser, at this address:\n\n  %s\n\n", plaintext.Line(address))
		if err := oauthclient.OpenBrowser(address); err != nil {
			fmt.Fprintf(a.Err, "%s; open the address yourself, or use %s on a machine without one\n", plaintext.Line(err.Error()), without)
		}
	}
}

// PrintLogin reports a sign-in.
func PrintLogin(a *App, login *oauthclient.Login) {
	if login.Reused {
		fmt.Fprintf(a.Err, "using the login to %s at %s\n", plaintext.Line(login.Resource), plaintext.Line(login.Issuer))
		return
	}
	fmt.Fprintf(a.Err, "logged in to %s at %s\n", plaintext.Line(login.Resource), plaintext.Line(login.Issuer))
	if !login.Renews && !login.Expires.IsZero() {
		fmt.Fprintf(a.Err, "Note: the login ends at %s; the authorization server does not let it be renewed\n", login.Expires.Local().Format(time.DateTime))
	}
}

// NoteUnrevoked reports tokens that a sign-out could not revoke.
func NoteUnrevoked(w io.Writer, out *oauthclient.Logout) {
	if out.Problem != nil {
		fmt.Fprintf(w, "Note: the authorization server could not revoke the tokens, which may be valid until they expire: %s\n", plaintext.Line(out.Problem.Error()))
	}
}
