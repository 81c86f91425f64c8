// Package registry runs the built thv-registry as its users do: over HTTP, with
// real databases, identity providers and browsers. Every answer is held to the
// server's own OpenAPI document.
package registry
