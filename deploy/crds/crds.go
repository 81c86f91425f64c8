// Package crds has the CustomResourceDefinitions of toolhaven.dev. `make generate-api` makes
// the files from the types of api/v1beta1.
package crds

import "embed"

// Files are the definitions, a YAML file for each kind.
//
//go:embed toolhaven.dev_*.yaml
var Files embed.FS
