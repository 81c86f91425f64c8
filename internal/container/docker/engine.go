// Package docker is the container engine over the Docker Engine API, as Docker
// and, through its compatible socket, Podman serve it. It is the only package
// that imports the engine's client.
//
// [Connect] finds an engine; the [Engine] it returns implements
// container.Engine. API versions from 1.40 on are supported, negotiated with the
// engine. This package makes up for differences between the two engines: see
// [Engine.EnsureNetwork].
package docker

import (
	"net/http"
	"sync/atomic"

	"github.com/moby/moby/client"

	"github.com/toolhaven/toolhaven/internal/container"
)

// Engine is one engine that has answered. Create it with [Connect]. Its methods on
// images, containers and networks are those of the embedded types, which share its
// connection.
type Engine struct {
	*connection
	images
	containers
	networks
}

// connection is the client of one engine and the properties of that engine.
type connection struct {
	api     *client.Client
	address string
	env     func(string) string
	podman  atomic.Bool // from the headers of its responses
}

func newEngine(c *connection) *Engine {
	networks := networks{connection: c}
	return &Engine{
		connection: c,
		images:     images{connection: c},
		containers: containers{connection: c, networks: networks},
		networks:   networks,
	}
}

var _ container.Engine = (*Engine)(nil)

// notice detects Podman by a header of its responses.
func (c *connection) notice(r *http.Response) {
	if r.Header.Get("Libpod-Api-Version") != "" {
		c.podman.Store(true)
	}
}

// Close releases idle connections.
func (e *Engine) Close() error { return e.api.Close() }
