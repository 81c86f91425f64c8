// Package authserver is an OAuth 2.1 authorization server for one protected resource, the
// gateway that it is part of. Persons sign in at upstream identity providers; clients get
// tokens of this server only.
//
// The path of a login: /oauth/authorize checks the client's request, the browser is sent to
// an upstream provider, /oauth/callback receives the person's identity and the provider's
// tokens, a page asks the person for consent, and the client receives a code. The token
// endpoint exchanges it for an access token, a JWT (RFC 9068), and a refresh token.
//
// What the server keeps is in a [storage.Store], sealed, under hashes: logins under way, used
// codes, and one record for each session. A session has a generation number, from which its
// refresh token is derived, so no token is stored. Clients are not stored either: a
// client_id is the sealed registration itself (RFC 7591), or the URL of the client's
// metadata document.
//
// Access tokens are verified with keys alone: while the store cannot be reached, calls go on
// and logins fail with 503.
package authserver
