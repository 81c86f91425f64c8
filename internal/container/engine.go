// Package container describes what Toolhaven uses of a container engine. The
// implementation over the Docker API, which Podman and others serve too, is in
// container/docker; container/enginetest is the suite every implementation
// passes.
package container

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"strings"
)

// Errors that callers decide on. Implementations wrap them.
var (
	// ErrNotFound: no such image, container or network.
	ErrNotFound = errors.New("not found")
	// ErrUnavailable: no engine answers.
	ErrUnavailable = errors.New("container engine not available")
	// ErrNameTaken: a container of that name exists.
	ErrNameTaken = errors.New("name already in use")
	// ErrInUse: a container needs it.
	ErrInUse = errors.New("in use")
	// ErrUnsupported: the engine has no such call.
	ErrUnsupported = errors.New("not supported by the container engine")
)

// Engine runs containers. Every method may be called concurrently; every error
// names the operation and its object.
type Engine interface {
	// Info describes the engine. It fails with ErrUnavailable when no
	// engine answers.
	Info(ctx context.Context) (Info, error)

	// Image describes a local image by reference or id. ErrNotFound when the
	// engine does not have it.
	Image(ctx context.Context, ref string) (Image, error)
	// Pull fetches an image from its registry and reports progress, which may
	// be nil. ErrNotFound when the registry has no such image.
	Pull(ctx context.Context, ref string, progress func(Progress)) error
	// Load takes an image in the tar form of `docker save`.
	Load(ctx context.Context, image io.Reader) error
	// Build builds an image from a context tar that holds a Dockerfile.
	Build(ctx context.Context, b Build) error
	// RemoveImage removes a local image, or one of its tags. Removing one that is gone is
	// no error. ErrInUse when a container is made of it.
	RemoveImage(ctx context.Context, ref string) error
	// Images lists the local images that carry all the labels. A value of "" stands for
	// any. They have an ID, Tags, Digests, Labels and a Size.
	Images(ctx context.Context, labels map[string]string) ([]Image, error)
	// RegistryDigest is the digest that a reference has at its registry now. Nothing is
	// downloaded. ErrNotFound when the registry has no such image, ErrUnsupported when the
	// engine (Podman) does not look it up.
	RegistryDigest(ctx context.Context, ref string) (string, error)

	// EnsureNetwork creates the bridge network unless it exists. Containers on
	// it cannot reach each other.
	EnsureNetwork(ctx context.Context, name string) error
	// Gateway is the address by which containers on the engine's default bridge reach
	// the machine that they run on.
	Gateway(ctx context.Context) (netip.Addr, error)

	// Create makes a container, not started. ErrNameTaken, or ErrNotFound for
	// the image.
	Create(ctx context.Context, c Config) (id string, err error)
	// CopyTo unpacks a tar stream at path in a container that is not running.
	CopyTo(ctx context.Context, id, path string, tar io.Reader) error
	// Attach connects to the container's standard streams. Called before Start,
	// so that nothing is lost.
	Attach(ctx context.Context, id string) (*Streams, error)
	Start(ctx context.Context, id string) error
	// Wait returns the exit status when the container is no longer running.
	Wait(ctx context.Context, id string) (ExitStatus, error)
	// Remove deletes a container, killing it if it runs, with its anonymous
	// volumes. Removing one that is gone is no error.
	Remove(ctx context.Context, id string) error
	// Inspect describes a container by name or id.
	Inspect(ctx context.Context, id string) (Container, error)
	// DiskUsage returns the bytes that a container has written: those in its own layer and
	// in its anonymous volumes. The engine walks their files, which can take long.
	DiskUsage(ctx context.Context, id string) (int64, error)
	// List returns containers, running or not, that carry all the labels.
	List(ctx context.Context, labels map[string]string) ([]Container, error)

	Close() error
}

// Info describes an engine.
type Info struct {
	Name       string // "Docker", "Podman"
	Version    string
	APIVersion string
	OS         string // GOOS form: linux
	Arch       string // GOARCH form: amd64, arm64
	Rootless   bool
	Socket     string // the address that answered

	Kernel string // its version, as the engine reports it
	Cgroup string // version of the control groups: "1" or "2"
	// Security are the engine's security options, such as "seccomp,profile=default",
	// "apparmor", "selinux", "userns".
	Security []string
	// Whether the engine can limit memory, processes and processors.
	LimitsMemory, LimitsProcesses, LimitsCPUs bool
	// Storage is the engine's storage driver. DiskQuota: it can bound a container's own layer.
	// Root is the directory, on the engine's machine, that has the containers' files.
	Storage   string
	DiskQuota bool
	Root      string
}

