// Package serve makes what serves the clients of a workload, from its description: the
// stages of the gateway, the backend of a server that is reached over HTTP, the process's own
// session with the server, and the HTTP server.
//
// It is what package owner (a workload of this machine) and package pod (one of a cluster)
// have in common. It keeps no container and no state on disk.
package serve
