package overlay

import (
	"io/fs"
	"slices"
	"strings"
)

// Bounds of the search for files that look like secrets.
const (
	exposedDepth = 3 // directories, in a mount without patterns
	maxExposed   = 5
)

// secretNames are files that hold credentials, as programs name them.
var secretNames = []string{
	".env", ".netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials", ".dockercfg", ".htpasswd", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519",
	"credentials.json", "service-account.json", "kubeconfig", "terraform.tfstate", "master.key",
}

// expose notes a visible file whose name is that of a secret.
func (r *resolver) expose(inside string, e fs.DirEntry) {
	name := strings.ToLower(e.Name())
	secret := slices.Contains(secretNames, name) || strings.HasSuffix(name, ".pem") || strings.HasSuffix(name, ".p12") || strings.HasSuffix(name, ".pfx") ||
		strings.HasPrefix(name, ".env.") && !strings.HasSuffix(name, ".example") && !strings.HasSuffix(name, ".sample") && !strings.HasSuffix(name, ".template")
	if secret && e.Type().IsRegular() && len(r.out.Exposed) < maxExposed {
		r.out.Exposed = append(r.out.Exposed, inside)
	}
}