// LabelUser, of the value AnyUser, is on images that run as whichever user they are
// started as: every user may read all of their files.
const (
	LabelUser = "dev.toolhaven.user"
	AnyUser   = "any"
)

// Image describes a local image.
type Image struct {
	ID           string   // sha256:...
	Tags         []string // references; none for an image whose tag has moved
	Digests      []string // REPOSITORY@sha256:..., of the registries that it is from
	Size         int64    // bytes
	OS, Arch     string
	Entrypoint   []string
	Cmd          []string
	Env          []string
	User         string
	Labels       map[string]string
	ExposedPorts []int // TCP, ascending
}

// Progress is one step of a pull or build. Total is 0 when unknown.
type Progress struct {
	ID      string // layer, or step
	Status  string // "Downloading", "Extracting", ...
	Current int64  // bytes
	Total   int64  // bytes
}

// Build is an image to build.
type Build struct {
	Context    io.Reader // tar with a Dockerfile at its root
	Tags       []string
	Labels     map[string]string
	NetworkOff bool              // build steps have no network
	Log        func(line string) // the builder's output; may be nil
}

// Config is a container to create. Every container is hardened the same way by
// the implementation: all capabilities dropped, no new privileges, limits.
//
// With SetUp the entry point, which must be a program of ours, begins with more,
// so that it can set up the container's own network: as root, whoever the image's
// user is, with CAP_NET_ADMIN, and with what it takes to give all of that up
// (CAP_SETUID, CAP_SETGID, CAP_CHOWN, CAP_SETPCAP). It has to do so before it runs
// anything of the image. A container on a network that may not be its own, or
// privileged, is refused.
type Config struct {
	Name       string
	Image      string // reference or id that the engine has
	Entrypoint []string
	Args       []string
	Env        []string // KEY=VALUE
	Labels     map[string]string
	Mounts     []Mount
	Publish    []Port
	User       string // uid:gid; "" is the image's user. With SetUp, the entry point becomes it
	Network    string // "none", "host", a network's name, or a mode; "" is the engine's default bridge
	Privileged bool   // keep capabilities; only when a profile requests it
	SetUp      bool   // see above
	IPv6       bool   // its loopback interface has IPv6, also where the engine's default is without
	Memory     int64  // bytes; 0 is the default limit
	Pids       int64  // processes; 0 is the default limit
	// NanoCPUs bounds the processors, in billionths of one; 0 is no bound.
	NanoCPUs int64
	// Disk bounds the container's own layer, in bytes, on an engine whose storage can; 0 is
	// no bound. See [Engine] DiskUsage for the others.
	Disk int64
}

// Limits of a container that names none.
const (
	DefaultMemory = 2 << 30 // bytes
	DefaultPids   = 1024
)

// OwnNetwork reports whether a container with the value as its Network has a network
// namespace of its own. What an unnamed network is, the engine's configuration decides: in
// Podman's it can be the host's. A mode with a colon can join another one: container:NAME.
func OwnNetwork(network string) bool {
	return network != "" && network != "host" && !strings.Contains(network, ":")
}

// Mount is a host path made visible in a container.
type Mount struct {
	Source   string // absolute host path
	Target   string // absolute container path
	ReadOnly bool
	Relabel  string // "", "z" (shared) or "Z" (private): SELinux
}

// Port publishes a container's TCP port on a host address.
type Port struct {
	HostIP        string // "" is 127.0.0.1
	HostPort      int    // 0: the engine picks
	ContainerPort int
}

// ExitStatus is how a container ended.
type ExitStatus struct {
	Code int
	// OOMKilled: memory ran out. An engine that does not report it (one
	// exit in 60 of Docker 20.10, whose monitor may find the cgroup gone) leaves
	// it open: the code is 137 all the same.
	OOMKilled bool
}

// Container is one that exists.
type Container struct {
	ID, Name  string
	State     string // created, running, exited, ...
	Labels    map[string]string
	IP        string // first address, "" when none
	HostPorts []Port // as published
}

// Streams are a container's standard streams. Closing them detaches; the
// container's standard input then ends.
// Standard error that is not read does not hold up the standard output: past a
// bound its oldest bytes are dropped, and a line in the stream reports that.
type Streams struct {
	Stdin  io.WriteCloser
	Stdout io.Reader
	Stderr io.Reader
	Close  func() error
}
