// Package oauth is the client side of OAuth 2.1 as far as all clients share it: the
// metadata of an authorization server (RFC 8414, OpenID Connect Discovery), the
// registration of a client (RFC 7591), the authorization request and the check of its
// response (PKCE, RFC 9207), and the token request. golang.org/x/oauth2 builds and parses the requests and responses;
// the checks are here.
//
// It keeps no state, except in a [Shared], and decides nothing about addresses: the caller passes a
// [Sender], which connects only where the caller permits it. internal/oauthclient
// uses it to sign a person in from a terminal, internal/registry/web for browsers,
// internal/authserver/upstream for clients of a gateway, internal/auth to find a
// provider's keys.
//
// Codes, verifiers, tokens and secrets are in no error. Text of a server in an error
// is cleaned by package plaintext.
package oauth
