// Package oauthclient gets and keeps access tokens for servers that are protected by
// OAuth, for the user of this machine. The protocol itself is in package oauth; the
// protected server can be anything that uses HTTP.
//
// A sign-in ([Store.SignIn]) starts with the URL of the resource: the 401 response
// leads to the resource's metadata (RFC 9728), which names an authorization server,
// whose metadata (RFC 8414) names its endpoints. The client is one that the user
// names, or one that registers itself (RFC 7591). The user signs in with a browser.
// The code returns to a port of this machine, or is pasted, and is exchanged for
// tokens, which are bound to the resource (RFC 8707) and to this attempt (PKCE). The
// sign-in is kept in the user's secrets store. A [Source] returns its access token and
// renews it, once for all processes.
//
// # Which URLs are followed
//
// All URLs but the first are named by servers. They must be HTTPS, or HTTP on this
// machine. Redirects are not followed. Which addresses may be connected to depends on
// the address of the resource:
//
//   - The resource and the issuer that the user names may have any address, and so
//     may everything that such an issuer names.
//   - A resource that answered from this machine may name servers anywhere.
//   - A resource that answered from a private network may name servers there and on
//     the internet, not on this machine.
//   - A resource on the internet may name servers on the internet only.
//
// The address that answered decides, not its name. The rule is kept with a sign-in
// and holds for renewals.
//
// Tokens, codes, verifiers and secrets are sent only to the server they belong to and
// written only to the secrets store. They are in no error, log line or argument.
package oauthclient
