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
//go:embed steps/*.cjs steps/*.py steps/*.sh
var steps embed.FS

// appUser runs npm's and PyPI's code, while it is installed and after.
const (
	appID   = "10001"
	appUser = appID + ":" + appID
)

// caPath is where certificates are kept in an image that is to trust more of them.
const caPath = "/etc/thv/ca.crt"

// settingsDir is where the installer's configuration is in a build context: not
// beside the scripts, which may come into the image's own layers.
const settingsDir = "settings"

// installation is a package to install on a base image.
type installation struct {
	scheme   string
	name     string
	version  string // as resolved
	base     string // image reference
	registry string // URL of a registry or index other than the default one; no password
	settings []byte // configuration file of npm or pip; may hold passwords
	packages []string
	args     []string
	certs    []byte // trusted while installing
	keepCA   bool   // and afterwards
	maker    string // Config.Store
	program  string // path of the compiled program of a Go package
}

// words are a command of a Dockerfile. It has exec form only, which no shell
// reads and in which the builder replaces no variables.
type words []string

func (w words) String() string {
	b, err := json.Marshal([]string(w))
	if err != nil {
		panic(err) // texts always have a JSON form
	}
	return string(b)
}

// dockerfiles are two. The first installs the package, with certificates,
// settings and scripts that do not stay. The second makes the image: it takes the
// installed tree alone out of stage, the image that the first became. They are
// not stages of one file because a builder leaves those behind as images without
// a name, which fill the disk and may hold a registry's password; the image of
// the first has a name to remove it by. A Go package has the second one only.
func (in installation) dockerfiles(stage string) (first, second string) {
	return in.installFile(), in.imageFile(stage)
}

// lines writes a Dockerfile.
type lines struct{ strings.Builder }

func (l *lines) add(format string, args ...any) { fmt.Fprintf(l, format+"\n", args...) }

func (l *lines) trust(path string) {
	l.add("ENV SSL_CERT_FILE=%s PIP_CERT=%s REQUESTS_CA_BUNDLE=%s NODE_EXTRA_CA_CERTS=%s", path, path, path, path)
}

// script is a command that runs one of our scripts by the base image's own
// interpreter.
func (in installation) script(name string, args ...string) words {
	if in.scheme == schemeUVX {
		return append(words{"python3", "/thv/" + name + ".py"}, args...)
	}
	return append(words{"node", "/thv/" + name + ".cjs"}, args...)
}

// system begins both files alike, so that the second finds the first's layers.
func (in installation) system() *lines {
	l := &lines{}
	l.add("FROM %s", in.base)
	// A build that is killed leaves its last step as an image without a name.
	l.add("LABEL %s=%s %s=%q", labelStep, stepYes, labelMaker, in.maker)
	l.add("USER 0:0")
	if len(in.packages) > 0 {
		l.add("COPY thv /thv")
		command := append(words{"/bin/sh", "/thv/packages.sh"}, in.packages...)
		if len(in.certs) > 0 {
			// The environment of this one command; an ENV would stay in the image.
			command = append(words{"env", "SSL_CERT_FILE=/thv/ca.crt"}, command...)
		}
		l.add("RUN %s", command)
	}
	// The home of the server, which runs as any user (container.AnyUser). COPY of a
	// directory copies its content alone, so the mode is set in both files.
	l.add("RUN %s", words{"install", "-d", "-m", "0777", "-o", appID, "-g", appID, "/app"})
	return l
}

func (in installation) installFile() string {
	l := in.system()
	l.add("COPY thv /thv")
	l.add("RUN %s", in.script("user", appID))
	if len(in.settings) > 0 {
		l.add("COPY --chown=%s %s /settings/", appUser, settingsDir)
		l.add("ENV NPM_CONFIG_USERCONFIG=/settings/config PIP_CONFIG_FILE=/settings/config")
	}
	l.add("USER %s", appUser)
	l.add("WORKDIR /app")
	l.add("ENV HOME=/app")
	if len(in.certs) > 0 {
		l.trust("/thv/ca.crt")
	}
	for _, command := range in.commands() {
		l.add("RUN %s", command)
	}
	l.add("RUN %s", words{"chmod", "-R", "a+rwX", "/app"})
	return l.String()
}

func (in installation) imageFile(stage string) string {
	l := in.system()
	if in.program != "" {
		l.add("COPY --chown=%s app /app", appUser)
	} else {
		l.add("COPY --from=%s --chown=%s /app /app", stage, appUser)
		l.add("COPY --from=%s /etc/passwd /etc/group /etc/", stage)
	}
	l.add("ENV HOME=/app PYTHONUNBUFFERED=1 NODE_ENV=production")
	if in.keepCA {
		l.add("COPY thv/ca.crt %s", caPath)
		l.trust(caPath)
	}
	l.add("USER %s", appUser)
	l.add("WORKDIR /app")
	// A base image's own command would become arguments.
	l.add("CMD []")
	l.add("ENTRYPOINT %s", append(words{entrypoint}, in.args...))
	return l.String()
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
		in.script("entry", in.name),
	}
}

// context is the tar that the engine builds from. Only the first Dockerfile's has
// the settings.
func (in installation) context(dockerfile string, settings []byte) (io.Reader, error) {
	files := []file{
		{name: "Dockerfile", content: []byte(dockerfile)},
		{name: "thv/", dir: true, mode: 0o755},
	}
	entries, err := steps.ReadDir("steps")
	if err != nil {
		return nil, fmt.Errorf("make the build context: %w", err)
	}
	for _, entry := range entries {
		text, err := steps.ReadFile("steps/" + entry.Name())
		if err != nil {
			return nil, fmt.Errorf("make the build context: %w", err)
		}
		files = append(files, file{name: "thv/" + entry.Name(), content: text})
	}
	if len(settings) > 0 {
		files = append(files,
			file{name: settingsDir + "/", dir: true, mode: 0o755},
			file{name: settingsDir + "/config", mode: 0o600, content: settings})
	}
	if len(in.certs) > 0 {
		files = append(files, file{name: "thv/ca.crt", content: in.certs})
	}
	if in.program != "" {
		files = append(files, file{name: "app/", dir: true, mode: 0o755}, file{name: entrypoint[1:], mode: 0o755, path: in.program})
	}
	return packTree(files)
}
