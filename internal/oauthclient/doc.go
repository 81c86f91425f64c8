// Package oauthclient gets and keeps access tokens for servers that protect
// themselves with OAuth, on behalf of the person at this machine. It knows HTTP
// and OAuth, and nothing of what the protected server does.
//
// A sign-in ([Store.SignIn]) starts with nothing but the URL of the resource: the
// resource's 401 leads to its metadata (RFC 9728), that to an authorization
// server, and that server's metadata (RFC 8414) to its endpoints. The client is
// one that the person names, or one that registers itself (RFC 7591). The person
// signs in with a browser, the code comes back to a port of this machine or is
// pasted, and is exchanged for tokens, bound to the resource (RFC 8707) and to
// this attempt (PKCE). What is kept is one file for each resource; a [Source]
// takes tokens from it and renews them, once for all processes.
//
// # Who may lead us where
//
// Every URL after the first is a server's word. It must be HTTPS, or HTTP on this
// machine; redirects are not followed; and which addresses may be connected to
// depends on where the resource itself is:
//
//   - What the person named, the resource and the issuer, may be anywhere. From
//     an issuer that the person named, everything it names may be, too.
//   - A resource that answered from this machine may name servers anywhere.
//   - A resource that answered from a private network may name servers there and
//     on the internet, not on this machine.
//   - A resource on the internet may name servers on the internet only.
//
// It is the address that answered which counts, never what a name says. The rule
// is kept with a sign-in and holds for its renewals.
//
// Tokens, codes, verifiers and secrets leave this package towards the server they
// belong to and into the store's files, never into an error, a log or an
// argument; what a server says in an error is cleaned of them.
package oauthclient
