//go:build integration

package scenario

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	images "github.com/google/go-containerregistry/pkg/registry"
	oci "github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/toolhaven/toolhaven/internal/verify/verifytest"
)

// signingCommands are the commands for images that are signed. They share the sigstore
// instance of one run of the tests.
func signingCommands() map[string]command {
	sigstore, failed := verifytest.New()
	return map[string]command{
		// images VAR FILE starts a registry of images on this machine, sets VAR to its host
		// and port, and writes the trusted root of the sigstore instance into FILE.
		"images": func(ts *testscript.TestScript, _ bool, args []string) {
			ts.Check(failed)
			server := httptest.NewServer(images.New(images.WithReferrersSupport(true), images.Logger(log.New(io.Discard, "", 0))))
			ts.Defer(server.Close)
			ts.Setenv(args[0], strings.TrimPrefix(server.URL, "http://"))
			root, err := sigstore.TrustedRoot(time.Time{})
			ts.Check(err)
			ts.Check(os.WriteFile(ts.MkAbs(args[1]), root, 0o600))
		},
		// sign bundle|tag REF OWNER/REPOSITORY signs an image of that registry as a workflow
		// of a repository at GitHub, with a bundle or as older versions of cosign.
		"sign": func(ts *testscript.TestScript, _ bool, args []string) {
			tag, err := name.NewTag(args[1])
			ts.Check(err)
			desc, err := oci.Get(tag)
			ts.Check(err)
			digest, by := desc.Digest.String(), verifytest.Workflow(args[2])
			if args[0] == "tag" {
				payload, annotations, err := sigstore.Simple(by, digest)
				ts.Check(err)
				ts.Check(verifytest.Tag(tag.Repository, digest, ".sig", verifytest.SimpleType, payload, annotations))
				return
			}
			statement, err := verifytest.Statement(digest, "https://sigstore.dev/cosign/sign/v1", nil)
			ts.Check(err)
			bundle, err := sigstore.Bundle(by, statement)
			ts.Check(err)
			ts.Check(verifytest.Refer(tag.Repository, desc.Descriptor, bundle))
		},
	}
}
