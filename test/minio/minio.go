// Package minio starts MinIO for tests, which test/setup/minio.sh builds: an STS and an S3 of
// other makers than the package awstest. It verifies web identities at their issuer, and
// signatures.
package minio

import (
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/test/local"
)

// ClientID is the audience of the tokens that it accepts.
const ClientID = "minio"

// Start starts a server that trusts an issuer, and ends it with the test. The claim policy of a
// token names what its person may do, such as readonly.
func Start(t testing.TB, issuer string) (url string) {
	t.Helper()
	root, err := local.Root()
	if err != nil {
		t.Fatal(err)
	}
	port, err := local.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	command := exec.Command(filepath.Join(root, "test/.cache/minio/minio"), "server", t.TempDir(), "--address", address)
	command.Env = []string{
		"HOME=" + t.TempDir(), "MINIO_ROOT_USER=root-of-the-tests", "MINIO_ROOT_PASSWORD=password-of-the-tests", "MINIO_BROWSER=off", "MINIO_UPDATE=off",
		"MINIO_IDENTITY_OPENID_CONFIG_URL=" + issuer + "/.well-known/openid-configuration", "MINIO_IDENTITY_OPENID_CLIENT_ID=" + ClientID, "MINIO_IDENTITY_OPENID_CLAIM_NAME=policy",
	}
	url = "http://" + address
	local.StartServer(t, command, url+"/minio/health/ready", time.Minute)
	return url
}
