// Package build makes container images out of packages: npm's (npx://), PyPI's
// (uvx://) and Go's (go://).
//
// A Go program is compiled by the host's toolchain, or in a container of a builder
// image where the host has none or the request names one, and packed into an image
// from nothing: the static program, certificates, a user. npm and PyPI packages are
// installed on a base image by the engine's builder, and the executable they
// declare is linked to /app/server. Every image starts /app/server as a user
// that is not root and needs no network to do so.
//
// An image is named by what made it: resolved version, base image, options (see
// imageTag). A record of each request holds its result, so that the same
// request needs no registry and builds nothing for as long as the engine has the
// image. `@latest` and Request.Refresh resolve again.
//
// No name, version or argument is ever read by a shell: the commands of a
// generated Dockerfile are in exec form, and names are held to the strict
// grammars of their ecosystems first.
package build
