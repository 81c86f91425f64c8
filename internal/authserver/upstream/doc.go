// Package upstream signs persons in at the identity providers of the authorization server:
// providers of OpenID Connect, and providers of OAuth 2.0 whose answers may follow no
// standard. An [externalauth.UpstreamProvider] describes one; it is validated there.
//
// A sign-in is [Provider.Authorize], which returns where the browser goes, and
// [Provider.Finish] with the parameters that the browser returns with. Between them the
// caller keeps the [Attempt]. The request has PKCE (RFC 7636), the caller's state, and a
// nonce for OpenID Connect. Finish redeems the code and determines the [Identity]:
//
//   - oidc: from the verified ID token, and the answer of userInfoOverride. The discovered
//     userinfo endpoint adds name and email where the ID token does not have those that the
//     scopes request. An answer whose sub is not that of the ID token is not used (OpenID
//     Connect Core 1.0 section 5.3.2); that of userInfoOverride fails the sign-in.
//   - oauth2: from the token response (identityFromToken), else from the userinfo endpoint,
//     else synthesized from the access token.
//
// [New] sends no request. Metadata and keys are fetched when they are needed, at a bounded
// rate, and are used for a day while the provider fails.
//
// Everything that a provider sends is hostile. Answers are bounded in size and time,
// redirects are not followed, names in JSON are unique. Requests go to the hosts of the
// configuration, on whichever network they are, and to public addresses; metadata cannot
// lead them to other private hosts. Tokens, codes and secrets are in no error; text of a
// provider in an error is cleaned.
package upstream
