package build

import (
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// steps holds the scripts that run inside a build. They are fixed; what varies
// reaches them as arguments.
//
//go:embed steps/entry.cjs steps/entry.py steps/packages.cjs steps/packages.py
var steps embed.FS

// appUser runs npm's and PyPI's code, while it is installed and after.
const appUser = "10001:10001"

// caPath is where certificates are kept in an image that was asked to trust more.
const caPath = "/etc/thv/ca.crt"

// installation is a package to install on a base image.
type installation struct {
	scheme   string
	name     string
	version  string // as resolved
	base     string // image reference
	registry string // URL of a registry or index other than the default one
	packages []string
	args     []string
	certs    []byte // trusted while installing
	keepCA   bool   // and afterwards
}

// words is a command of a Dockerfile. It has exec form only, which no shell
// reads and in which the builder replaces no variables.
type words []string

func (w words) String() string {
	b, err := json.Marshal([]string(w))
	if err != nil {
		panic(err) // texts always have a JSON form
	}
	return string(b)
}

// dockerfile has three stages: the base image with its added packages; the
// installation upon that, with certificates and scripts that do not stay; and
// the image itself, which takes over the installed tree alone.
func (in installation) dockerfile() string {
	var d strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&d, format+"\n", args...) }
	trust := func(path string) {
		line("ENV SSL_CERT_FILE=%s PIP_CERT=%s REQUESTS_CA_BUNDLE=%s NODE_EXTRA_CA_CERTS=%s", path, path, path, path)
	}
	interpreter, script := "node", ".cjs"
	if in.scheme == schemeUVX {
		interpreter, script = "python3", ".py"
	}

	line("FROM %s AS system", in.base)
	line("USER 0:0")
	if len(in.packages) > 0 {
		line("COPY thv /thv")
		command := words{interpreter, "/thv/packages" + script}
		if len(in.certs) > 0 {
			// The environment of this one command; an ENV would stay in the image.
			command = append(words{"env", "SSL_CERT_FILE=/thv/ca.crt"}, command...)
		}
		line("RUN %s", append(command, in.packages...))
	}

	line("FROM system AS install")
	line("COPY thv /thv")
	line("RUN %s", words{"mkdir", "-p", "/app"})
	line("RUN %s", words{"chown", appUser, "/app"})
	line("USER %s", appUser)
	line("WORKDIR /app")
	line("ENV HOME=/app")
	if len(in.certs) > 0 {
		trust("/thv/ca.crt")
	}
	for _, command := range in.commands() {
		line("RUN %s", command)
	}

	line("FROM system")
	line("COPY --from=install --chown=%s /app /app", appUser)
	line("ENV HOME=/app PYTHONUNBUFFERED=1 NODE_ENV=production")
	if in.keepCA {
		line("COPY thv/ca.crt %s", caPath)
		trust(caPath)
	}
	line("USER %s", appUser)
	line("WORKDIR /app")
	// A base image's own command would become arguments.
	line("CMD []")
	line("ENTRYPOINT %s", append(words{entrypoint}, in.args...))
	return d.String()
}

// commands install the package and link its executable.
func (in installation) commands() []words {
	if in.scheme == schemeUVX {
		install := words{"/app/venv/bin/pip", "install", "--no-cache-dir", "--disable-pip-version-check", "--no-input"}
		if in.registry != "" {
			install = append(install, "--index-url="+in.registry)
		}
		return []words{
			{"python3", "-m", "venv", "/app/venv"},
			append(install, "--", in.name+"=="+in.version),
			{"/app/venv/bin/python3", "/thv/entry.py", in.name},
		}
	}
	install := words{"npm", "install", "--prefix=/app", "--cache=/tmp/npm", "--omit=dev", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"}
	if in.registry != "" {
		install = append(install, "--registry="+in.registry)
	}
	return []words{
		append(install, "--", in.name+"@"+in.version),
		{"node", "/thv/entry.cjs", in.name},
	}
}

// context is the tar that the engine builds from.
func (in installation) context() (io.Reader, error) {
	files := []file{
		{name: "Dockerfile", content: []byte(in.dockerfile())},
		{name: "thv/", dir: true, mode: 0o755},
	}
	for _, name := range []string{"entry.cjs", "entry.py", "packages.cjs", "packages.py"} {
		text, err := steps.ReadFile("steps/" + name)
		if err != nil {
			return nil, fmt.Errorf("make the build context: %w", err)
		}
		files = append(files, file{name: "thv/" + name, content: text})
	}
	if len(in.certs) > 0 {
		files = append(files, file{name: "thv/ca.crt", content: in.certs})
	}
	return packTree(files)
}
