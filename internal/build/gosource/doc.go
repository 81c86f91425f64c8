// Package gosource finds the source code that the go command may read to compile a package,
// and packs it for a container.
package gosource
